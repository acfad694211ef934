"""How alike the code of two variants is: from the same bytes to instructions that differ."""

from __future__ import annotations

from .listing import NoListing, kernel_listing
from .normalising import entry_registers, normalised, same_code_section
from .records import Built, Level


def code_level(left: Built, right: Built) -> Level:
    """The first level at which both are the same.  Code that cannot be listed here differs where its bytes do."""
    symbols = left.row.symbol, right.row.symbol
    if left.row.object == right.row.object and symbols[0] == symbols[1]:
        return "identical_bytes"
    if same_code_section(left.code, right.code, *symbols):
        return "identical_code_section"
    return "identical_normalised" if _may_be_renamed(left, right) and _same_normalised(left, right) else "changed"


def _may_be_renamed(left: Built, right: Built) -> bool:
    """Whether figures that no renaming changes agree, which spares listing most code that differs."""
    if left.record.resources.get("code_bytes") != right.record.resources.get("code_bytes"):
        return False
    counts = left.record.instructions, right.record.instructions
    return None in counts or counts[0] == counts[1]


def _same_normalised(left: Built, right: Built) -> bool:
    try:
        return _normalised(left) == _normalised(right)
    except NoListing:
        return False


def _normalised(built: Built) -> tuple[str, ...]:
    symbol = built.row.symbol
    lines = kernel_listing(built.code, symbol, built.target.backend)
    return normalised(lines, entry_registers(built.code, symbol))
