"""Which facts of a call are sizes, and the least that each can be: for commands that are told facts in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.bundle import Row

_PLUS_1 = "_plus_1"


def least_sizes(contract: Mapping[str, Any], rows: Iterable[Row]) -> dict[str, int]:
    """The sizes that a family's calls have, by name: 1 for a dimension, 0 for an extent, as an empty cache has.

    A field that is neither has the least value that its conditions make sense of.
    contract: the manifest's `families` entry.
    """
    conditions = (condition for row in rows for condition in row.conditions)
    bounded = {item.field: item.least for item in conditions if item.least is not None}
    shapes = [word.removesuffix(_PLUS_1) for a in contract.get("arguments", ()) for word in a.get("shape") or ()]
    products = contract.get("products", {})
    factors = [dim for dims in products.values() for dim in dims]
    dimensions = [*shapes, *contract.get("dimensions", ()), *products, *factors]
    return {**bounded, **dict.fromkeys(dimensions, 1), **dict.fromkeys(contract.get("extents", ()), 0)}
