"""Dispatch: which row of a family's table serves a request. Why the others do not is told by `verdicts.py`.

Rows are tried by preference (higher first), then by number of conditions (the more specific first), then by id; the
first whose conditions all hold is the one. Nothing here looks at a device: `devices.py` does that before, for the whole
bundle.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from .faults import BundleError, Fault, did_you_mean
from .record import Record
from .records import Row


class OrderedRows(tuple[Row, ...]):
    """Rows in the order in which they are tried, so that a call need not sort them again. Made by `in_order`."""

    __slots__ = ()


class Selection(Record):
    """The row that serves a request, and the ids of the rows that were tried before it and did not."""

    __slots__ = ()

    row: Row
    considered: tuple[str, ...]


class UnknownRow(BundleError):
    """`force` names a row that the family does not have."""


def in_order(rows: Iterable[Row]) -> OrderedRows:
    """The rows in the order in which `select` tries them."""
    if isinstance(rows, OrderedRows):
        return rows
    return OrderedRows(sorted(rows, key=lambda row: (-row.preference, -len(row.conditions), row.id)))


def select(
    rows: Iterable[Row], request: Mapping[str, Any], *, force: str | None = None, forbid: Collection[str] = ()
) -> Selection:
    """The row that serves `request`.

    force: the only row id to consider; its conditions must hold all the same, because a kernel run outside its
    conditions gives wrong numbers. forbid: row ids never to take; ids of other families are passed over.
    Raises NoMatch (nothing serves it) or UnknownRow (`force` names no row of these).
    """
    ordered = in_order(rows)
    forbidden = id_set(forbid)
    _check_forced(ordered, force)
    considered: list[str] = []
    # Rows share conditions, and a bundle's reader makes each distinct one once: judge each once a call.
    known: dict[int, bool] = {}
    for row in () if impossible_values(ordered, request) else ordered:
        if not exclusion(row, force, forbidden) and _all_hold(row, request, known):
            return Selection(row, tuple(considered))
        considered.append(row.id)
    from .verdicts import NoMatch, explain, nearest_first  # Here and not above: most calls are served.

    raise NoMatch(nearest_first(explain(ordered, request, force=force, forbid=forbidden)), request, force)


def with_products(
    request: Mapping[str, Any], products: Mapping[str, Sequence[str]], fields: Collection[str]
) -> dict[str, Any]:
    """The request with each field that is a product, where it names the field's dimensions and not the field.

    fields: those that rows ask for; a dimension that is none of them has done its part then.
    """
    completed = dict(request)
    for field, dims in products.items():
        if field not in request and all(type(request.get(dim)) is int for dim in dims):
            if field in fields:
                completed[field] = math.prod(request[dim] for dim in dims)
            for dim in {*dims}.difference(fields):
                completed.pop(dim, None)
    return completed


def known_fields(rows: Iterable[Row]) -> frozenset[str]:
    """The fields that are a condition of some row."""
    conditions = chain.from_iterable(map(attrgetter("conditions"), rows))
    return frozenset(map(attrgetter("field"), conditions))


def impossible_values(rows: Iterable[Row], request: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the request whose value no call can have, such as an extent below 0, and what is wrong in words.

    Such a call is wrong for every row, also for those that do not ask for the field.
    """
    low = {name: value for name, value in request.items() if type(value) is int and value < 1}
    if not low:  # As in nearly every call: nothing is looked for in the rows then.
        return {}
    found: dict[str, str] = {}
    for condition in (condition for row in rows for condition in row.conditions):
        least = condition.least
        if least is not None and condition.field in low and low[condition.field] < least:
            found[condition.field] = f"{condition.field}={low[condition.field]}: must be at least {least}"
    return found


def id_set(forbid: Collection[str]) -> frozenset[str]:
    """Row ids that a caller forbids; one alone may be given as text."""
    return frozenset((forbid,) if isinstance(forbid, str) else forbid)


def _check_forced(rows: OrderedRows, force: str | None) -> None:
    if force is None or any(row.id == force for row in rows):
        return
    known = [row.id for row in rows]
    raise UnknownRow(Fault("force", f"no row {force!r}", f"one of {len(known)} rows", did_you_mean(force, known)))


def exclusion(row: Row, force: str | None, forbidden: frozenset[str]) -> str:
    """Why the caller's own `force` or `forbid` keeps the row out; empty where neither does."""
    if row.id in forbidden:
        return "forbidden by the caller"
    return "" if force is None or row.id == force else f"the caller forces {force}"


def _all_hold(row: Row, request: Mapping[str, Any], known: dict[int, bool]) -> bool:
    for condition in row.conditions:
        holds = known.get(id(condition))
        if holds is None:
            holds = known[id(condition)] = condition.holds(request)
        if not holds:
            return False
    return True
