"""One pair in full: what differs of its launch and resources, then both disassemblies side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from .choosing import choose_pair
from .lining import lined_listing
from .printing import LEVEL_WORDS, said_of
from .records import Entry, Pair, Side
from .running import Comparison
from .side_by_side import Shown, print_side_by_side


def print_pair(out: Console, comparison: Comparison, wanted: str, *, all_lines: bool) -> None:
    """all_lines: fold no equal stretch.  Raises CompareError, and NoListing where code cannot be disassembled here."""
    pair = choose_pair([item.pair for item in comparison.judged], wanted)
    assert pair.left is not None
    assert pair.right is not None
    left, right = _shown(comparison.left, pair.left), _shown(comparison.right, pair.right)
    entry = pair.entry
    problem = " ".join(f"{name}={value}" for name, value in entry.problem)
    out.print(Text(f"{entry.family} on {entry.target}: {problem}", "bold"), soft_wrap=True)
    out.print(Text(f"code: {LEVEL_WORDS[pair.level]}"))
    for line in said_of(pair):
        out.print(Text(line), soft_wrap=True)
    for line in _outputs_lines(comparison, pair):
        out.print(Text(line), soft_wrap=True)
    print_side_by_side(out, left, right, all_lines=all_lines)


def _outputs_lines(comparison: Comparison, shown: Pair) -> Iterator[str]:
    """What running the pair gave, where it was asked for: `outputs, emulated: equal on 12 cases`."""
    if comparison.outputs is None:
        return
    where = comparison.outputs.request.device or "emulated"
    for pair, outputs in comparison.outputs.results:
        if pair.entry.key == shown.entry.key:
            said = f": {outputs.said}" if outputs.said else ""
            yield f"outputs, {where}: {outputs.verdict}{said}; {outputs.cases} cases ran on both sides"


def _shown(side: Side, entry: Entry) -> Shown:
    assert entry.built is not None
    lined = lined_listing(entry.built, side.tree)
    title = f"{side.name}: {entry.built.row.id} {entry.built.row.symbol}"
    return Shown(title, lined.lines, entry.built.record.source, lined.note)
