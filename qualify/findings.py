"""What `assay doctor` finds: one line each, and how a probe asks other programs.  Standard library only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem", "absent"]
BUILD_EXTRA_HINT = "install the build extra: pip install '.[build]'"
# Importing torch from a cold disk takes tens of seconds.
_CHILD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line.  warning: something does less than it could; problem: something that was set up does not work."""

    name: str
    state: State
    text: str
    hint: str = ""


Probe = Callable[[], Iterable[Finding]]


def guarded(name: str, probe: Probe) -> list[Finding]:
    """What a probe finds.  Whatever it raises, SystemExit too, is a finding; only a person's interrupt goes through."""
    found: list[Finding] = []
    try:
        found.extend(probe())
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        found.append(Finding(name, "warning", f"cannot be judged without {error.name}", BUILD_EXTRA_HINT))
    except BaseException as error:
        found.append(
            Finding(name, "problem", f"cannot be judged: {_spell(error)}", "this part is broken: reinstall it")
        )
    return found


def _spell(error: BaseException) -> str:
    try:
        said = " ".join(str(error).split())[:300]
    except BaseException:  # an error that cannot be printed is still an error
        said = "(no message)"
    return f"{type(error).__name__}: {said}"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a child process ended.  text: what it printed where it works, otherwise what went wrong, on one line."""

    works: bool
    text: str


def ask(command: list[str]) -> Answer:
    """Run a program and take its output.  Never raises for what the program does; it may crash without harm."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(False, f"no answer within {_CHILD_SECONDS:g} s")
    except OSError as error:
        return Answer(False, error.strerror or str(error))
    if done.returncode == 0:
        return Answer(True, done.stdout.decode(errors="replace").strip())
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["(it printed nothing)"]
    how = f"status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    return Answer(False, f"{how}: {last[0][:300]}")


def ask_python(code: str) -> Answer:
    """The same for a piece of Python: importing a broken package here could end this process."""
    return ask([sys.executable, "-P", "-c", code])
