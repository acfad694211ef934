"""The committed record of what qualified: `qualified.<profile>.lock`.

    lock    = header row*
    header  = "schema assay.lock/1" NL "target " name NL "profile " name NL
              "triton " version NL "triton_wheel_sha256 " hex NL
    row     = family " " problem " | " launch " | " figure (" " figure)* " | " evidence NL
    problem, launch = name "=" value (" " name "=" value)*      as the spec spells them
    figure  = resource "=" integer                               from the binary
    evidence = level "=" verdict (" " level "=" verdict)*         levels from the weakest up
    verdict = "pass" | "fail" | "waived(" waiver ("," waiver)* ")" | "not_interpretable"

Text, sorted by family and problem in spec order, so that a pull request shows what it did to every kernel.  Integers
only: no floats, devices, times or paths.  A line starting with "#" is a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from assay.bundle.faults import Fault, FaultsError
from assay.codegen.toolchain import Toolchain

from .selection import ProblemResult

SCHEMA = "assay.lock/1"
# Python refuses to read numbers of thousands of digits, and no figure of a binary has so many.
_MAX_DIGITS = 18
_HEADER = ("schema", "target", "profile", "triton", "triton_wheel_sha256")
# More of these is never better; the others (threads, wavefront, kernarg) have no good direction.
_COSTS = frozenset(
    {"vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack"}
    | {"lds_static_bytes", "lds_dynamic_bytes", "lds_total_bytes", "code_bytes", "register_count", "stack_bytes"}
    | {"local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes"}
)

_SPILLS = frozenset(
    {"vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack", "stack_bytes"}
    | {"local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes"}
)


class LockError(FaultsError):
    """A lock that cannot be read as one; exit status 1, as it cannot confirm anything."""


@dataclass(frozen=True, slots=True)
class LockRow:
    """One chosen variant: which problem, which launch, what its binary says."""

    key: str
    launch: str
    figures: tuple[tuple[str, int], ...]
    evidence: str

    def __str__(self) -> str:
        figures = " ".join(f"{name}={value}" for name, value in self.figures)
        return f"{self.key} | {self.launch} | {figures} | {self.evidence}"


@dataclass(frozen=True, slots=True)
class Lock:
    """A whole lock file."""

    target: str
    profile: str
    toolchain: Toolchain
    rows: tuple[LockRow, ...]

    def __str__(self) -> str:
        head = (
            f"# Written by `assay qualify --update-lock`; compared on every run.\nschema {SCHEMA}\n"
            f"target {self.target}\nprofile {self.profile}\ntriton {self.toolchain.triton_version}\n"
            f"triton_wheel_sha256 {self.toolchain.wheel_sha256}\n"
        )
        return head + "".join(f"{row}\n" for row in self.rows)


# How a run found the lock, or left it.  not_compared: `--update-lock` was asked for and the run failed before it wrote.
LockState = Literal[
    "matches", "differs", "other_compiler_build", "of_another", "missing", "unreadable", "not_compared", "updated"
]
ChangeKind = Literal["new", "gone", "worse", "better", "changed"]


@dataclass(frozen=True, slots=True)
class LockChange:
    """One difference to the lock.  details: what, before, now."""

    kind: ChangeKind
    key: str
    details: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        said = ", ".join(f"{name} {before} -> {now}" for name, before, now in self.details)
        return f"{self.kind}: {self.key}" + (f": {said}" if said else "")


def lock_of(target: str, profile: str, toolchain: Toolchain, results: Iterable[ProblemResult]) -> Lock:
    """The lock that the qualified among the results make."""
    rows = []
    for result in results:
        if result.chosen is None or result.chosen.resources is None:
            continue
        known = {name: int(value) for name, value in result.chosen.resources.to_dict().items() if value is not None}
        launch = result.chosen.variant.candidate.label
        evidence = " ".join(f"{level}={verdict}" for level, verdict in result.chosen.evidence.items())
        rows.append(LockRow(key_of(result), launch, tuple(known.items()), evidence))
    return Lock(target, profile, toolchain, tuple(rows))


def key_of(result: ProblemResult) -> str:
    """What names a result in the lock: family and problem."""
    return f"{result.problem.family} {result.problem.label}"


def read_lock(path: Path) -> Lock | None:
    """The lock at `path`, or None where there is none.  Raises LockError with every bad line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(Fault(str(path), f"cannot be read: {error}", "a lock file")) from None
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    header = dict(line.split(" ", 1) for _, line in lines[: len(_HEADER)] if " " in line)
    hint = "write it anew with --update-lock"
    if tuple(header) != _HEADER or header["schema"] != SCHEMA:
        given = f"header {', '.join(header) or 'missing'}; schema {header.get('schema', 'missing')}"
        raise LockError(Fault(str(path), given, f"{', '.join(_HEADER)}; schema {SCHEMA}", hint))
    faults, rows = [], {}
    for number, line in lines[len(_HEADER) :]:
        row = _parse_row(line)
        if row is None or row.key in rows:
            given = "a problem that stands there twice" if row else "a line that is no row"
            faults.append(Fault(f"{path}:{number}", given, "family problem | launch | figures | evidence", hint))
        else:
            rows[row.key] = row
    if faults:
        raise LockError(faults)
    toolchain = Toolchain(header["triton"], header["triton_wheel_sha256"])
    return Lock(header["target"], header["profile"], toolchain, tuple(rows.values()))


def _parse_row(line: str) -> LockRow | None:
    parts = [part.strip() for part in line.split("|")]
    if len(parts) != 4:
        return None
    figures = []
    for item in parts[2].split():
        name, _, value = item.partition("=")
        if not (name and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS):
            return None
        figures.append((name, int(value)))
    return LockRow(parts[0], parts[1], tuple(figures), parts[3])


def compare(before: Sequence[LockRow], now: Sequence[LockRow]) -> list[LockChange]:
    """Every difference, in the order of `now`; what is gone comes last."""
    old, new = {row.key: row for row in before}, {row.key: row for row in now}
    changes = []
    for key, row in new.items():
        if key not in old:
            changes.append(LockChange("new", key))
        elif row != (known := _at_level_of(row, old[key])):
            changes.append(_row_change(known, row))
    return changes + [LockChange("gone", key) for key in old if key not in new]


def state_of(before: Lock | None, now: Lock, changes: Sequence[LockChange]) -> LockState:
    """What stands first in the way of a run that found the lock `before`; `of_another` target or profile."""
    if before is None:
        return "missing"
    if (before.target, before.profile) != (now.target, now.profile):
        return "of_another"
    if before.toolchain != now.toolchain:
        return "other_compiler_build"
    return "differs" if changes else "matches"


def _at_level_of(row: LockRow, old: LockRow) -> LockRow:
    """The old row with evidence of the new one's levels only: a run at a lower level says nothing of a higher one."""
    levels = _levels(row)
    kept = [item for item in old.evidence.split() if item.partition("=")[0] in levels]
    return replace(old, evidence=" ".join(kept))


def lost_level_warnings(path: Path, now: Lock) -> list[str]:
    """A line for each level of evidence that rows of the lock at `path` have and would not have once `now` replaces it.

    A lock that cannot be read has nothing to lose.
    """
    try:
        before = read_lock(path)
    except LockError:
        return []
    old = {row.key: _levels(row) for row in before.rows} if before else {}
    lost: dict[str, int] = {}
    for row in now.rows:
        for level in sorted(old.get(row.key, set()) - _levels(row)):
            lost[level] = lost.get(level, 0) + 1
    return [
        f"{path} had evidence {level} for {rows} of these rows, this run has not; --evidence {level} keeps it"
        for level, rows in lost.items()
    ]


def _levels(row: LockRow) -> set[str]:
    return {item.partition("=")[0] for item in row.evidence.split()}


def _row_change(old: LockRow, new: LockRow) -> LockChange:
    was, now = dict(old.figures), dict(new.figures)
    details = [("launch", old.launch, new.launch)] if old.launch != new.launch else []
    differing = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    details += [(name, str(was.get(name, "absent")), str(now.get(name, "absent"))) for name in differing]
    if old.evidence != new.evidence:
        details.append(("evidence", old.evidence, new.evidence))
    return LockChange(_direction(was, now, differing, old, new), new.key, tuple(details))


def _direction(
    was: dict[str, int], now: dict[str, int], differing: list[str], old: LockRow, new: LockRow
) -> ChangeKind:
    """worse: a spill, scratch or stack figure rose, or, launch being the same, costs only rose; better: only fell."""
    both = [name for name in differing if name in was and name in now]
    rose = [name for name in both if name in _COSTS and now[name] > was[name]]
    if any(name in _SPILLS for name in rose):
        return "worse"
    only_costs = bool(differing) and len(both) == len(differing) and _COSTS.issuperset(differing)
    if old.evidence != new.evidence or old.launch != new.launch or not only_costs:
        return "changed"
    if len(rose) == len(differing):
        return "worse"
    return "changed" if rose else "better"
