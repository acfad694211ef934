"""How alike the code of two variants is: from the same bytes to instructions that differ."""

from __future__ import annotations

from .listing import NoListing
from .normalising import same_after_renaming, same_code_section
from .records import Built, Level


def code_level(left: Built, right: Built) -> Level:
    """The first level at which both are the same.  Code that cannot be listed here differs where its bytes do."""
    codes, symbols = (left.code, right.code), (left.row.symbol, right.row.symbol)
    if left.row.object == right.row.object and symbols[0] == symbols[1]:
        return "identical_bytes"
    if same_code_section(*codes, *symbols):
        return "identical_code_section"
    if not _may_be_renamed(left, right):
        return "changed"
    try:
        renamed = same_after_renaming(*codes, *symbols, left.target.backend)
    except NoListing:
        renamed = False
    return "identical_normalised" if renamed else "changed"


def _may_be_renamed(left: Built, right: Built) -> bool:
    """Whether figures that no renaming changes agree, which spares listing most code that differs."""
    if left.record.resources.get("code_bytes") != right.record.resources.get("code_bytes"):
        return False
    counts = left.record.instructions, right.record.instructions
    return None in counts or counts[0] == counts[1]
