"""Sentences and figures that the terminal and the Markdown report share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.qualify.reports.labels import launch_values, problem_label
from assay.qualify.workaround_verdicts import CAN_GO, KEEP

from .comparing import NOTICEABLE
from .records import Change, Row, Side, TargetUpgrade, Upgrade
from .requirements import COMPILER
from .summing import SpillChanges, Summary, Total, WorkaroundFigures

_SHOWN_CHANGES = 5


def recommendation(upgrade: Upgrade) -> str:
    """The one line that decides."""
    said = f"{COMPILER} {upgrade.before} -> {upgrade.after}"
    if broken := next((side for item in upgrade.targets for side in _sides(item) if side.unusable), None):
        return f"{said}: do not upgrade: {COMPILER} {broken.version} {broken.unusable}"
    lost, worse = (sum(item.count(kind) for item in upgrade.targets) for kind in ("lost", "worse"))
    gained, better = (sum(item.count(kind) for item in upgrade.targets) for kind in ("gained", "better"))
    gains = f"; {gained} gained, {better} better" if gained or better else ""
    if lost:
        return f"{said}: do not upgrade: {_rows(lost)} lost, {worse} worse{gains}"
    if worse:
        return f"{said}: not without a look: nothing lost, {_rows(worse)} worse{gains}"
    return f"{said}: may upgrade: nothing lost, nothing worse{gains}"


def _sides(item: TargetUpgrade) -> tuple[Side, Side]:
    return item.before, item.after


def _rows(count: int) -> str:
    return f"{count} {'row' if count == 1 else 'rows'}"


def rows_line(summary: Summary) -> str:
    """`2 lost, 10 worse, 288 same`: kinds that occur."""
    return ", ".join(f"{count} {kind}" for kind, count in summary.kinds.items() if count) or "no rows"


WORSE_MEANS = (
    "A row is worse where a later candidate answers (an earlier one no longer qualifies), where registers spill, where "
    f"fewer waves are resident, or where over {100 * NOTICEABLE:g} % more instructions are executed (in the "
    "binary, where none were counted); whatever else got better."
)


def total_cells(total: Total) -> tuple[str, str, str]:
    """Both sums, and how they changed."""
    change = (total.after - total.before) / max(total.before, 1)
    rose = f"rose in {total.rose} rows, fell in {total.fell} of {total.rows}"
    return f"{total.before:,}", f"{total.after:,}", f"{percent(change)}, typically {percent(total.typical)}; {rose}"


def percent(relative: float) -> str:
    """`+12.9 %`."""
    return f"{100 * relative:+.1f} %"


def build_cell(side: Side) -> str:
    """`42.1 s of processors for 310 candidates`, and how many of them were compiled earlier."""
    if side.build is None:
        return side.unusable or "-"
    said = f"{side.build['cpu_seconds']:,.1f} s of processors for {side.build['candidates']} candidates"
    cached = side.build["from_cache"]
    return f"{said}, {cached} of them compiled by an earlier run" if cached else said


def build_change(before: Side, after: Side) -> str:
    """Seconds a candidate, since the two sides may have tried different numbers."""
    if not before.build or not after.build or not before.build["candidates"] or not after.build["candidates"]:
        return ""
    old, new = (side.build["cpu_seconds"] / side.build["candidates"] for side in (before, after) if side.build)
    return f"{percent((new - old) / old)} a candidate ({old:.2f} -> {new:.2f} s)" if old else ""


def facts_of(item: TargetUpgrade, summary: Summary) -> Iterator[str]:
    """Sentences on all candidates and rows of a target, of what there is."""
    if item.pairs:
        yield f"Spills: {_spills(summary.spills)}"
        yield f"IR: {_ir(summary)}"
    if any(error is not None for error in summary.errors):
        yield f"Numerics: {_errors(summary)}"
    for side, figures in zip(_sides(item), summary.workarounds, strict=True):
        yield from (f"Workaround {_workaround(side.version, workaround)}" for workaround in figures)


def _spills(spills: SpillChanges) -> str:
    """How many candidates spill, before and after."""
    rose = sum(after > before for _, before, after in spills.changed)
    return (
        f"of {spills.candidates} candidates that both compiled, {spills.spilling_before} spill before and "
        f"{spills.spilling_after} after; spills rose in {rose} and fell in {len(spills.changed) - rose}"
    )


def _ir(summary: Summary) -> str:
    """What the back end alone changed."""
    ir = summary.ir
    return (
        f"of {ir.candidates} candidates that both compiled, {ir.ir_equal} have equal Triton GPU IR; of these "
        f"{ir.code_differs} have different machine code, and {ir.spills_rose} of those spill more"
    )


def _errors(summary: Summary) -> str:
    """The largest error of any row's cases under each compiler."""
    before, after = (f"{error:.3g}" if error is not None else "not executed" for error in summary.errors)
    return f"largest error {before} -> {after}"


def change_texts(row: Row) -> Iterator[str]:
    """The changes of a row that say why it is where it is, then the others."""
    ordered = sorted(row.changes, key=lambda change: (-change.direction, -change.weight))
    told = [change for change in ordered if change.direction or change.name == "launch"]
    yield from map(_change, told or ordered[:_SHOWN_CHANGES])


def _change(change: Change) -> str:
    if change.name == "launch":
        return f"launch {launch_of(change.before)} -> {launch_of(change.after)}"
    figures = f"{change.name} {figure(change.before)} -> {figure(change.after)}"
    if change.direction and change.before and change.name in ("executed", "instructions"):
        figures += f" ({percent((change.after - change.before) / change.before)})"
    return figures


def figure(value: Any) -> str:
    """A number as people read it."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)


def launch_of(launch: Mapping[str, Any]) -> str:
    """`128 keys_as_rows st1 w4`."""
    return launch_values(tuple(launch.items()))


def row_label(row: Row, constant: Sequence[str]) -> str:
    """The problem without what all rows share."""
    return problem_label(tuple(row.axes.items()), constant)


def _workaround(version: str, figures: WorkaroundFigures) -> str:
    """`packed_fp8_conversion under triton 3.9.0: keep: 60 of 60 plain forms are not as good: …`."""
    said = f"{figures.name} of {figures.family} under {COMPILER} {version}: {figures.verdict}"
    if not figures.comparisons:
        return said
    if figures.verdict == CAN_GO:
        said += f": all {figures.comparisons} plain forms are as good"
    elif figures.verdict == KEEP:
        reasons = ", ".join(f"{count} not '{name}'" for name, count in figures.against.items())
        said += f": {figures.kept} of {figures.comparisons} plain forms are not as good ({reasons})"
    if figures.executed is not None:
        said += f"; a plain form executes {percent(figures.executed)} instructions (median)"
    return said
