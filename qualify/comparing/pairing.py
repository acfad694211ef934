"""Pairs of variants: those of both sides that answer the same call, then those that one side alone has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .code_levels import code_level
from .differences import differences, notes
from .instruction_classes import class_changes
from .records import Difference, Entry, Key, Level, Pair, Side
from .trying import turned_round

# As many are listed at once.
_LISTINGS = min(8, os.cpu_count() or 1)
# The strongest evidence first: figures of it stand for what ran.
_EXECUTED = ("device", "retargeted", "emulated", "interpreted")


def pair_up(left: Side, right: Side) -> list[tuple[Entry | None, Entry | None]]:
    """By family, target and problem, numbers by their size."""
    keys = sorted({*left.entries, *right.entries}, key=_order)
    return [(left.entries.get(key), right.entries.get(key)) for key in keys]


def _order(key: Key) -> tuple[str, str, list[tuple[str, int, str]]]:
    target, family, problem = key
    return family, target, [(name, len(value) if value.isdecimal() else 0, value) for name, value in problem]


def compare_sides(left: Side, right: Side) -> list[Pair]:
    """Every variant of both sides.  Raises nothing: code that cannot be read is code that differs."""
    turned = turned_round(left, right)
    # Listing NVIDIA's code waits for a program.
    with ThreadPoolExecutor(_LISTINGS) as pool:
        return list(pool.map(lambda pair: _judged(*pair, turned), pair_up(left, right)))


def _judged(left: Entry | None, right: Entry | None, turned: Mapping[Key, list[Difference]]) -> Pair:
    if left is None or right is None:
        return _one_sided(left, right)
    return _compared(left, right, turned.get(left.key, []))


def _one_sided(left: Entry | None, right: Entry | None) -> Pair:
    difference = Difference("new" if left is None else "gone", "variant")
    return Pair(left, right, "not_compared", (difference,))


def _compared(left: Entry, right: Entry, turned: Sequence[Difference]) -> Pair:
    if left.built is None or right.built is None:
        return Pair(left, right, "not_compared", tuple(differences(left, right)))
    level = code_level(left.built, right.built)
    backend = left.built.target.backend
    classes = class_changes(left.built.record.instructions or {}, right.built.record.instructions or {}, backend)
    counted = left.built.record.instructions is not None and right.built.record.instructions is not None
    return Pair(
        left,
        right,
        level,
        (*_code_difference(level, left, right), *differences(left, right), *turned),
        tuple(notes(left.built, right.built)),
        classes if counted else {},
        _executed_changes(left, right, backend),
    )


def _code_difference(level: Level, left: Entry, right: Entry) -> list[Difference]:
    if level in ("identical_bytes", "identical_code_section"):
        return []
    assert left.built is not None
    assert right.built is not None
    hashes = left.built.row.object, right.built.row.object
    return [Difference("renamed" if level == "identical_normalised" else "code", "code", *hashes)]


def _executed_changes(left: Entry, right: Entry, backend: str) -> dict[str, tuple[int, int]]:
    level = next((level for level in _EXECUTED if level in left.executed and level in right.executed), None)
    return class_changes(left.executed[level], right.executed[level], backend) if level else {}
