"""The console script: turns every way to end into an exit status and a message, never a traceback.

0 done, 1 a gate, the lock or a check failed, 2 bad input or usage, 3 toolchain or environment, 4 the evidence asked for
cannot be produced here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from typing import Any, TextIO

# What writing to standard output may fail with, other than that nobody reads it.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
# What a CI runner sends, and what a terminal that is closed does.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command line of this process."""
    for number in _ENDING:
        # Where one is ignored, as nohup does, it stays so.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _terminate)
    # Closed by who called, as `>&-` does: nobody reads it, and a file of ours must not get its number.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    sys.exit(run(sys.argv[1:]))


def _nowhere() -> TextIO:
    return open(os.devnull, "w")


def _terminate(number: int, _: Any) -> None:
    """End as an exception does, so that everything open is closed and removed; once is enough."""
    for ending in _ENDING:
        signal.signal(ending, lambda *_: None)
    raise SystemExit(128 + number)


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit status."""
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("assay: interrupted; nothing half-written is left, and finished work is in the cache", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            _drop_output()
            with contextlib.suppress(OSError):  # it may be standard error that has no room
                print(f"assay: cannot write the output: {error.strerror}", file=sys.stderr)
            return 3
        # The last line of defence: a person gets one line, a developer the traceback.
        if os.environ.get("ASSAY_TRACEBACK"):
            raise
        print(f"assay: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print(
            "assay: this is a fault of assay; run again with ASSAY_TRACEBACK=1 and report what it prints",
            file=sys.stderr,
        )
        return 3


def _run(arguments: list[str]) -> int:
    try:
        from . import cli
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code in [128 + number for number in _ENDING]:
            raise
        # Also where a package is broken in another way than being absent: telling that is the doctor's job.
        if arguments[:1] == ["doctor"]:
            from . import doctoring

            return doctoring.run(as_json="--json" in arguments)
        if not isinstance(error, ModuleNotFoundError) or (error.name or "").startswith("assay"):
            raise
        hint = "install the build extra from a checkout: pip install '.[build]'"
        print(f"assay: the commands need {error.name}; {hint}", file=sys.stderr)
        return 3
    return cli.run(arguments)


def _drop_output() -> None:
    """What is left in the buffer would fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
