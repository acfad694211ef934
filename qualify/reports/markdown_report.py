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
_FAILED = ("problem", "nearest candidate", "broke", "variant")
# What would break a table's cell or be read as HTML, code or a link.  A numeric entity is never markup, neither in a
# cell, where a backslash would not be enough, nor anywhere else.  All else stays readable in the file itself.
_MARKUP = re.compile(r"[\\`|<]|&(?=#?\w+;)|\](?=[(\[:])")


def render(run: RunRecord) -> str:
    """report.md."""
    parts = [f"## assay {text(run.title)}: {text(run.said)}", text(run.counts) + "."]
    parts += [text(message) for message in (*run.messages, *(f"warning: {item}" for item in run.warnings))]
    parts += _section("Problems without a qualified candidate", _FAILED, _failed(run))
    parts += _section("Changes to the lock", ("kind", "problem", "before → now"), _changes(run.changes))
    parts += _near(run)
    return "\n\n".join(parts) + "\n"


def text(value: str) -> str:
    """`value` as Markdown, on one line that ends no cell, and opens no tag, code or link."""
    line = " ".join(value.split())
    cut = line if len(line) <= _LONGEST_CELL else line[:_LONGEST_CELL] + " …"
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", cut)


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, its first rows open and the next ones folded; nothing where there are no rows."""
    given = list(rows)
    if not given:
        return []
    parts = [f"### {text(title)} ({len(given)})", table(head, given[:_OPEN_ROWS])]
    if folded := given[_OPEN_ROWS:_ALL_ROWS]:
        parts.append(_details(f"{len(folded)} more", table(head, folded)))
    if left := len(given) - _ALL_ROWS:
        parts += [f"… and {left} more in report.json."] if left > 0 else []
    return parts


def _details(title: str, content: str) -> str:
    # The empty lines let Markdown inside HTML be read as Markdown.
    return f"<details><summary>{html.escape(title)}</summary>\n\n{content}\n\n</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold any text."""
    lines = [head, ["---"] * len(head), *([text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _failed(run: RunRecord) -> list[tuple[str, ...]]:
    rows = []
    for result in run.failed:
        if (nearest := result.nearest()) is None:
            rows.append((key_of(result), "none applies", "", ""))
        else:
            variant = nearest.variant
            rows.append((key_of(result), variant.candidate.label, reasons_of(nearest), variant.id))
    return rows


def _changes(changes: Iterable[LockChange]) -> list[tuple[str, str, str]]:
    """What got worse first: a reviewer reads from the top."""
    order = ("gone", "worse", "changed", "new", "better")
    ordered = sorted(changes, key=lambda change: order.index(change.kind))
    return [(change.kind, change.key, change_details(change).replace(" -> ", " → ")) for change in ordered]


def _near(run: RunRecord) -> list[str]:
    if not run.near:
        return []
    rows = [
        (key_of(result), "; ".join(map(str, limits)), result.chosen.variant.id if result.chosen else "")
        for result, limits in run.near
    ]
    listed = table(("problem", "near", "variant"), rows[:_ALL_ROWS])
    left = f"\n\n… and {len(rows) - _ALL_ROWS} more in report.json." if len(rows) > _ALL_ROWS else ""
    line = text(summary(limits for _, limits in run.near))
    return ["### Near a limit", f"{line}.", _details("which", listed + left)]
