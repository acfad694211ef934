"""How alike the code of two variants is: from the same bytes to instructions that differ."""

from __future__ import annotations

from typing import Any

from assay.objects import ObjectError, read_object

from .listing import NoListing
from .normalising import same_after_renaming, same_code_section
from .records import Built, Level
from .shortcuts import may_be_renamed


def code_level(left: Built, right: Built) -> Level:
    """The first level at which both are the same.  Code that cannot be listed here differs where its bytes do."""
    if left.row.object == right.row.object and left.row.symbol == right.row.symbol:
        return "identical_bytes"
    if same_code_section(left.code, right.code, left.row.symbol, right.row.symbol):
        return "identical_code_section" if _said_of_itself(left) == _said_of_itself(right) else "changed"
    return "identical_normalised" if _is_renamed(left, right) else "changed"


def _said_of_itself(built: Built) -> Any:
    """What the object tells a driver of its kernel, which the bundle's record only repeats.

    Of one that cannot be read it is the object's hash, which the other side's has not.
    """
    try:
        kernels = read_object(built.code, where=built.row.id).kernels
    except ObjectError:
        return built.row.object
    return next(((kernel.resources, kernel.arguments) for kernel in kernels if kernel.name == built.row.symbol), None)


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
