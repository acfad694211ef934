"""Rows that never answer, because a row that is tried before them accepts every call that they accept."""

from __future__ import annotations

from collections.abc import Sequence

from assay.bundle import Condition, Row


def shadowed(rows: Sequence[Row]) -> dict[str, str]:
    """Ids of rows that one other row always outranks, each with the first such row's id.

    rows: those of one family for one device, in the order in which they are tried.  A row that only several others
    together leave nothing to is not found.
    """
    found: dict[str, str] = {}
    for index, row in enumerate(rows):
        by = next((before.id for before in rows[:index] if accepts_all_of(before, row)), None)
        if by is not None:
            found[row.id] = by
    return found


def accepts_all_of(wide: Row, narrow: Row) -> bool:
    """Whether the conditions of `narrow` leave no call that `wide` refuses."""
    return all(
        any(_implies(given, wanted) for given in narrow.conditions if given.field == wanted.field)
        for wanted in wide.conditions
    )


def _implies(given: Condition, wanted: Condition) -> bool:
    """Whether every value that meets `given` meets `wanted`; both are of one field."""
    if given.op == "eq":
        return wanted.holds({given.field: given.value})
    if given.op == "one_of":
        return all(wanted.holds({given.field: value}) for value in given.value)
    if wanted.op == "multiple_of":
        return given.op == "multiple_of" and given.value % wanted.value == 0
    if wanted.op == "at_least":
        # A multiple is at least 1 times what it is a multiple of.
        return given.op in ("at_least", "multiple_of") and given.value >= wanted.value
    return wanted.op == given.op == "at_most" and given.value <= wanted.value
