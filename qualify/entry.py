"""The console script: turns every way to end into an exit status and a message, never a traceback.

0 done, 1 a gate, the lock or a check failed, 2 bad input or usage, 3 toolchain or environment, 4 the evidence asked for
cannot be produced here.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit status."""
    try:
        from . import cli
    except BaseException as error:
        # Also where a package is broken in another way than being absent: telling that is the doctor's job.
        if arguments[:1] == ["doctor"] and not isinstance(error, KeyboardInterrupt):
            from . import doctoring

            return doctoring.run(as_json="--json" in arguments)
        if not isinstance(error, ModuleNotFoundError) or (error.name or "").startswith("assay"):
            raise
        hint = "install the build extra from a checkout: pip install '.[build]'"
        print(f"assay: the commands need {error.name}; {hint}", file=sys.stderr)
        return 3
    try:
        return cli.run(arguments)
    except KeyboardInterrupt:
        print("assay: interrupted; nothing half-written is left, and finished work is in the cache", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # the last line of defence: a person gets one line, a developer the traceback
        if os.environ.get("ASSAY_TRACEBACK"):
            raise
        print(f"assay: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print(
            "assay: this is a fault of assay; run again with ASSAY_TRACEBACK=1 and report what it prints",
            file=sys.stderr,
        )
        return 3
