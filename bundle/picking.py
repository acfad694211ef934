"""The short way to the row that serves a call: one row is read out of a decoded table, and no other is made.

`picked` gives the row that `table.select` would, and None wherever that would raise or has more to decide; its caller
then takes the long way, which says what is wrong.  How a table is spelled is told by `table_codec.py`, and what may
stand in each field by `rules.py`: of the row that is picked everything is held to that, of the others what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .opening import is_count, is_hash, is_name

# Field of a row's launch.  True: the kernel waits by itself for what the kernel before it wrote (griddepcontrol.wait),
# and may be launched while that one still runs.  Source: CUDA Programming Guide, 'Programmatic Dependent Launch'.
DEPENDENT_LAUNCH = "programmatic_dependent_launch"
_POOLED = ("arguments", "grid", "launch", "object", "specialisation", "symbol", "target")
_PLAIN = ("hidden_arguments", "id", "lds_bytes", "num_warps", "preference", "wavefront_size")
_KINDS = ("pointer", "i32", "i64", "f32", "hidden")
_MISSING = object()


class Argument:
    """`records.KernelArgument`, as what a launch needs of it."""

    __slots__ = ("kind", "name", "offset", "size")

    def __init__(self, name: str, offset: int, size: int, kind: str):
        self.name = name
        self.offset = offset
        self.size = size
        self.kind = kind


class PickedRow:
    """`records.Row`, as what a launch needs of it."""

    __slots__ = (
        "arguments", "family", "grid", "id", "launch", "lds_bytes", "num_warps", "object", "symbol", "target",
        "wavefront_size",
    )  # fmt: skip

    def __init__(self, family: str, cells: Mapping[str, Any]):
        self.family = family
        self.id: str = cells["id"]
        self.target: str = cells["target"]
        self.object: str = cells["object"]
        self.symbol: str = cells["symbol"]
        self.grid: list[list[str]] = cells["grid"]
        self.launch: dict[str, Any] = cells["launch"]
        self.num_warps: int = cells["num_warps"]
        self.wavefront_size: int = cells["wavefront_size"]
        self.lds_bytes: int = cells["lds_bytes"]
        self.arguments = tuple(Argument(*argument) for argument in cells["arguments"])


def grid_size(axis: Iterable[str], dims: Mapping[str, int]) -> int:
    """Programs along one axis of a grid.

    A term is a dimension of the call, a product of some (`rows*gqa`), or either by what one program takes of it,
    rounded up (`tokens/64`).
    """
    size = 1
    for term in axis:
        names, _, per_program = term.partition("/")
        size *= -(-math.prod(dims[name] for name in names.split("*")) // int(per_program or 1))
    return size


def fields_asked(document: Any) -> set[str]:
    """The fields that are a condition of some row."""
    return {condition[0] for condition in document["pools"]["conditions"]}


def picked(document: Any, family: str, request: Mapping[str, Any], targets: Collection[str]) -> PickedRow | None:
    """The row of a decoded table that serves the request on these targets; None where that is not plain."""
    try:
        return _picked(document, family, request, targets)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _picked(document: Any, family: str, request: Mapping[str, Any], targets: Collection[str]) -> PickedRow | None:
    pools, columns = document["pools"], document["columns"]
    conditions, asked = pools["conditions"], columns["conditions"]
    lists = [*(pools[name] for name in _POOLED), *(columns[name] for name in (*_POOLED, *_PLAIN)), conditions, asked]
    if not all(type(item) is list for item in lists) or any(len(columns[name]) != len(asked) for name in _PLAIN):
        return None
    if any(len(columns[name]) != len(asked) for name in _POOLED):
        return None
    # What no call can have, such as an extent below 0, is told by the long way.
    if any(type(value) is int and value < 1 for value in request.values()):
        return None
    failing = {at for at, condition in enumerate(conditions) if not _holds(condition, request)}
    here = {at for at, name in enumerate(pools["target"]) if name in targets}
    found = [
        at
        for at, (cell, target) in enumerate(zip(asked, columns["target"], strict=True))
        if target in here and failing.isdisjoint(cell)
    ]
    if not found:
        return None
    best = min(found, key=lambda at: (-columns["preference"][at], -len(asked[at]), columns["id"][at]))
    cells = {name: columns[name][best] for name in _PLAIN}
    if not all(type(columns[name][best]) is int and columns[name][best] >= 0 for name in _POOLED):
        return None
    cells |= {name: pools[name][columns[name][best]] for name in _POOLED}
    whole = all(type(at) is int and 0 <= at < len(conditions) for at in asked[best])
    return PickedRow(family, cells) if whole and _sound(cells) else None


def _holds(condition: list[Any], request: Mapping[str, Any]) -> bool:
    """As `Condition.holds` has it, for numbers of at least 1."""
    field, operator, value = condition
    given = request.get(field, _MISSING)
    if operator == "eq":
        return type(given) is type(value) and bool(given == value)
    if operator == "one_of":
        return type(value) is list and any(type(given) is type(item) and given == item for item in value)
    if type(given) is not int or type(value) is not int:
        return False
    if operator == "multiple_of":
        return value > 0 and given % value == 0
    return given >= value if operator == "at_least" else operator == "at_most" and given <= value


def _sound(cells: Mapping[str, Any]) -> bool:
    """Whether each field is what `rules.py` lets stand there."""
    warps, axes, arguments = cells["num_warps"], cells["grid"], cells["arguments"]
    return (
        is_name(cells["id"])
        and is_name(cells["target"])
        and is_hash(cells["object"])
        and type(cells["symbol"]) is str
        and 0 < len(cells["symbol"]) <= 4096
        and type(cells["preference"]) is int
        and is_count(cells["lds_bytes"])
        and is_count(cells["hidden_arguments"])
        and is_count(warps, 1)
        and warps in (1, 2, 4, 8, 16, 32)
        and type(cells["wavefront_size"]) is int
        and cells["wavefront_size"] in (32, 64)
        and type(cells["launch"]) is dict
        and type(cells["specialisation"]) is dict
        and type(axes) is list
        and 1 <= len(axes) <= 3
        and all(type(axis) is list and all(map(_is_term, axis)) for axis in axes)
        and type(arguments) is list
        and all(map(_is_argument, arguments))
    )


def _is_argument(argument: Any) -> bool:
    name, offset, size, kind = argument
    return type(name) is str and is_count(offset) and is_count(size, 1) and kind in _KINDS


def _is_term(term: Any) -> bool:
    names, slash, per_program = term.partition("/")
    counts = per_program.isdigit() and per_program.isascii() and len(per_program) <= 9 and per_program[0] != "0"
    return all(map(is_name, names.split("*"))) and (not slash or counts)
