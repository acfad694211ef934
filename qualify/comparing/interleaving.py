"""The lines of a rendered source that instructions come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .listing import Line

# `<rendered 0123>:12`, as LLVM's and NVIDIA's line tables have it; code inlined from elsewhere names it last.
_RENDERED = re.compile(r"<rendered [0-9a-f]+>\"?(?::|, line )(\d+)")


def source_rows(lines: Sequence[Line], source: str) -> Mapping[int, tuple[str, ...]]:
    """Position of an instruction → the source line to show before it; only where the line changes.

    source: the rendered source; without one nothing is shown.
    """
    texts = source.splitlines()
    found: dict[int, tuple[str, ...]] = {}
    last = 0
    for at, line in enumerate(lines):
        numbers = [int(number) for mark in line.sources for number in _RENDERED.findall(mark)]
        if numbers and numbers[-1] != last and 0 < numbers[-1] <= len(texts):
            last = numbers[-1]
            found[at] = (f"{last:>4}: {texts[last - 1]}",)
    return found
