"""Coverage for a person: for each device a line a call and format, what is missing and why, and rows of no use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.bundle.table import NEAREST

from .judging import Answer, JudgedCall
from .running import Coverage, CoveredRow, DeviceCoverage, label

_STYLES = {"specialised": "green", "generic": "yellow", "missing": "bold red", "waived": "magenta"}
_SHOWN_ID = 8


def print_coverage(out: Console, coverage: Coverage, *, show_all: bool) -> None:
    """show_all: every row that no call reaches, not only the first of them."""
    for device in coverage.devices:
        out.print(_table(device, coverage.waived))
        for line in (*_missing_lines(device), *_row_lines(device, show_all)):
            out.print(line, soft_wrap=True)
        if device.not_judged:
            out.print(Text(f"not judged: {', '.join(device.not_judged)} (--family NAME asks for more)", "dim"))
    for line in _verdict_lines(coverage):
        out.print(line, soft_wrap=True)


def _table(device: DeviceCoverage, waived: frozenset[str]) -> Table:
    title = f"{device.target} ({device.bundle.name}, {device.identity[:16]})"
    table = Table(
        title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("call", overflow="fold", min_width=16)
    table.add_column("KV format", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rows", overflow="fold", min_width=_SHOWN_ID)
    table.add_column("models", overflow="fold", min_width=16)
    said = ""
    for (shape, kv_format), calls in _by_shape(device.calls).items():
        models = dict.fromkeys(judged.call.model for judged in calls)
        verdict = calls[0].verdict
        if verdict == "missing" and waived.issuperset(models):
            verdict = "waived"
        missing = calls[0].missing
        ids = [] if missing else dict.fromkeys(answer.row.id[:_SHOWN_ID] for answer in calls[0].answers if answer.row)
        # What the formats of one call share stands in the first of their lines.
        first = ("", "") if shape == said else (shape, ", ".join(models))
        table.add_row(first[0], kv_format, Text(verdict, _STYLES[verdict]), " ".join(ids) or "-", first[1])
        said = shape
    return table


def _by_shape(calls: Iterable[JudgedCall]) -> dict[tuple[str, str], list[JudgedCall]]:
    """Calls that a kernel cannot tell apart, but by counts of heads and lengths of windows, by shape and KV format."""
    found: dict[tuple[str, str], list[JudgedCall]] = {}
    for judged in calls:
        found.setdefault((judged.call.shape, judged.call.kv_format), []).append(judged)
    return dict(sorted(found.items(), key=lambda item: _order(item[1][0])))


def _order(judged: JudgedCall) -> tuple[object, ...]:
    facts = judged.call.facts
    return facts["head_dim"], facts["gqa"], judged.call.shape, judged.call.kv_format


def _missing_lines(device: DeviceCoverage) -> Iterator[Text]:
    """Each reason once, with the shapes that it keeps out."""
    reasons: dict[str, dict[str, None]] = {}
    for judged in device.calls:
        where = f"{judged.call.shape} {judged.call.kv_format}"
        for name in judged.unknown:
            said = f"{name}: no row or argument of what is judged knows it"
            reasons.setdefault(said, {}).setdefault(where)
        for answer in judged.answers:
            if answer.row is None:
                reasons.setdefault(_reason(answer), {}).setdefault(where)
    if reasons:
        yield Text("missing, and why:", "bold")
    for said, wheres in reasons.items():
        yield Text(f"  {said}", "red")
        yield Text(f"      {'; '.join(wheres)}")


def _reason(answer: Answer) -> str:
    """Without the nearest row itself, which is one of several: the JSON has it."""
    if answer.nearest is None:
        return f"{answer.family}: {answer.reason}"
    failed = ", ".join(f"{item.field} {item.requested}" for item in answer.nearest.failed) or answer.reason
    return f"{answer.family}: {'; '.join((failed, *answer.covers))}"


def _row_lines(device: DeviceCoverage, show_all: bool) -> Iterator[Text]:
    for family in dict.fromkeys(covered.row.family for covered in device.rows):
        rows = [covered for covered in device.rows if covered.row.family == family]
        unused = [covered for covered in rows if covered.reach == "none"]
        said = ", ".join(
            f"{_counted([covered for covered in rows if covered.reach == reach])} {words}"
            for reach, words in (
                ("answers", "answer calls"),
                ("behind", "only stand behind them"),
                ("none", "are reached by no model"),
            )
        )
        yield Text(f"{family}: of {_counted(rows)}, {said}")
        yield from _listed("reached by no model", unused, show_all)
        for covered in rows:
            if covered.shadowed_by:
                yield Text(
                    f"  never taken: {_row(covered)}, as {covered.shadowed_by[:_SHOWN_ID]} outranks it", "yellow"
                )


def _listed(title: str, rows: Sequence[CoveredRow], show_all: bool) -> Iterator[Text]:
    shown = len(rows) if show_all else NEAREST
    for covered in rows[:shown]:
        yield Text(f"  {title}: {_row(covered)}", "dim")
    if rows[shown:]:
        yield Text(f"  … and {len(rows) - shown} more (--all shows them)", "dim")


def _counted(rows: Sequence[CoveredRow]) -> str:
    """`12 rows (34,567 B of code)`."""
    sizes = [covered.code_bytes for covered in rows]
    code = "" if not rows or None in sizes else f" ({sum(size for size in sizes if size):,} B of code)"
    return f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}{code}"


def _row(covered: CoveredRow) -> str:
    return f"{covered.row.id[:_SHOWN_ID]} {label(covered.problem)}"


def _verdict_lines(coverage: Coverage) -> Iterator[Text]:
    for device in coverage.devices:
        answered = sum(not judged.missing for judged in device.calls)
        missing = len(dict.fromkeys(judged.call.model for judged in device.calls if judged.missing))
        said = f"{device.target}: {answered} of {len(device.calls)} calls of {len(coverage.models)} models answered"
        more = f"; {missing} models have a call that is not" if missing else ""
        yield Text(said + more, "red" if missing else "green")
    waived = f", {len(coverage.waived)} models waived" if coverage.waived else ""
    verdict = "COVERED" if coverage.covered else "MISSING"
    yield Text(f"{verdict}{waived}", "bold green" if coverage.covered else "bold red")
