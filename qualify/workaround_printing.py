"""Workarounds for a person: one verdict each, then a line a comparison with the figures of both forms."""

from __future__ import annotations

from collections.abc import Sequence

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.codegen.spec_models import TargetFile

from .gates import Judgement
from .reports.labels import constant_axes, launch_values, problem_label
from .terminal import NARROW
from .workaround_verdicts import CAN_GO, KEEP, UNDECIDED, Comparison, WatchedWorkaround, executed, spills_of

_COLOURS = {KEEP: "yellow", CAN_GO: "bold green", UNDECIDED: "bold red"}
_FIGURES = ("launch", "registers", "executed")
# Columns that figures before and after take on a narrow terminal: `1,506,054 ->` fits.
_NARROW_FIGURES = 12
_REGISTERS = ("vgpr_count", "register_count")


def print_workarounds(out: Console, target: TargetFile, watched: Sequence[WatchedWorkaround]) -> None:
    """All that was compared; of a workaround that matches nothing, that it does."""
    if not watched:
        out.print("\nworkarounds: the families that were built declare none", markup=False)
    for item in watched:
        out.print(Text(f"\n{heading(item, target.target)}", _COLOURS.get(item.verdict, "")), soft_wrap=True)
        if item.comparisons:
            out.print(_table(item, narrow=out.width < NARROW))


def heading(item: WatchedWorkaround, target: str) -> str:
    """`workaround packed_fp8_conversion of decode_attention on gfx1201: keep: 60 of 60 plain forms are not as good`."""
    said = f"workaround {item.workaround.name} of {item.family} on {target} (since {item.workaround.since})"
    if not item.comparisons:
        return f"{said}: no qualified variant has it"
    count = len(item.comparisons)
    of_verdict = sum(comparison.verdict == item.verdict for comparison in item.comparisons)
    reasons = {
        KEEP: f"{of_verdict} of {count} plain forms are not as good",
        CAN_GO: f"all {count} plain forms are as good",
        UNDECIDED: f"{of_verdict} of {count} plain forms were not executed, and pass what was judged",
    }
    return f"{said}: {item.verdict}: {reasons[item.verdict]}"


def _table(item: WatchedWorkaround, *, narrow: bool) -> Table:
    """narrow: without the launches, which report.json has, and figures fold, so that the reasons have room."""
    problems = [comparison.current.variant.candidate.problem.axes for comparison in item.comparisons]
    constant = constant_axes(problems)
    plain = ", ".join(f"{name}={value}" for name, value in item.workaround.alternative.items())
    table = Table(
        title=f"with the workaround -> the plain form ({plain})" + (f"; {', '.join(constant)}" if constant else ""),
        title_justify="left",
        header_style="bold",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("problem", overflow="fold", min_width=14, width=14 if narrow else None)
    table.add_column("verdict", no_wrap=True)
    for name in _FIGURES[narrow:]:
        table.add_column(name, no_wrap=not narrow, overflow="fold", width=_NARROW_FIGURES if narrow else None)
    table.add_column("the plain form", overflow="fold", min_width=24)
    for comparison, axes in zip(item.comparisons, problems, strict=True):
        verdict = Text(comparison.verdict, _COLOURS[comparison.verdict])
        figures = _figures(comparison)[narrow:]
        table.add_row(problem_label(axes, constant), verdict, *figures, against(comparison))
    return table


def _figures(comparison: Comparison) -> tuple[str, str, str]:
    current, plain = comparison.current, comparison.plain
    launch = launch_values(current.variant.candidate.launch)
    if not comparison.same_launch:
        launch += f" -> {launch_values(plain.variant.candidate.launch)}"
    return launch, f"{_registers(current)} -> {_registers(plain)}", _executed(current, plain)


def against(comparison: Comparison) -> str:
    """What speaks against the plain form, or that nothing does."""
    broken = [f"{item.name}: {item.said}" for item in comparison.criteria if item.holds is False]
    unknown = [f"{item.name}: {item.said}" for item in comparison.criteria if item.holds is None]
    if broken:
        return "not: " + "; ".join(broken)
    return "not known: " + "; ".join(unknown) if unknown else "as good"


def _registers(judgement: Judgement) -> str:
    figures = [getattr(judgement.resources, name, None) for name in _REGISTERS]
    spills = sum(value for name, value in spills_of(judgement).items() if name.endswith("count"))
    known = next((f"{figure:,}" for figure in figures if figure is not None), "-")
    return f"{known} (+{spills:,} spilled)" if spills else known


def _executed(current: Judgement, plain: Judgement) -> str:
    before, after = executed(current), executed(plain)
    spelled = [f"{figure:,}" if figure is not None else "-" for figure in (before, after)]
    change = f" ({(after - before) / before:+.0%})" if before and after is not None else ""
    return " -> ".join(spelled) + change
