"""How one family's rows are spelled in bytes.

A table is a JSON map of columns: `{"pools": {name: [value*]}, "columns": {name: [cell*]}}`. What many rows share
(argument lists, grids, launches, conditions, objects) stands once in a pool, and its column holds indexes into it.
Columns and not rows, because a column is checked and turned into records at C speed: 1,000 rows of 14 fields one by one
would take the whole 10 ms that opening may take. Rows stand in the order in which they are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

from . import canonical
from .conditions import OPERATORS, Condition
from .faults import BundleError, Fault
from .records import KernelArgument, Row
from .rules import RULES, all_hashes, all_sound, condition_faults, conditions_sound, distinct_values, record_faults
from .table import OrderedRows, in_order

_POOLED = ("arguments", "grid", "launch", "object", "specialisation", "symbol", "target")
_PLAIN = ("hidden_arguments", "id", "lds_bytes", "num_warps", "preference", "wavefront_size")


def encode_table(rows: Iterable[Row]) -> bytes:
    """The table section of one family, the same whatever the order of `rows`."""
    ordered = in_order(rows)
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in ordered] for name in _PLAIN}
    pools: dict[str, list[Any]] = {}
    for name in _POOLED:
        pools[name], columns[name] = _pool([_spell(getattr(row, name)) for row in ordered])
    flat = [_spell(condition) for row in ordered for condition in row.conditions]
    pools["conditions"], indexes = _pool(flat)
    taken = iter(indexes)
    columns["conditions"] = [[next(taken) for _ in row.conditions] for row in ordered]
    return canonical.encode({"pools": pools, "columns": columns}, "table")


def decode_table(data: bytes, family: str, where: str) -> OrderedRows:
    """The rows of one family. Unknown pools and columns are passed over. Raises BundleError on anything malformed."""
    document = canonical.decode(data, where)
    pools, columns = (document.get(name) if type(document) is dict else None for name in ("pools", "columns"))
    if type(pools) is not dict or type(columns) is not dict:
        raise BundleError(Fault(where, "is not a map of pools and columns"))
    if faults := _shape_faults(pools, columns, where):
        raise BundleError(faults)
    values = {name: _read_pool(name, pools[name], where) for name in (*_POOLED, "conditions")}
    cells: dict[str, list[Any]] = {name: _read_plain(name, columns[name], where) for name in _PLAIN}
    for name in _POOLED:
        cells[name] = _read_indexes(values[name], columns[name], f"{where}: column {name}")
    cells["conditions"] = _read_conditions(values["conditions"], columns["conditions"], where)
    cells["family"] = [family] * len(cells["id"])
    # Every field has its column, so `Row` need not count them again for each row.
    return in_order(map(partial(tuple.__new__, Row), zip(*(cells[name] for name in Row._fields), strict=True)))


def _spell(value: Any) -> Any:
    if type(value) is Condition:
        return [value.field, value.op, _spell(value.value)]
    if type(value) is KernelArgument:
        return [value.name, value.offset, value.size, value.kind]
    return [_spell(item) for item in value] if type(value) is tuple else value


def _pool(values: list[Any]) -> tuple[list[Any], list[int]]:
    spelled = [canonical.encode(value) for value in values]
    distinct = dict(sorted(zip(spelled, values, strict=True), key=lambda pair: pair[0]))
    place = {key: index for index, key in enumerate(distinct)}
    return list(distinct.values()), [place[key] for key in spelled]


def _shape_faults(pools: dict[str, Any], columns: dict[str, Any], where: str) -> list[Fault]:
    faults = [Fault(where, f"no pool {n}") for n in (*_POOLED, "conditions") if type(pools.get(n)) is not list]
    wanted = (*_PLAIN, *_POOLED, "conditions")
    faults += [Fault(where, f"no column {n}") for n in wanted if type(columns.get(n)) is not list]
    if not faults and len({len(columns[name]) for name in wanted}) != 1:
        faults = [Fault(where, "columns of different lengths")]
    return faults


def _read_pool(name: str, pool: list[Any], where: str) -> list[Any]:
    readers: dict[str, Callable[[Any], Any]] = {
        "arguments": lambda item: tuple(KernelArgument(*argument) for argument in item),
        "conditions": lambda item: Condition(item[0], item[1], _tupled(item[2])) if len(item) == 3 else None,
        "grid": _tupled,
    }
    read = readers.get(name)
    try:
        values = [read(item) for item in pool] if read else pool
    except (TypeError, IndexError, RecursionError):
        raise BundleError(Fault(f"{where}: pool {name}", "is malformed")) from None
    if _pool_holds(name, values):
        return values
    faults = [f for i, value in enumerate(values) for f in _value_faults(name, value, f"{where}: pool {name}[{i}]")]
    if faults:
        raise BundleError(faults)
    return values


def _pool_holds(name: str, values: list[Any]) -> bool:
    """Whether nothing is wrong, told at less cost than what is."""
    if name == "arguments":
        return all_sound(KernelArgument, chain.from_iterable(values))
    if name == "conditions":
        return None not in values and conditions_sound(values)
    if name == "object":
        return all_hashes(values)
    return all(map(RULES[Row][name][0], values))


def _value_faults(name: str, value: Any, where: str) -> list[Fault]:
    if name == "conditions":
        # An operator of a newer minor version is let through: such a condition never holds (conditions.py).
        known = type(value) is Condition and value.op in OPERATORS
        return condition_faults(value, where) if known else record_faults(value, where)
    test, allowed = RULES[Row][name]
    if not test(value):
        return [Fault(where, "is malformed", allowed)]
    if name == "arguments":
        return [fault for argument in value for fault in record_faults(argument, where)]
    return []


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if type(value) is list else value


def _read_plain(name: str, cells: list[Any], where: str) -> list[Any]:
    test, allowed = RULES[Row][name]
    try:
        sound = all(map(test, distinct_values(cells)))
    except TypeError:
        sound = False
    if not sound:
        raise BundleError(Fault(f"{where}: column {name}", "is malformed", allowed))
    return cells


def _read_indexes(pool: list[Any], cells: list[Any], where: str) -> list[Any]:
    _check_indexes(pool, cells, where)
    return list(map(pool.__getitem__, cells))


def _check_indexes(pool: list[Any], cells: list[Any], where: str) -> None:
    whole = set(map(type, cells)) <= {int}
    if not whole or (cells and not 0 <= min(cells) <= max(cells) < len(pool)):
        raise BundleError(Fault(where, "an index outside its pool", f"0 to {len(pool) - 1}"))


def _read_conditions(pool: list[Any], cells: list[Any], where: str) -> list[tuple[Condition, ...]]:
    where = f"{where}: column conditions"
    if not set(map(type, cells)) <= {list}:
        raise BundleError(Fault(where, "is malformed", "lists of indexes"))
    _check_indexes(pool, list(chain.from_iterable(cells)), where)
    take = pool.__getitem__
    return [tuple(map(take, cell)) for cell in cells]
