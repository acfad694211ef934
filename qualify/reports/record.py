"""What every report is made from: one run, finished, with its figures looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assay.codegen.spec_models import TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.toolchain import Toolchain
from assay.qualify.executing import NOT_INTERPRETABLE
from assay.qualify.gates import Judgement
from assay.qualify.headroom import NearLimit, near_limits
from assay.qualify.lock import LockChange, LockState
from assay.qualify.occupancy import Occupancy, occupancy_of
from assay.qualify.selection import PART_SUFFIX, ProblemResult
from assay.qualify.workaround_verdicts import WatchedWorkaround


@dataclass(frozen=True)
class RunRecord:
    """One finished run of one target and profile.

    status: the exit status.  said: the outcome in words, as the terminal says it.  messages: all that a person is told
    of why the run failed; of these, complaints are about waivers and lock_messages about the lock as a whole.
    watched: workarounds and their plain forms, None where that was not asked for.  only: the part of the profile that
    was asked for, empty for the whole.  evidence: levels asked for.  identity: of the bundle that the run wrote to
    bundle_path, empty where it wrote none.
    """

    specs: SpecSet
    target: TargetFile
    profile: str
    toolchain: Toolchain
    status: int
    said: str
    results: tuple[ProblemResult, ...]
    changes: tuple[LockChange, ...]
    messages: tuple[str, ...]
    complaints: tuple[str, ...]
    lock_messages: tuple[str, ...]
    warnings: tuple[str, ...]
    lock_path: Path
    lock_state: LockState
    only: Mapping[str, tuple[str, ...]]
    evidence: tuple[str, ...]
    bundle_path: Path
    identity: str = ""
    watched: tuple[WatchedWorkaround, ...] | None = None

    @property
    def verdict(self) -> str:
        """`qualified` or `failed`, as report.json spells it."""
        return "qualified" if self.status == 0 else "failed"

    @property
    def outcome(self) -> str:
        """What was said, as one word of report.json: `lock_differs`."""
        return self.said.lower().replace(" ", "_")

    @property
    def name(self) -> str:
        """Target and profile, a part's as its bundle has it: `gfx1201 core.only`."""
        return f"{self.target.target} {self.profile}{PART_SUFFIX if self.only else ''}"

    @property
    def title(self) -> str:
        return f"{self.target.target}{', a part of' if self.only else ''} {self.profile}"

    @cached_property
    def failed(self) -> tuple[ProblemResult, ...]:
        return tuple(result for result in self.results if not result.qualified)

    @cached_property
    def near(self) -> tuple[tuple[ProblemResult, tuple[NearLimit, ...]], ...]:
        """The results whose chosen variant is near a limit, with those limits."""
        found = ((result, self.near_limits_of(result)) for result in self.results)
        return tuple((result, limits) for result, limits in found if limits)

    def near_limits_of(self, result: ProblemResult) -> tuple[NearLimit, ...]:
        """Near limits of the chosen variant; none where none was chosen."""
        return near_limits(result.chosen, self.target, result.family) if result.chosen else ()

    def occupancy_of(self, judgement: Judgement) -> Occupancy | None:
        """Occupancy by what the binary says, None where it does not tell."""
        return occupancy_of(self.target.occupancy, judgement.kernel, judgement.resources)

    @property
    def counts(self) -> str:
        """`250 of 258 problems have a qualified variant; 3 changes to the lock; 20 near a limit`."""
        qualified = len(self.results) - len(self.failed)
        parts = [f"{qualified} of {len(self.results)} problems have a qualified variant"]
        if self.changes:
            parts.append(f"{len(self.changes)} {'change' if len(self.changes) == 1 else 'changes'} to the lock")
        refused = sum(bool(item.chosen and NOT_INTERPRETABLE in item.chosen.evidence.values()) for item in self.results)
        if refused:
            parts.append(f"{refused} not interpretable")
        if self.near:
            parts.append(f"{len(self.near)} within 5 % of a limit")
        return "; ".join(parts)


def reasons_of(judgement: Judgement) -> str:
    """Every broken budget of a candidate, on one line."""
    return "; ".join(str(reason) for reason in judgement.reasons)


def change_details(change: LockChange) -> str:
    """What a lock change is about: `vgpr_count 120 -> 128, code_bytes 4,000 -> 4,400`."""
    return ", ".join(f"{name} {before} -> {now}" for name, before, now in change.details)
