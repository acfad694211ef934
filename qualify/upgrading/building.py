"""One side of an upgrade: the specs built and judged by `assay qualify` in a compiler's own environment."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle.faults import Fault, FaultsError
from assay.codegen.records import spell
from assay.qualify.executing import EvidenceError

from .environments import CompilerEnvironment, scrubbed
from .requirements import COMPILER

_ENTRY = "import sys; from assay.qualify.entry import main; sys.argv[0] = 'assay'; main()"
# What a compile worker imports of the compiler: a version without one of these cannot be driven.
_PROBE = (
    f"import {COMPILER}; from {COMPILER}.backends.compiler import GPUTarget; from {COMPILER}.compiler import ASTSource"
)
_PROBE_SECONDS = 120
# Verdicts on kernels, whichever: the report tells more.  4: the evidence asked for cannot be produced here.
_JUDGED, _NO_EVIDENCE = (0, 1), 4
_LAST_LINES = 8
_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")


class BuildFailed(FaultsError):
    """A side that ended without a report, for another reason than its kernels; exit status 3."""


@dataclass(frozen=True)
class BuildRequest:
    """What both sides build.  evidence: levels asked for; none: the target's own.  cache: shared by all sides."""

    profile: str
    specs: Path
    only: Mapping[str, tuple[str, ...]]
    evidence: tuple[str, ...]
    jobs: int
    time_limit: float
    cache: Path

    def arguments(self, target: str, out: Path) -> list[str]:
        """The command line of one side."""
        given = [
            *("qualify", "--target", target, "--profile", self.profile, "--specs", str(self.specs.absolute())),
            *("--out", str(out), "--update-lock", "--report", "json", "--workarounds"),
            *("--jobs", str(self.jobs), "--time-limit", repr(self.time_limit)),
        ]
        given += [item for level in self.evidence for item in ("--evidence", level)]
        return [*given, "--only", self.chosen] if self.chosen else given

    @property
    def chosen(self) -> str:
        """The part, as `--only` takes it."""
        return ",".join(f"{name}={spell(value)}" for name, values in self.only.items() for value in values)


# Hears how many problems there are; what it returns hears a line about each one that is finished.
Progress = Callable[[int], Callable[[str], None]]


def why_unusable(environment: CompilerEnvironment, links: Path) -> str:
    """Why nothing can be compiled with an environment's compiler, '' where something can."""
    command = [str(environment.python), "-c", _PROBE]
    try:
        done = subprocess.run(
            command,
            env=_variables(links, None),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"cannot be imported: not done after {_PROBE_SECONDS} s"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"cannot be imported: {said[-1] if said else _ended(done.returncode)}"


def build(
    environment: CompilerEnvironment, target: str, request: BuildRequest, links: Path, out: Path, progress: Progress
) -> dict[str, Any]:
    """The report (`assay.qualify/1`) of one target built with one compiler; artefacts go below `out`.

    Kernels that fail are in the report.  Raises BuildFailed with the last lines that were printed where there is none,
    and EvidenceError where the evidence asked for cannot be produced here.
    """
    for before in out.glob(f"{target}/report*.json"):
        before.unlink()
    command = [str(environment.python), "-c", _ENTRY, *request.arguments(target, out)]
    status, said = _run(command, _variables(links, request.cache), progress)
    what = f"{COMPILER} {environment.version} on {target}"
    reports = list(out.glob(f"{target}/report*.json"))
    if status in (*_JUDGED, _NO_EVIDENCE) and len(reports) == 1:
        return json.loads(reports[0].read_text(encoding="utf-8"))
    if status == _NO_EVIDENCE:
        raise EvidenceError([Fault(what, line) for line in said] or Fault(what, "no evidence can be produced"))
    given = f"`assay qualify` {_ended(status)} without a report"
    raise BuildFailed([Fault(what, given), *(Fault(what, line) for line in said)])


def _variables(links: Path, cache: Path | None) -> dict[str, str]:
    """The environment of a process on a side: the links are all that it finds besides its own packages."""
    given = {**scrubbed(), "PYTHONPATH": str(links)}
    return given if cache is None else {**given, "ASSAY_CACHE_DIR": str(cache.absolute())}


def _run(command: list[str], variables: dict[str, str], progress: Progress) -> tuple[int, list[str]]:
    """Exit status, and the last lines that were no progress.  A side that is interrupted is waited for."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    advance: Callable[[str], None] | None = None
    with subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stderr or ():
            if told := _PROGRESS.match(line):
                # Counting starts again with the next kind of work.
                advance = progress(int(told[2])) if advance is None or told[1] == "1" else advance
                advance(told[3])
            elif line.strip():
                last.append(line.strip())
    return process.returncode, list(last)


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"
