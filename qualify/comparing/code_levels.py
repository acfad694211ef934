"""How alike the code of two variants is: from the same bytes to instructions that differ."""

from __future__ import annotations

from assay.objects import ObjectError

from .listing import NoListing
from .normalising import same_after_renaming, same_code_section
from .records import Built, Level
from .shortcuts import may_be_renamed


def code_level(left: Built, right: Built) -> Level:
    """The first level at which both are the same.  Code that cannot be listed here differs where its bytes do."""
    if left.row.object == right.row.object and left.row.symbol == right.row.symbol:
        return "identical_bytes"
    if same_code_section(left.code, right.code, left.row.symbol, right.row.symbol):
        return "identical_code_section"
    return "identical_normalised" if _is_renamed(left, right) else "changed"


def _is_renamed(left: Built, right: Built) -> bool:
    try:
        return may_be_renamed(left, right) and same_after_renaming(
            left.code, right.code, left.row.symbol, right.row.symbol, left.target.backend
        )
    except (
        NoListing,
        ObjectError,
        ModuleNotFoundError,
    ):  # no disassembler of it, or not installed; or no kernel at all
        return False
