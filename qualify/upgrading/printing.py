"""An upgrade for a person: figures of each target side by side, the rows that changed, and the recommendation."""

from __future__ import annotations

from collections.abc import Sequence

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.qualify.reports.labels import constant_axes

from .records import Row, TargetUpgrade, Upgrade
from .summing import Summary, summary_of
from .wording import (
    build_cell,
    build_change,
    change_texts,
    facts_of,
    launch_of,
    recommendation,
    row_label,
    rows_line,
    total_cells,
)

_STYLES = {"lost": "bold red", "worse": "red", "gained": "bold green", "better": "green", "failed": "dim"}
_SHOWN_ROWS = 40


def print_upgrades(out: Console, upgrades: Sequence[Upgrade]) -> None:
    """Everything, the recommendations last."""
    for upgrade in upgrades:
        for item in upgrade.targets:
            _print_target(out, item)
        for warning in upgrade.warnings:
            out.print(Text(f"warning: {warning}", "yellow"), soft_wrap=True)
    for upgrade in upgrades:
        out.print(Text(recommendation(upgrade), "bold green" if upgrade.harmless else "bold red"), soft_wrap=True)


def _print_target(out: Console, item: TargetUpgrade) -> None:
    summary = summary_of(item)
    out.print(_figures(item, summary))
    for line in facts_of(item, summary):
        out.print(Text(line), soft_wrap=True)
    changed = [row for row in item.rows if row.kind != "same"]
    if changed:
        out.print(_rows(changed[:_SHOWN_ROWS]))
    if len(changed) > _SHOWN_ROWS:
        out.print(f"… and {len(changed) - _SHOWN_ROWS} more rows that changed; --json has all of them", markup=False)


def _figures(item: TargetUpgrade, summary: Summary) -> Table:
    title = f"{item.target}: {rows_line(summary)}"
    table = _table(title)
    table.add_column("over all rows")
    for side in (item.before, item.after):
        table.add_column(f"triton {side.version}", justify="right")
    table.add_column("change", overflow="fold")
    for name, total in summary.totals.items():
        table.add_row(name, *total_cells(total))
    build = (build_cell(item.before), build_cell(item.after), build_change(item.before, item.after))
    table.add_row("compiling", *build)
    return table


def _rows(rows: Sequence[Row]) -> Table:
    table = _table("rows that changed, the worst first")
    table.add_column("verdict", no_wrap=True)
    table.add_column("problem", overflow="fold", min_width=24)
    table.add_column("launch", overflow="fold", min_width=12)
    table.add_column("changes", overflow="fold", min_width=24)
    constant = {
        family: constant_axes([tuple(row.axes.items()) for row in rows if row.family == family])
        for family in {row.family for row in rows}
    }
    for row in rows:
        chosen = row.after or row.before
        launch = launch_of(chosen.form.launch) if chosen else "-"
        said = row.reason or ", ".join(change_texts(row))
        label = f"{row.family} {row_label(row, constant[row.family])}"
        table.add_row(Text(row.kind, _STYLES.get(row.kind, "")), label, launch, said)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
