"""How alike the code of two variants is: from the same bytes to instructions that differ."""

from __future__ import annotations

from .records import Built, Level


def code_level(left: Built, right: Built) -> Level:
    """The first level at which both are the same."""
    if left.row.object == right.row.object and left.row.symbol == right.row.symbol:
        return "identical_bytes"
    return "changed"
