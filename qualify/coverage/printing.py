"""Coverage for a person: for each device a line a call and format, what is missing and why, and rows of no use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.bundle.verdicts import NEAREST

from .. import terminal
from ..reports.labels import constant_axes, problem_label
from .judging import Answer, JudgedCall
from .running import Coverage, CoveredRow, DeviceCoverage

_STYLES = {"specialised": "green", "generic": "yellow", "missing": "bold red", "waived": "magenta"}
_SHOWN_ID = 8


def print_coverage(out: Console, coverage: Coverage, *, show_all: bool, whole: bool = True) -> None:
    """show_all: every row that no call reaches, not only the first of them.

    whole: of the list of models; a part of it says little of the rows that it does not reach, which are then counted.
    """
    shown = None if show_all else NEAREST if whole else 0
    for device in coverage.devices:
        out.print(_table(device, coverage.waived, narrow=out.width < terminal.NARROW))
        for line in (*_missing_lines(device), *_row_lines(device, shown)):
            out.print(line, soft_wrap=True)
        if device.not_judged:
            out.print(Text(f"not judged: {', '.join(device.not_judged)} (--family NAME asks for more)", "dim"))
    for line in _verdict_lines(coverage):
        out.print(line, soft_wrap=True)


def _table(device: DeviceCoverage, waived: frozenset[str], *, narrow: bool) -> Table:
    """narrow: text stands in columns as small as it can, so that names of models have room and none is cut."""
    title = f"{device.target} ({device.bundle.name}, {device.identity[:16]})"
    table = Table(
        title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("call", overflow="fold", min_width=16, width=16 if narrow else None)
    table.add_column("KV format", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rows", overflow="fold", min_width=_SHOWN_ID, width=_SHOWN_ID if narrow else None)
    table.add_column("models", overflow="fold", min_width=16)
    said: tuple[str, ...] = ()
    for line, calls in _lines(device.calls).items():
        models = dict.fromkeys(judged.call.model for judged in calls)
        waiver = line.verdict == "missing" and waived.issuperset(models)
        verdict = "waived" if waiver else line.verdict
        # What the formats of one call share stands in the first of their lines.
        first = ("", "") if (line.shape, *models) == said else (line.shape, ", ".join(models))
        table.add_row(first[0], line.kv_format, Text(verdict, _STYLES[verdict]), line.rows or "-", first[1])
        said = (line.shape, *models)
    return table


class _Line(NamedTuple):
    """What the calls of one line have in common.  rows: ids of those that answer; none where something is missing."""

    shape: str
    kv_format: str
    verdict: str
    rows: str


def _lines(calls: Iterable[JudgedCall]) -> dict[_Line, list[JudgedCall]]:
    found: dict[_Line, list[JudgedCall]] = {}
    for judged in sorted(calls, key=_order):
        ids = dict.fromkeys(answer.row.id[:_SHOWN_ID] for answer in judged.answers if answer.row)
        rows = "" if judged.missing else " ".join(ids)
        line = _Line(judged.call.shape, judged.call.kv_format, judged.verdict, rows)
        found.setdefault(line, []).append(judged)
    return found


def _order(judged: JudgedCall) -> tuple[object, ...]:
    facts = judged.call.facts
    return facts["head_dim"], facts["gqa"], judged.call.shape, judged.call.kv_format


def _missing_lines(device: DeviceCoverage) -> Iterator[Text]:
    """Each reason once, with the calls that it keeps out."""
    reasons: dict[str, dict[str, dict[str, None]]] = {}
    for judged in device.calls:
        said = [f"{name}: neither a condition nor an argument of what is judged" for name in judged.unknown]
        said += [_reason(answer) for answer in judged.answers if answer.row is None]
        for reason in said:
            reasons.setdefault(reason, {}).setdefault(judged.call.shape, {}).setdefault(judged.call.kv_format)
    if reasons:
        yield Text("missing, and why:", "bold")
    for reason, shapes in reasons.items():
        yield Text(f"  {reason}", "red")
        yield Text(f"      {'; '.join(shape + ' (' + ', '.join(formats) + ')' for shape, formats in shapes.items())}")


def _reason(answer: Answer) -> str:
    """Without the nearest row itself, which is one of several: the JSON has it."""
    if answer.nearest is None:
        return f"{answer.family}: {answer.reason}"
    failed = ", ".join(f"{item.field} {item.requested}" for item in answer.nearest.failed) or answer.reason
    return f"{answer.family}: {'; '.join((failed, *answer.covers))}"


def _row_lines(device: DeviceCoverage, shown: int | None) -> Iterator[Text]:
    for family in dict.fromkeys(covered.row.family for covered in device.rows):
        rows = [covered for covered in device.rows if covered.row.family == family]
        constant = constant_axes([tuple(covered.problem.items()) for covered in rows])
        answering, behind, unused = ([c for c in rows if c.reach == reach] for reach in ("answers", "behind", "none"))
        outranked = [covered for covered in rows if covered.shadowed_by]
        yield Text(
            f"{family}: of {_counted(rows)}, {_counted(answering)} for calls, {_counted(behind)} only behind those, "
            f"{_counted(unused)} reached by no model"
        )
        yield from _listed([f"reached by no model: {_row(covered, constant)}" for covered in unused], "dim", shown)
        if outranked:
            yield Text(f"  always outranked, so for calls that forbid the others: {_counted(outranked)}", "yellow")
        said = [f"{_row(covered, constant)}, by {str(covered.shadowed_by)[:_SHOWN_ID]}" for covered in outranked]
        yield from _listed(said, "yellow", shown)


def _listed(lines: Sequence[str], style: str, shown: int | None) -> Iterator[Text]:
    """shown: how many, None for all; of none there is no line, as they were counted."""
    for line in lines[:shown]:
        yield Text(f"  {line}", style)
    if shown and lines[shown:]:
        yield Text(f"  … and {len(lines) - shown} more (--all shows them)", style)


def _counted(rows: Sequence[CoveredRow]) -> str:
    """`12 rows (34,567 B of code)`."""
    sizes = [covered.code_bytes for covered in rows]
    code = "" if not rows or None in sizes else f" ({sum(size for size in sizes if size):,} B of code)"
    return f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}{code}"


def _row(covered: CoveredRow, constant: Sequence[str]) -> str:
    return f"{covered.row.id[:_SHOWN_ID]} {problem_label(tuple(covered.problem.items()), constant)}"


def _verdict_lines(coverage: Coverage) -> Iterator[Text]:
    for device in coverage.devices:
        answered = sum(not judged.missing for judged in device.calls)
        missing = len(dict.fromkeys(judged.call.model for judged in device.calls if judged.missing))
        models = "1 model" if len(coverage.models) == 1 else f"{len(coverage.models)} models"
        said = f"{device.target}: {answered} of {len(device.calls)} calls of {models} are answered"
        more = f"; models with a call that is not: {missing}" if missing else ""
        yield Text(said + more, "red" if missing else "green")
    waived = sorted(coverage.waived.difference(coverage.needless_waivers))
    but = f", but for {', '.join(waived)}" if waived else ""
    missing = sum(bool(judged.missing) for device in coverage.devices for judged in device.calls)
    calls = sum(len(device.calls) for device in coverage.devices)
    verdict = "COVERED" if coverage.covered else f"MISSING: {missing} of {calls} calls are not answered"
    yield Text(f"{verdict}{but}", "bold green" if coverage.covered else "bold red")
