"""Whether the plain form of a kernel is as good as its workaround: criterion by criterion, each with its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.codegen.spec_models import Workaround

from .executing import FAIL, PASS
from .gates import Judgement, count_instruction

KEEP, CAN_GO, UNDECIDED = "keep", "can go", "undecided"
# What the workaround may not have less of than its plain form; a figure that a target's binaries lack is None.
SPILLS = (
    *("vgpr_spill_count", "sgpr_spill_count", "scratch_bytes"),
    *("stack_bytes", "local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes"),
)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question about a plain form.  holds: None where nothing here can tell.  said: the figures."""

    name: str
    holds: bool | None
    said: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant with its workaround, its plain form, and what speaks against the plain form."""

    current: Judgement
    plain: Judgement
    criteria: tuple[Criterion, ...]

    @property
    def can_go(self) -> bool:
        return all(criterion.holds for criterion in self.criteria)

    @property
    def verdict(self) -> str:
        """KEEP where any criterion is known not to hold, UNDECIDED where one is not known and none is known not to."""
        if any(criterion.holds is False for criterion in self.criteria):
            return KEEP
        return CAN_GO if self.can_go else UNDECIDED

    @property
    def same_launch(self) -> bool:
        return self.plain.variant.candidate.launch == self.current.variant.candidate.launch

    def better_than(self, other: Comparison) -> bool:
        """By the verdict; of two that are kept the first stays, unless it could not even be read."""
        return self._rank() < other._rank()

    def _rank(self) -> tuple[int, bool]:
        return (CAN_GO, UNDECIDED, KEEP).index(self.verdict), self.plain.resources is None


@dataclass(frozen=True, slots=True)
class WatchedWorkaround:
    """One workaround of a family on a target, with every comparison; none where `when` holds for nothing there."""

    family: str
    workaround: Workaround
    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> str:
        """CAN_GO only where it can go everywhere; '' where there is nothing to compare."""
        verdicts = {comparison.verdict for comparison in self.comparisons}
        if not verdicts:
            return ""
        return next(verdict for verdict in (KEEP, UNDECIDED, CAN_GO) if verdict in verdicts)


def compare(workaround: Workaround, current: Judgement, plain: Judgement) -> Comparison:
    """Judge a plain form that was built, and executed where that could be."""
    criteria = (
        _passes_gates(plain),
        *([_converts(workaround, plain)] if workaround.hardware else []),
        _spills(current, plain),
        _correct(plain),
        _executes_no_more(current, plain),
    )
    return Comparison(current, plain, criteria)


def worth_executing(workaround: Workaround, current: Judgement, plain: Judgement, *, first: bool) -> bool:
    """Whether a plain form exists, and is the first or may still be as good."""
    if plain.resources is None:
        return False
    static = (_passes_gates(plain), _converts(workaround, plain), _spills(current, plain))
    return first or all(criterion.holds for criterion in static)


def _passes_gates(plain: Judgement) -> Criterion:
    levels = {execution.level for execution in plain.executions}
    reasons = [str(reason) for reason in plain.reasons if reason.budget not in levels]
    return Criterion("passes the static gates", not reasons, "; ".join(reasons) or "all")


def _converts(workaround: Workaround, plain: Judgement) -> Criterion:
    found = hardware_count(workaround, plain)
    said = f"{found or 0} of {', '.join(workaround.hardware)}"
    return Criterion("hardware instruction present", found is None or found > 0, said)


def hardware_count(workaround: Workaround, judgement: Judgement) -> int | None:
    """How many of the instructions that the workaround asks for are in the binary; None where it asks for none."""
    if not workaround.hardware:
        return None
    counts = judgement.outcome.instructions or {}
    return sum(count_instruction(counts, name) for name in workaround.hardware)


def spills_of(judgement: Judgement) -> dict[str, int]:
    """The spill figures that the binary tells and that are not 0."""
    if judgement.resources is None:
        return {}
    figures = {name: getattr(judgement.resources, name) for name in SPILLS}
    return {name: int(value) for name, value in figures.items() if value}


def _spills(current: Judgement, plain: Judgement) -> Criterion:
    allowed, found = spills_of(current), spills_of(plain)
    more = {name: value for name, value in found.items() if value > allowed.get(name, 0)}
    said = ", ".join(f"{name} {value:,} against {allowed.get(name, 0):,}" for name, value in more.items())
    return Criterion("no more spills", plain.resources is not None and not more, said or "no more")


def _correct(plain: Judgement) -> Criterion:
    """All cases, those of every code among them, at each level that ran."""
    name = "correct on every case"
    if not plain.executions:
        return Criterion(name, None, "not executed")
    failed = [execution for execution in plain.executions if execution.verdict == FAIL]
    if failed:
        case, fault = failed[0].faults[0] if failed[0].faults else ("all", "no case was run")
        return Criterion(name, False, f"{failed[0].level}: {case}: {fault}")
    passed = all(execution.verdict == PASS for execution in plain.executions)
    cases = max(execution.cases for execution in plain.executions)
    return Criterion(name, passed or None, f"{cases} cases" if passed else "not interpretable")


def _executes_no_more(current: Judgement, plain: Judgement) -> Criterion:
    name, before, after = "no more executed instructions", executed(current), executed(plain)
    if before is None or after is None:
        return Criterion(name, None, "not counted on both sides")
    return Criterion(name, after <= before, f"{after:,} against {before:,}")


def executed(judgement: Judgement) -> int | None:
    """Wave instructions of all cases together; None where no level counted any, or the cases did not come to their end.

    Cases that stopped at a fault count fewer, which must not read as better.
    """
    counted = [item for item in judgement.executions if item.instructions is not None and item.verdict == PASS]
    return sum((counted[0].instructions or {}).values()) if counted else None


def document(watched: WatchedWorkaround) -> dict[str, Any]:
    """What report.json says of one workaround."""
    workaround = watched.workaround
    return {
        "family": watched.family,
        "name": workaround.name,
        "reason": workaround.reason,
        "since": workaround.since,
        "when": dict(workaround.when),
        "alternative": dict(workaround.alternative),
        "verdict": watched.verdict or "nothing to compare",
        "comparisons": [_comparison(workaround, comparison) for comparison in watched.comparisons],
    }


def _comparison(workaround: Workaround, comparison: Comparison) -> dict[str, Any]:
    return {
        "problem": dict(comparison.current.variant.candidate.problem.axes),
        "verdict": comparison.verdict,
        "same_launch": comparison.same_launch,
        "workaround": _form(workaround, comparison.current),
        "plain": _form(workaround, comparison.plain),
        "criteria": [
            {"name": criterion.name, "holds": criterion.holds, "said": criterion.said}
            for criterion in comparison.criteria
        ],
    }


def _form(workaround: Workaround, judgement: Judgement) -> dict[str, Any]:
    errors = [item.largest_error for item in judgement.executions if item.largest_error is not None]
    return {
        "variant": judgement.variant.id,
        "launch": dict(judgement.variant.candidate.launch),
        "resources": judgement.resources.to_dict() if judgement.resources else None,
        "hardware": hardware_count(workaround, judgement),
        "executed": executed(judgement),
        "largest_error": max(errors, default=None),
    }
