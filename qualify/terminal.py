"""What a person sees of a run: progress while it goes, then a table, what was rejected and why, and the verdict."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable

import rich.box
import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from assay.codegen.spec_models import TargetFile

from .executing import NOT_INTERPRETABLE
from .gates import Judgement
from .headroom import near_limits, summary
from .lock import LockChange
from .occupancy import occupancy_of
from .reports.labels import constant_axes, launch_label, launch_values, problem_label
from .selection import ProblemResult

# Without a terminal rich would assume 80 columns and cut every row; a log has no edge.
_LOG_WIDTH = 260
_WIDTH = re.compile("[1-9][0-9]{0,4}")
_SHOWN_CHANGES = 40
# Enough of an id for `assay show`, and of a compiler's message to find the place.
_SHOWN_ID, _SHOWN_LINES = 8, 16
# Below this many columns, what report.json has as well is left out of the table.
NARROW = 110
_WIDE_ONLY = frozenset({"code B"})
_COLOURS = {"worse": "red", "gone": "red", "better": "green", "new": "cyan", "changed": "yellow"}

# Column title, and the resources that stand in it; a column is shown when the target's binaries have it.
_COLUMNS = (
    ("VGPR", ("vgpr_count",)),
    ("SGPR", ("sgpr_count",)),
    ("spills V/S", ("vgpr_spill_count", "sgpr_spill_count")),
    ("scratch B", ("scratch_bytes",)),
    ("regs", ("register_count",)),
    ("stack B", ("stack_bytes",)),
    ("LDL/STL", ("local_load_count", "local_store_count")),
    ("spill B ld/st", ("spill_load_bytes", "spill_store_bytes")),
    ("LDS B", ("lds_total_bytes",)),
    ("code B", ("code_bytes",)),
)


def console(*, error: bool = False) -> Console:
    """A console on standard output or error: as wide as the terminal, or as a log wants."""
    stream = sys.stderr if error else sys.stdout
    width, height = _size(terminal=stream.isatty())
    return Console(stderr=error, width=width, height=height, highlight=False, soft_wrap=False)


def _size(*, terminal: bool) -> tuple[int | None, int | None]:
    """Width and height; None: rich finds the terminal's.

    Rich reads COLUMNS itself unless it has both.  It takes 0, which a container without a terminal may have, and prints
    nothing; of a text that is no number it may fail.
    """
    asked = os.environ.get("COLUMNS")
    if asked is None and terminal:
        return None, None
    found = shutil.get_terminal_size()
    if asked and _WIDTH.fullmatch(asked):
        return int(asked), found.lines
    return (found.columns if terminal else _LOG_WIDTH), found.lines


class Progress:
    """Progress on standard error: a bar on a terminal, a line a finished problem in a log.  A context manager."""

    def __init__(self, what: str):
        self._what = what
        self._out = console(error=True)
        self._bar: rich.progress.Progress | None = None
        self._done = 0
        self._total = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, total: int) -> Callable[[ProblemResult], None]:
        """Begin with `total` problems; the callback takes each one as it is finished."""
        self.count(total)
        return self._finished

    def count(self, total: int) -> Callable[[str], None]:
        """Begin, again, with `total` pieces of work; the callback takes a line about each one as it is finished."""
        self._total, self._done = total, 0
        if self._bar is not None:
            self._bar.stop()
        if self._out.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = rich.progress.Progress(*columns, console=self._out, transient=True)
            self._bar.start()
            self._bar.add_task(self._what, total=total)
        return self._advance

    def _advance(self, line: str) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])
        else:
            self._out.print(f"[{self._done}/{self._total}] {line}", markup=False)

    def _finished(self, result: ProblemResult) -> None:
        uncompiled = sum(judgement.did_not_compile for judgement in result.rejected)
        verdict = "ok" if result.qualified and not uncompiled else "FAILED"
        tried = f"{len(result.rejected) + (1 if result.chosen else 0)} tried"
        label = f"{result.problem.family} {result.problem.label}"
        self._advance(f"{verdict} {label} ({tried}{f', {uncompiled} did not compile' if uncompiled else ''})")


class Progresses:
    """Several pieces of long work, one after the other, each with a progress of its own.  A context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Progresses:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, what: str) -> Progress:
        """The progress of the next one; that of the one before ends."""
        self._stack.close()
        return self._stack.enter_context(Progress(what))


def print_results(out: Console, target: TargetFile, results: list[ProblemResult]) -> None:
    """The table: one line a problem with the chosen launch and its resources, then every rejected candidate."""
    for family in dict.fromkeys(result.problem.family for result in results):
        of_family = [result for result in results if result.problem.family == family]
        out.print(_table(family, target, of_family, narrow=out.width < NARROW))
    _print_rejected(out, results)


def _table(family: str, target: TargetFile, results: list[ProblemResult], *, narrow: bool) -> Table:
    """Text folds where the terminal is narrow; figures and verdicts never do, since they are what the table is for."""
    constant = constant_axes([result.problem.axes for result in results])
    columns = [column for column in _COLUMNS if any(_cell(result.chosen, column[1]) != "-" for result in results)]
    near = [_near(result, target) for result in results]
    hoisted = [column for column in columns if _is_hoisted(column[1], results, near)]
    title = f"{family} on {target.target}" + (f" ({', '.join(constant)})" if constant else "")
    if hoisted:
        figures = ", ".join(f"{name} {_cell(results[0].chosen, names)}" for name, names in hoisted)
        title += f"\nin every row: {figures}"
    table = Table(
        title=title, title_justify="left", header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("problem", overflow="fold", min_width=16)
    table.add_column("verdict", no_wrap=True)
    table.add_column(_launch_title(results), overflow="fold", min_width=12)
    shown = [column for column in columns if column not in hoisted and not (narrow and column[0] in _WIDE_ONLY)]
    for name, _ in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("variant",) if narrow else ("occupancy", "evidence", "variant"):
        table.add_column(name, no_wrap=True)
    for result, marked in zip(results, near, strict=True):
        chosen = result.chosen
        verdict = Text("qualified", "green") if chosen else Text("FAILED", "bold red")
        launch = launch_values(chosen.variant.candidate.launch) if chosen else "no candidate qualifies"
        cells: list[str | Text] = [_marked(_cell(chosen, names), not marked.isdisjoint(names)) for _, names in shown]
        fits = occupancy_of(target.occupancy, chosen.kernel, chosen.resources) if chosen else None
        variant = chosen.variant.id[:_SHOWN_ID] if chosen else "-"
        cells += [variant] if narrow else ["-" if fits is None else str(fits), _evidence(chosen), variant]
        table.add_row(problem_label(result.problem.axes, constant), verdict, launch, *cells)
    return table


def _near(result: ProblemResult, target: TargetFile) -> set[str]:
    """The figures of a chosen variant that are close to a limit."""
    return {limit.budget for limit in near_limits(result.chosen, target, result.family)} if result.chosen else set()


def _is_hoisted(names: tuple[str, ...], results: list[ProblemResult], near: list[set[str]]) -> bool:
    """Whether a column says the same in every row, and nothing to look at: it is then said once, in the title."""
    cells = {_cell(result.chosen, names) for result in results}
    return len(results) > 1 and len(cells) == 1 and all(marked.isdisjoint(names) for marked in near)


def _launch_title(results: list[ProblemResult]) -> str:
    """`launch (block_n, score_form)`: the fields whose values stand in the column, next to stages and warps.

    A flag that no row sets stands in no row, so that its name, often the longest, would only take room.
    """
    launches = [result.chosen.variant.candidate.launch for result in results if result.chosen]
    shown = {name for launch in launches for name, value in launch if value is not False}
    fields = ", ".join(name for name in results[0].family.launch if name in shown)
    return f"launch ({fields})" if fields else "launch"


def _marked(cell: str, near: bool) -> str | Text:
    return Text(f"{cell}!", "yellow") if near else cell


def _evidence(chosen: Judgement | None) -> str:
    if chosen is None:
        return "-"
    refused = [level for level, verdict in chosen.evidence.items() if verdict == NOT_INTERPRETABLE]
    said = [level for level in chosen.evidence if level not in refused][-1:]
    if chosen.static_evidence != "pass":
        said.append(f"static {chosen.static_evidence}")
    return ", ".join([*said, *(["not interpretable"] if refused else [])])


def _cell(judgement: Judgement | None, names: tuple[str, ...]) -> str:
    if judgement is None or judgement.resources is None:
        return "-"
    values = [getattr(judgement.resources, name) for name in names]
    if all(value is None for value in values):
        return "-"
    return "/".join("?" if value is None else f"{value:,}" for value in values)


def _print_rejected(out: Console, results: list[ProblemResult]) -> None:
    uncompiled = [j for result in results for j in result.rejected if _is_uncompiled(j)]
    listed = [result for result in results if any(not _is_uncompiled(j) for j in result.rejected)]
    if listed:
        out.print("\nRejected candidates, by variant, and which budget each broke:", style="bold")
    for result in listed:
        out.print(
            Text(f"{result.problem.family} {result.problem.label}", "" if result.qualified else "bold red"),
            soft_wrap=True,
        )
        nearest = None if result.qualified else result.nearest()
        for judgement in result.rejected:
            if not _is_uncompiled(judgement):
                mark = "  (nearest)" if judgement is nearest else ""
                reasons = "; ".join(str(reason) for reason in judgement.reasons)
                launch = launch_label(judgement.variant.candidate.launch)
                out.print(Text(f"    {judgement.variant.id[:_SHOWN_ID]} {launch}: {reasons}{mark}"), soft_wrap=True)
    _print_uncompiled(out, uncompiled)


def _is_uncompiled(judgement: Judgement) -> bool:
    return judgement.reasons[0].budget == "compilation"


def _print_uncompiled(out: Console, judgements: list[Judgement]) -> None:
    """What did not compile, each different failure once: one mistake in a template fails every candidate."""
    by_message: dict[tuple[str | int | None, str], list[Judgement]] = {}
    for judgement in judgements:
        reason = judgement.reasons[0]
        by_message.setdefault((reason.actual, _last_line(reason.detail)), []).append(judgement)
    if by_message:
        out.print("\nCandidates that did not compile, each failure once:", style="bold")
    for (status, last), failed in by_message.items():
        problems = len({judgement.variant.candidate.problem for judgement in failed})
        first = failed[0].variant
        problem = first.candidate.problem
        said = f"{status}: {last}\n    {len(failed)} candidates of {problems} problems; the first is {first.id}, "
        said += f"{problem.family} {problem.label}, {launch_label(first.candidate.launch)}"
        out.print(Text(said, "red"), soft_wrap=True)
        if failed[0].outcome.status == "timed_out":
            out.print(Text("    leave that launch out of the family's candidates, or give it a longer --time-limit"))
        for line in failed[0].reasons[0].detail.splitlines()[-_SHOWN_LINES:]:
            out.print(Text(f"        {line}"), soft_wrap=True)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def print_near_limits(out: Console, target: TargetFile, results: list[ProblemResult]) -> None:
    """One line on the figures that the table marks with `!`."""
    limits = [near_limits(result.chosen, target, result.family) for result in results if result.chosen]
    if said := summary(limits):
        out.print(f"! {said}", style="yellow", markup=False, soft_wrap=True)


def print_changes(out: Console, changes: list[LockChange]) -> None:
    """Differences to the lock, the first of them in full."""
    for change in changes[:_SHOWN_CHANGES]:
        out.print(Text(str(change), _COLOURS[change.kind]), soft_wrap=True)
    if len(changes) > _SHOWN_CHANGES:
        out.print(f"… and {len(changes) - _SHOWN_CHANGES} more; all of them are in report.json")
