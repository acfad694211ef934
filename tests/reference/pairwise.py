"""What the chosen decode cases cover, pair by pair, computed from the cases themselves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from assay.reference import Case

LENGTHS = {1: "1", 17: "17", 31: "31 to 33", 32: "31 to 33", 33: "31 to 33", 513: "513", 2048: "2048"}
FACTORS = {
    "keys": ("1", "17", "31 to 33", "513", "2048"),
    "splits": ("1", "8", "64"),
    "window": ("one key", "odd", "empties the first split", "longer than all"),
    "layout": ("dense", "padded", "offset"),
    "batch": ("with an empty request", "with a one-key request"),
}
Pair = frozenset[tuple[str, str]]


def pair(first: str, a: str, second: str, b: str) -> Pair:
    return frozenset({(first, a), (second, b)})


# No call can have these: a window shorter than one key; a first split that ends before the window of a short request
# begins (a split has 32 keys or all); a second split where there is one.
IMPOSSIBLE = {
    pair("keys", "1", "window", "odd"),
    pair("keys", "1", "window", "empties the first split"),
    pair("keys", "17", "window", "empties the first split"),
    pair("splits", "1", "window", "empties the first split"),
}
# Left to the full set for their cost.  One split of 2,048 keys takes as long as a third of all other cases, and the
# same loop runs over one of 513.  In a grid of 64 splits each request costs 64 workgroups: 17 keys use one of them, as
# 1 and 33 keys show, and an empty request none, as it shows with 8.
FULL_SET_ONLY = {
    pair("keys", "2048", "splits", "1"),
    pair("keys", "17", "splits", "64"),
    pair("splits", "64", "batch", "with an empty request"),
}


def all_pairs() -> set[Pair]:
    return {
        pair(first, a, second, b)
        for first, second in itertools.combinations(FACTORS, 2)
        for a in FACTORS[first]
        for b in FACTORS[second]
    }


def covered_pairs(cases: Iterable[Case]) -> set[Pair]:
    found = set()
    for case in cases:
        for levels in _requests(case):
            for first, second in itertools.combinations(levels, 2):
                found |= {pair(first, a, second, b) for a in levels[first] for b in levels[second]}
    return found


def _requests(case: Case) -> Iterable[Mapping[str, set[str]]]:
    """The levels of each request with keys; a request may be at several of one factor, or at none."""
    lengths = [int(length) for length in case.tensors["indptr"].view[1:] - case.tensors["indptr"].view[:-1]]
    for request, keys in enumerate(lengths):
        if not keys:
            continue
        splits = int(case.tensors["num_kv_splits"].view[request])
        yield {
            "keys": {LENGTHS[keys]} if keys in LENGTHS else set(),
            "splits": {str(splits)},
            "window": window_levels(int(case.scalars["window_length"]), keys, splits),
            "layout": {layout_of(case)},
            "batch": {name for length, name in enumerate(FACTORS["batch"]) if length in lengths and lengths[1:]},
        }


def window_levels(window: int, keys: int, splits: int) -> set[str]:
    """Which kinds of window it is.  The first split meant is that of a cut of the whole request."""
    levels = set()
    if window >= keys:
        levels.add("longer than all")
    if window == 1:
        levels.add("one key")
    if window % 2 == 1 and 1 < window < keys:
        levels.add("odd")
    first_split = math.ceil(math.ceil(keys / splits) / 32) * 32
    if window <= keys - first_split:
        levels.add("empties the first split")
    return levels


def layout_of(case: Case) -> str:
    """From the K cache: dense, rows apart from each other, and that behind a base that is not the storage's."""
    cache = case.tensors["k_cache"]
    if cache.offset:
        return "offset"
    return "dense" if cache.strides[1] == cache.shape[2] else "padded"
