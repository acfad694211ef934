"""Which line of one listing stands beside which line of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

# difflib leaves lines out that occur often, without which thousands of instructions take minutes; between the rare
# ones, stretches of at most so many lines are looked at again with all of them.
_SMALL = 400

Pair = tuple[int | None, int | None]


def align(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """Pairs of positions in order: both where lines are equal or stand for each other, one where a line is alone."""
    return list(_aligned(left, right, 0, len(left), 0, len(right), popular=False))


def _aligned(
    left: Sequence[str], right: Sequence[str], a: int, a_end: int, b: int, b_end: int, *, popular: bool
) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, left[a:a_end], right[b:b_end], autojunk=not popular)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        place = (a + i, a + i_end, b + j, b + j_end)
        small = 0 < i_end - i <= _SMALL and 0 < j_end - j <= _SMALL
        if tag == "replace" and small and not popular:
            yield from _aligned(left, right, *place, popular=True)
        else:
            yield from _beside(*place)


def _beside(a: int, a_end: int, b: int, b_end: int) -> Iterator[Pair]:
    shared = min(a_end - a, b_end - b)
    yield from ((a + n, b + n) for n in range(shared))
    yield from ((n, None) for n in range(a + shared, a_end))
    yield from ((None, n) for n in range(b + shared, b_end))
