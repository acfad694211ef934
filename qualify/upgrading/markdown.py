"""An upgrade as a page to commit: what was found, the figures behind it, and how to make it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.qualify.reports.labels import constant_axes, problem_label
from assay.qualify.reports.markdown_report import table, text

from .records import Pair, Row, TargetUpgrade, Upgrade
from .requirements import COMPILER
from .running import UpgradeRequest
from .summing import Summary, summary_of
from .wording import (
    WORSE_MEANS,
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

# Rows of a table that a reader of the page sees; the JSON has them all.
_OPEN_ROWS, _ALL_ROWS = 20, 120
_SHOWN_SPILLS = 20


def page(upgrades: Sequence[Upgrade], request: UpgradeRequest, notes: Sequence[str]) -> str:
    """The whole page.  notes: sentences of whoever ran it, such as on the machine."""
    parts = [f"# {COMPILER.capitalize()} {' against '.join(request.versions)}, profile `{request.build.profile}`"]
    parts += [f"**{text(recommendation(upgrade))}.**" for upgrade in upgrades]
    parts += [_paragraph(note) for note in notes]
    parts += [f"Made by `{_command(request)}`.", WORSE_MEANS]
    for upgrade in upgrades:
        parts += [f"Warning: {text(warning)}" for warning in upgrade.warnings]
        for item in upgrade.targets:
            parts += _target(item)
    return "\n\n".join(parts) + "\n"


def _command(request: UpgradeRequest) -> str:
    build = request.build
    options = [f"--triton {version}" for version in request.versions]
    options += [f"--target {target}" for target in request.targets]
    options += [f"--profile {build.profile}"] if build.profile != "core" else []
    options += [f"--evidence {level}" for level in build.evidence]
    options += [f"--only {chosen}"] if (chosen := build.chosen) else []
    return f"assay upgrade {' '.join(options)}"


def _paragraph(note: str) -> str:
    """A note is Markdown of whoever ran it; only its lines are joined."""
    return " ".join(note.split())


def _target(item: TargetUpgrade) -> Iterator[str]:
    summary = summary_of(item)
    before, after = item.before, item.after
    title = f"{before.version} → {after.version}: " if before.version else ""
    yield f"## {item.target}, {title}{rows_line(summary)}"
    for side in (before, after):
        if side.unusable:
            yield f"{COMPILER.capitalize()} {side.version} {text(side.unusable)}."
    cells = [(name, *total_cells(total)) for name, total in summary.totals.items()]
    cells.append(("compiling", build_cell(before), build_cell(after), build_change(before, after)))
    yield table(("over all rows", before.version, after.version, "change"), cells)
    yield "\n".join(f"- {text(line)}." for line in facts_of(item, summary))
    yield from _rows("Lost or worse, the worst first", [row for row in item.rows if row.kind in ("lost", "worse")])
    yield from _rows("Gained or better", [row for row in item.rows if row.kind in ("gained", "better")])
    yield from _rows("Qualified under neither", [row for row in item.rows if row.kind == "failed"])
    yield from _spills(summary)


def _rows(title: str, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield f"### {title} ({len(rows)})"
    by_family = {
        row.family: constant_axes([tuple(r.axes.items()) for r in rows if r.family == row.family]) for row in rows
    }
    shared = [f"{family}: {', '.join(constant)}" for family, constant in by_family.items() if constant]
    if shared:
        yield f"In all of them: {text('; '.join(shared))}."
    head = ("", "problem", "launch", "changes", "same IR")
    lines = [_row(row, by_family[row.family]) for row in rows]
    yield table(head, lines[:_OPEN_ROWS])
    if folded := lines[_OPEN_ROWS:_ALL_ROWS]:
        yield f"<details><summary>{len(folded)} more</summary>\n\n{table(head, folded)}\n\n</details>"
    if len(lines) > _ALL_ROWS:
        yield f"… and {len(lines) - _ALL_ROWS} more in the JSON."


def _row(row: Row, constant: Sequence[str]) -> tuple[str, ...]:
    chosen = row.after or row.before
    launch = launch_of(chosen.form.launch) if chosen else ""
    said = row.reason or ", ".join(change_texts(row))
    same = {True: "yes", False: "no", None: ""}[row.ir_equal]
    return row.kind, f"{row.family} {row_label(row, constant)}", launch, said, same


def _spills(summary: Summary) -> Iterator[str]:
    changed = summary.spills.changed
    if not changed:
        return
    yield f"### Candidates whose spills changed ({len(changed)})"
    shown = _worst_of_both_ends(changed)
    head = ("problem", "launch", "spills", "same IR")
    yield table(head, [_spill(*item) for item in shown])
    if len(changed) > len(shown):
        yield f"The {len(shown)} that changed most; the JSON has all of them."


def _worst_of_both_ends(changed: Sequence[tuple[Pair, int, int]]) -> list[tuple[Pair, int, int]]:
    """Those that changed most, the worst first."""
    most = sorted(changed, key=lambda item: -abs(item[2] - item[1]))[:_SHOWN_SPILLS]
    return sorted(most, key=lambda item: item[1] - item[2])


def _spill(pair: Pair, before: int, after: int) -> tuple[str, ...]:
    label = f"{pair.family} {problem_label(tuple(pair.axes.items()), ())}"
    return label, launch_of(pair.before.launch), f"{before:,} → {after:,}", "yes" if pair.ir_equal else "no"
