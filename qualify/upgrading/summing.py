"""One target's upgrade in figures: what each of its reports says before any single row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from assay.qualify.workaround_verdicts import KEEP

from .comparing import SPILL_COUNTS
from .records import KINDS, Chosen, Pair, Row, TargetUpgrade

_REGISTERS = ("vgpr_count", "register_count")


@dataclass(frozen=True, slots=True)
class Total:
    """A figure summed over the rows that have it on both sides.  typical: median of the relative changes."""

    before: int
    after: int
    rows: int
    typical: float
    rose: int
    fell: int


@dataclass(frozen=True, slots=True)
class SpillChanges:
    """Candidates that both compilers compiled, by what became of their spills; worst first in `changed`."""

    candidates: int
    spilling_before: int
    spilling_after: int
    changed: tuple[tuple[Pair, int, int], ...]


@dataclass(frozen=True, slots=True)
class IrFigures:
    """Candidates that both compiled: IR equal, of these the machine code differs, and of these spills rose."""

    candidates: int
    ir_equal: int
    code_differs: int
    spills_rose: int


@dataclass(frozen=True, slots=True)
class WorkaroundFigures:
    """One workaround under one compiler.  against: how many plain forms broke each criterion.  executed: median of
    the relative differences in executed instructions, None where none was counted on both forms."""

    name: str
    family: str
    verdict: str
    comparisons: int
    kept: int
    against: Mapping[str, int]
    executed: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """kinds: rows by what became of them.  totals: by figure.  errors: the largest under each compiler."""

    kinds: Mapping[str, int]
    totals: Mapping[str, Total]
    spills: SpillChanges
    ir: IrFigures
    errors: tuple[float | None, float | None]
    workarounds: tuple[tuple[WorkaroundFigures, ...], tuple[WorkaroundFigures, ...]]


_FIGURES: tuple[tuple[str, Callable[[Chosen], int | None]], ...] = (
    ("registers", lambda chosen: next((v for n in _REGISTERS if (v := chosen.form.resource(n)) is not None), None)),
    ("SGPRs", lambda chosen: chosen.form.resource("sgpr_count")),
    ("instructions in the binary", lambda chosen: chosen.instructions),
    ("executed instructions", lambda chosen: chosen.executed),
    ("code bytes", lambda chosen: chosen.form.resource("code_bytes")),
    ("resident waves", lambda chosen: chosen.waves),
)


def summary_of(upgrade: TargetUpgrade) -> Summary:
    """All of it, from the rows and candidates."""
    totals = {name: total for name, figure in _FIGURES if (total := _total(upgrade.rows, figure))}
    return Summary(
        kinds={kind: upgrade.count(kind) for kind in KINDS},
        totals=totals,
        spills=_spills(upgrade.pairs),
        ir=_ir(upgrade.pairs),
        errors=(_largest(row.before for row in upgrade.rows), _largest(row.after for row in upgrade.rows)),
        workarounds=(
            tuple(map(_workaround, upgrade.before.workarounds)),
            tuple(map(_workaround, upgrade.after.workarounds)),
        ),
    )


def _total(rows: Iterable[Row], figure: Callable[[Chosen], int | None]) -> Total | None:
    known = []
    for row in rows:
        if row.before and row.after:
            before, after = figure(row.before), figure(row.after)
            if before is not None and after is not None:
                known.append((before, after))
    if not known:
        return None
    return Total(
        sum(before for before, _ in known),
        sum(after for _, after in known),
        len(known),
        median((after - before) / max(before, 1) for before, after in known),
        sum(after > before for before, after in known),
        sum(after < before for before, after in known),
    )


def _spills(pairs: Iterable[Pair]) -> SpillChanges:
    known = [
        (pair, before, after)
        for pair in pairs
        if (before := pair.before.spills(SPILL_COUNTS)) is not None
        and (after := pair.after.spills(SPILL_COUNTS)) is not None
    ]
    changed = sorted((item for item in known if item[1] != item[2]), key=lambda item: item[1] - item[2])
    return SpillChanges(
        len(known),
        sum(before > 0 for _, before, _ in known),
        sum(after > 0 for _, _, after in known),
        tuple(changed),
    )


def _ir(pairs: Iterable[Pair]) -> IrFigures:
    listed = list(pairs)
    equal = [pair for pair in listed if pair.ir_equal]
    differing = [pair for pair in equal if not pair.code_equal]
    rose = [
        pair for pair in differing if (pair.after.spills(SPILL_COUNTS) or 0) > (pair.before.spills(SPILL_COUNTS) or 0)
    ]
    return IrFigures(len(listed), len(equal), len(differing), len(rose))


def _largest(chosen: Iterable[Chosen | None]) -> float | None:
    return max((item.largest_error for item in chosen if item and item.largest_error is not None), default=None)


def _workaround(watched: Mapping[str, Any]) -> WorkaroundFigures:
    comparisons = watched["comparisons"]
    against = Counter(
        criterion["name"]
        for comparison in comparisons
        for criterion in comparison["criteria"]
        if criterion["holds"] is False
    )
    executed = [
        (plain - current) / current
        for comparison in comparisons
        if (current := comparison["workaround"]["executed"]) and (plain := comparison["plain"]["executed"]) is not None
    ]
    return WorkaroundFigures(
        watched["name"],
        watched["family"],
        watched["verdict"],
        len(comparisons),
        sum(comparison["verdict"] == KEEP for comparison in comparisons),
        dict(against.most_common()),
        median(executed) if executed else None,
    )
