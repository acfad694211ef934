"""What a person sees of a device run: a line a subject while it goes, then figures by family, failures, the verdict."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from .checking import FAIL, NOT_RUN, PASS, Check
from .evidence import figures
from .qualifying import Result, Subject

_SHOWN_ID = 8
_SAID = {PASS: "pass", FAIL: "FAIL", NOT_RUN: "not run"}


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, every column as wide as its widest cell."""
    cells = [list(titles), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def error_text(value: float | None) -> str:
    """An error in three digits; '-' where nothing was compared."""
    return "-" if value is None else f"{value:.3g}"


def progress(total: int) -> Callable[[Result], None]:
    """Prints a line on standard error for each result."""
    done = 0

    def report(result: Result) -> None:
        nonlocal done
        done += 1
        said = figures(result.checks)
        counts = f"{said['cases']} launched, {said['replays']} replayed"
        line = f"[{done:>{len(str(total))}}/{total}] {_SAID[result.verdict]:7} {name_of(result.subject)}: {counts}"
        error = error_text(said["largest_error"])
        print(f"{line}, largest error {error}, {said['seconds']:.3f} s", file=sys.stderr, flush=True)

    return report


def name_of(subject: Subject) -> str:
    """A variant by its family, short id and problem; a call by its sizes."""
    return " ".join(part for part in (subject.family, subject.id[:_SHOWN_ID], subject.label) if part)


def print_not_run(subjects: Sequence[Subject]) -> None:
    """A line a family: how much would have been launched, and replayed from a graph."""
    kinds = Counter((subject.family, "variant" if subject.id else "whole call") for subject in subjects)
    for (family, kind), count in kinds.items():
        plural = "" if count == 1 else "s"
        print(f"not run  {family}: {count} {kind}{plural}, neither launched nor replayed from a graph")


def print_results(results: Sequence[Result]) -> None:
    """Figures by family, then everything that did not pass."""
    families: dict[str, list[Result]] = {}
    for result in results:
        families.setdefault(result.subject.family, []).append(result)
    titles = ("", "pass", "fail", "not run", "largest error", "seconds")
    for line in table(titles, [_family_row(name, found) for name, found in families.items()]):
        print(line)
    for result in results:
        for check in result.checks:
            if check.verdict != PASS:
                print(f"{_SAID[check.verdict]:7}  {name_of(result.subject)}: {check_text(check)}")


def check_text(check: Check) -> str:
    """`case (direct): what was wrong`."""
    return f"{check.case} ({check.how}): {check.fault}"


def _family_row(name: str, results: Sequence[Result]) -> list[str]:
    verdicts = Counter(result.verdict for result in results)
    said = figures([check for result in results for check in result.checks])
    counts = [str(verdicts[verdict]) for verdict in (PASS, FAIL, NOT_RUN)]
    return [name, *counts, error_text(said["largest_error"]), f"{said['seconds']:.3f}"]
