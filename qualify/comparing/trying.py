"""Rows that a call could have either of: of those equally preferred and specific the lower id is tried first.

An id hashes the source, so that a comment can turn such a pair round, and with it which kernel answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from assay.bundle import Condition, Row

from .records import Difference, Entry, Key, Side


def turned_round(left: Side, right: Side) -> dict[Key, list[Difference]]:
    """Of each variant, the others that it was tried before on one side and is tried behind on the other."""
    found: dict[Key, list[Difference]] = {}
    before = dict(_tied(left))
    for pair, first in _tied(right):
        if before.get(pair, first) != first:
            for key in pair:
                (other,) = pair - {key}
                was, now = ("first", "behind") if before[pair] == key else ("behind", "first")
                found.setdefault(key, []).append(Difference("dispatch", f"tried before {_label(other)}", was, now))
    return found


def _tied(side: Side) -> Iterator[tuple[frozenset[Key], Key]]:
    """Each pair of variants that a call could have either of, and which of them is tried first."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in side.entries.values():
        if entry.built is not None:
            row = entry.built.row
            groups.setdefault((row.target, row.family, row.preference, len(row.conditions)), []).append(entry)
    for group in groups.values():
        for bucket in _buckets(group):
            for one, other in combinations(bucket, 2):
                if one.built and other.built and _may_both_hold(one.built.row, other.built.row):
                    first = min(one, other, key=lambda entry: entry.built.row.id if entry.built else "")
                    yield frozenset((one.key, other.key)), first.key


def _buckets(group: list[Entry]) -> Iterable[list[Entry]]:
    """The group by the values of what every row of it asks to be equal: rows of two buckets never both hold."""
    equal = [_equal(entry.built.row) for entry in group if entry.built]
    common = set.intersection(*map(set, equal))
    buckets: dict[str, list[Entry]] = {}
    for entry, values in zip(group, equal, strict=True):
        buckets.setdefault(repr(sorted((name, values[name]) for name in common)), []).append(entry)
    return buckets.values()


def _equal(row: Row) -> Mapping[str, Any]:
    return {condition.field: condition.value for condition in row.conditions if condition.op == "eq"}


def _may_both_hold(one: Row, other: Row) -> bool:
    """Whether no field has conditions in the two rows that exclude each other."""
    pairs = ((a, b) for a in one.conditions for b in other.conditions if a.field == b.field)
    return not any(_exclude(a, b) or _exclude(b, a) for a, b in pairs)


def _exclude(one: Condition, other: Condition) -> bool:
    if one.op in ("eq", "one_of"):
        values = one.value if one.op == "one_of" else (one.value,)
        return not any(other.holds({other.field: value}) for value in values)
    return one.op == "at_least" and other.op == "at_most" and one.value > other.value


def _label(key: Key) -> str:
    return " ".join(f"{name}={value}" for name, value in key[2])
