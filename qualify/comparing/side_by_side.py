"""Two disassemblies side by side: aligned, differences marked and coloured, equal stretches folded.

marker  a row whose instructions are
(none)  the same, up to a renaming of registers that holds for most rows
~       the same instruction on other registers than that renaming says, or a branch to another place
|       different instructions in the same place
<  >    there on one side alone
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from .aligning import align
from .interleaving import source_rows
from .listing import Line
from .normalising import Register, labels_in, shape
from .registers import named_registers

CONTEXT = 3  # rows kept around a difference
_MIN_COLUMN = 24
_STYLES = {" ": "", "~": "yellow", "|": "bold magenta", "<": "red", ">": "green", "s": "cyan", "f": "dim"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One side: a heading, its instructions, and the rendered source where `lines` carry marks of it. `note` says in
    one line why there are no source lines, if there are none."""

    title: str
    lines: tuple[Line, ...]
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of output: `marker` as above, `s` for source lines, `f` for a fold; `left` and `right` are texts."""

    marker: str
    left: str
    right: str


def print_side_by_side(console: Console, left: Shown, right: Shown, *, all_lines: bool = False) -> None:
    """Print both on `console`, as wide as it is; plain text where it is no terminal. all_lines: fold nothing."""
    rows = compare_rows(left, right)
    column = max((console.width - 3) // 2, _MIN_COLUMN)
    _print_row(console, Row("s", left.title, right.title), column)
    for row in rows if all_lines else folded(rows):
        _print_row(console, row, column)
    for line in _footers(left, right, rows):
        console.print(Text(line), soft_wrap=True)


def compare_rows(left: Shown, right: Shown) -> list[Row]:
    """Every row in order, nothing folded; source lines stand before the instructions that come from them."""
    comparison = _Comparison(left.lines, right.lines)
    sources = source_rows(left.lines, left.source), source_rows(right.lines, right.source)
    rows: list[Row] = []
    for a, b in comparison.pairs:
        said = [side.get(at, ()) if at is not None else () for side, at in zip(sources, (a, b), strict=True)]
        rows += [Row("s", *texts) for texts in zip_longest(*said, fillvalue="")]
        rows.append(comparison.row(a, b))
    return rows


def folded(rows: Sequence[Row], context: int = CONTEXT) -> Iterator[Row]:
    """The rows with long equal stretches cut to `context` at each end, and a line that says how many are left out."""
    near = set()
    for at, row in enumerate(rows):
        if row.marker in "~|<>":
            near.update(range(at - context, at + context + 1))
    hidden = 0
    for at, row in enumerate(rows):
        if at in near:
            yield from _fold(hidden)
            hidden = 0
            yield row
        else:
            hidden += row.marker == " "
    yield from _fold(hidden)


def _fold(hidden: int) -> list[Row]:
    text = f"… {hidden:,} equal instruction{'s' if hidden > 1 else ''} …"
    return [Row("f", text, text)] if hidden else []


class _Comparison:
    """Two listings, aligned: what stands beside what, and which registers and places correspond."""

    def __init__(self, left: Sequence[Line], right: Sequence[Line]):
        self._left, self._right = left, right
        self._shapes = [shape(line.text) for line in left], [shape(line.text) for line in right]
        self.pairs = align(*self._shapes)
        self._beside = dict(self.pairs)
        self._places = _places(left), _places(right)
        self._usual = self._usual_partners()

    def row(self, a: int | None, b: int | None) -> Row:
        if a is None or b is None:
            return Row("<", _text(self._left[a]), "") if a is not None else Row(">", "", _text(self._right[b or 0]))
        if self._shapes[0][a] != self._shapes[1][b]:
            marker = "|"
        else:
            marker = " " if self._same_registers(a, b) and self._same_targets(a, b) else "~"
        return Row(marker, _text(self._left[a]), _text(self._right[b]))

    def _usual_partners(self) -> dict[Register, Register]:
        """Left register → the right one that it stands beside most often, over rows of one shape."""
        votes: dict[Register, Counter[Register]] = {}
        for a, b in self.pairs:
            if a is not None and b is not None and self._shapes[0][a] == self._shapes[1][b]:
                for one, other in self._registers(a, b):
                    votes.setdefault(one, Counter())[other] += 1
        return {register: counts.most_common(1)[0][0] for register, counts in votes.items()}

    def _registers(self, a: int, b: int) -> list[tuple[Register, Register]]:
        names = zip(named_registers(self._left[a].text), named_registers(self._right[b].text), strict=True)
        return [((one.file, one.first), (other.file, other.first)) for one, other in names]

    def _same_registers(self, a: int, b: int) -> bool:
        return all(self._usual[register] == partner for register, partner in self._registers(a, b))

    def _same_targets(self, a: int, b: int) -> bool:
        """Whether branches lead to places that stand beside each other."""
        one = [self._places[0].get(label) for label in labels_in(self._left[a].text)]
        other = [self._places[1].get(label) for label in labels_in(self._right[b].text)]
        return [self._beside.get(place) for place in one] == other


def _places(lines: Sequence[Line]) -> dict[str, int]:
    return {label: at for at, line in enumerate(lines) for label in line.labels}


def _text(line: Line) -> str:
    label = f"{line.labels[0]}: " if line.labels else ""
    return f"{line.address:5x}  {label}{line.text}"


def _print_row(console: Console, row: Row, column: int) -> None:
    """A row folds within its columns where it is too long; nothing is cut."""
    marker = row.marker if row.marker in "~|<>" else " "
    pieces = zip_longest(_pieces(row.left, column), _pieces(row.right, column), fillvalue="")
    for number, (one, other) in enumerate(pieces):
        line = f"{one:<{column}} {marker if not number else ' '} {other}".rstrip()
        console.print(Text(line, style=_STYLES[row.marker]), no_wrap=True, overflow="ignore", crop=False)


def _pieces(text: str, column: int) -> list[str]:
    return [text[at : at + column] for at in range(0, len(text), column)] or [""]


def _footers(left: Shown, right: Shown, rows: Sequence[Row]) -> list[str]:
    counts = Counter(row.marker for row in rows if row.marker in " ~|<>")
    parts = [
        f"{counts[' ']:,} equal",
        f"{counts['~']:,} on other registers or to another place (~)",
        f"{counts['|']:,} changed (|)",
        f"{counts['<']:,} left alone (<)",
        f"{counts['>']:,} right alone (>)",
    ]
    notes = dict.fromkeys(f"no source lines: {note}" for note in (left.note, right.note) if note)
    return [f"{len(left.lines):,} and {len(right.lines):,} instructions: {', '.join(parts)}", *notes]
