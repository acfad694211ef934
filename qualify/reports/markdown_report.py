"""Markdown for the summary of a CI job: the verdict and what to look at first, small whatever the number of problems.

GitHub cuts a step's summary at 1 MiB; the tables below are cut far earlier and say how much they leave out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from assay.qualify.headroom import summary
from assay.qualify.lock import LockChange, key_of

from .record import RunRecord, change_details, reasons_of

# Rows of a table that stand open, and rows in all; the rest is in report.json.
_OPEN_ROWS = 10
_ALL_ROWS = 100
_LONGEST_CELL = 600
# All that Markdown, or GitHub's extensions to it, could read as markup.  A numeric entity is never markup, neither in a
# table's cells, where a backslash would not be enough, nor anywhere else.  `_` inside a word is none either.
_MARKUP = re.compile(r"""[\\`*\[\]|<>&~@#$!"'{}^]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|:(?=//)|(?<=[wW]{3})\.""")


def render(run: RunRecord) -> str:
    """report.md."""
    parts = [f"## assay {text(run.name)}: {text(run.said)}", text(run.counts) + "."]
    parts += [text(message) for message in (*run.messages, *(f"warning: {item}" for item in run.warnings))]
    parts += _section("Problems without a qualified candidate", ("problem", "nearest candidate", "broke"), _failed(run))
    parts += _section("Changes to the lock", ("kind", "problem", "before → now"), _changes(run.changes))
    parts += _near(run)
    return "\n\n".join(parts) + "\n"


def text(value: str) -> str:
    """`value` as Markdown that shows exactly its characters, on one line."""
    line = " ".join(value.split())
    cut = line if len(line) <= _LONGEST_CELL else line[:_LONGEST_CELL] + " …"
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", cut)


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, its first rows open and the next ones folded; nothing where there are no rows."""
    given = list(rows)
    if not given:
        return []
    parts = [f"### {text(title)} ({len(given)})", _table(head, given[:_OPEN_ROWS])]
    if folded := given[_OPEN_ROWS:_ALL_ROWS]:
        parts.append(_details(f"{len(folded)} more", _table(head, folded)))
    if left := len(given) - _ALL_ROWS:
        parts += [f"… and {left} more in report.json."] if left > 0 else []
    return parts


def _details(title: str, content: str) -> str:
    # The empty lines let Markdown inside HTML be read as Markdown.
    return f"<details><summary>{html.escape(title)}</summary>\n\n{content}\n\n</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _failed(run: RunRecord) -> list[tuple[str, str, str]]:
    rows = []
    for result in run.failed:
        nearest = result.nearest()
        launch, broke = (nearest.variant.candidate.label, reasons_of(nearest)) if nearest else ("none applies", "")
        rows.append((key_of(result), launch, broke))
    return rows


def _changes(changes: Iterable[LockChange]) -> list[tuple[str, str, str]]:
    """What got worse first: a reviewer reads from the top."""
    order = ("gone", "worse", "changed", "new", "better")
    ordered = sorted(changes, key=lambda change: order.index(change.kind))
    return [(change.kind, change.key, change_details(change).replace(" -> ", " → ")) for change in ordered]


def _near(run: RunRecord) -> list[str]:
    if not run.near:
        return []
    rows = [(key_of(result), "; ".join(map(str, limits))) for result, limits in run.near]
    table = _table(("problem", "near"), rows[:_ALL_ROWS])
    left = f"\n\n… and {len(rows) - _ALL_ROWS} more in report.json." if len(rows) > _ALL_ROWS else ""
    line = text(summary(limits for _, limits in run.near))
    return ["### Near a limit", f"{line}.", _details("which", table + left)]
