"""Which shared libraries this process has mapped."""

from __future__ import annotations

import os


def mapped_library(prefix: str) -> str | None:
    """Path of a shared library that this process has mapped already and whose file name starts like this.

    Some frameworks bring a driver library of their own under another name.  A second copy of it in the process would
    know none of the framework's streams.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if f"/{prefix}" in line)
    return next((path for path in paths if os.path.basename(path).startswith(prefix)), None)
