"""What may stand in each field of each record, once for the writer (records) and for the reader (decoded JSON)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from .canonical import value_faults
from .conditions import OPERATORS, Condition
from .faults import BundleError, Fault, did_you_mean
from .records import ARGUMENT_KINDS, BACKENDS, KernelArgument, Manifest, Row, TargetRecord, VariantRecord

_Record = TypeVar("_Record")

# `Kernels.select(family, force_row=..., **request)`: a request field of these names could never be given.
RESERVED_FIELDS = ("force_row", "forbid_rows")

# Sets of letters and not patterns: stripping all of a text is faster than matching it, and nothing is compiled.
_DIGITS = "0123456789"
_WORD = f"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz{_DIGITS}_"
_NAME = f"{_WORD}.+-"
_HEXADECIMAL = f"{_DIGITS}abcdef"

Check = tuple[Callable[[Any], bool], str]


def _is_int(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_map(value: Any) -> bool:
    return type(value) is dict


def _is_hash(value: Any) -> bool:
    return type(value) is str and len(value) == 64 and not value.strip(_HEXADECIMAL)


def _is_relative(name: Any) -> bool:
    return type(name) is str and bool(name) and name[0] not in "/\\~" and ":" not in name and ".." not in name


def _is_list_of(value: Any, test: Callable[[Any], bool]) -> bool:
    return type(value) in (tuple, list) and all(map(test, value))


def _is_name(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= 128 and value[0] in _WORD and not value.strip(_NAME)


def _is_grid_term(value: Any) -> bool:
    if type(value) is not str or not value.isascii():
        return False
    names, slash, per_program = value.partition("/")
    # Nine digits: any block of elements, and no zero in front of it.
    counts = per_program.isdigit() and len(per_program) <= 9 and per_program[0] != "0"
    return all(map(_is_name, names.split("*"))) and (counts if slash else True)


def _is_text(value: Any) -> bool:
    return type(value) is str


NAME: Check = (_is_name, "a name of letters, digits and _.+- (at most 128)")
TEXT: Check = (_is_text, "text")
SYMBOL: Check = (lambda v: type(v) is str and 0 < len(v) <= 4096, "text of 1 to 4,096 characters")
HASH: Check = (_is_hash, "a SHA-256 in lower-case hexadecimal")
COUNT: Check = (lambda v: _is_int(v, 0, 2**63 - 1), "an integer of at least 0")
POSITIVE: Check = (lambda v: _is_int(v, 1, 2**63 - 1), "an integer of at least 1")
INTEGER: Check = (lambda v: _is_int(v, -(2**63), 2**63 - 1), "a 64-bit integer")
WARPS: Check = (lambda v: _is_int(v, 1, 32) and v & (v - 1) == 0, "1, 2, 4, 8, 16 or 32")
WAVEFRONT: Check = (lambda v: type(v) is int and v in (32, 64), "32 or 64")
MAP: Check = (_is_map, "a map")
COUNTS: Check = (lambda v: _is_map(v) and all(map(COUNT[0], v.values())), "a map to integers of at least 0")
SOURCES: Check = (
    lambda v: _is_map(v) and all(map(_is_relative, v)) and all(map(_is_hash, v.values())),
    "a map from relative file names to SHA-256",
)
NAMES: Check = (lambda v: _is_list_of(v, _is_name), "a list of names")
GRID: Check = (
    lambda v: _is_list_of(v, lambda axis: _is_list_of(axis, _is_grid_term)) and 1 <= len(v) <= 3,
    "one to three axes, each a list of dimensions, their products or parts, as in rows*gqa/16",
)
ANY: Check = (lambda _: True, "")


# What these let through may still be more than canonical JSON can hold.
_CHECKED_AS_JSON = (MAP, TEXT, SYMBOL)

RULES: dict[type, dict[str, Check]] = {
    Condition: {"field": NAME, "op": TEXT, "value": ANY},
    KernelArgument: {
        "name": TEXT,
        "offset": COUNT,
        "size": POSITIVE,
        "kind": (lambda v: type(v) is str and v in ARGUMENT_KINDS, ", ".join(ARGUMENT_KINDS)),
    },
    Row: {
        "id": NAME,
        "family": NAME,
        "target": NAME,
        "conditions": (lambda v: _is_list_of(v, lambda c: type(c) is Condition), "a tuple of conditions"),
        "preference": INTEGER,
        "symbol": SYMBOL,
        "object": HASH,
        "grid": GRID,
        "num_warps": WARPS,
        "wavefront_size": WAVEFRONT,
        "lds_bytes": COUNT,
        "arguments": (lambda v: _is_list_of(v, lambda a: type(a) is KernelArgument), "a tuple of arguments"),
        "hidden_arguments": COUNT,
        "launch": MAP,
        "specialisation": MAP,
    },
    VariantRecord: {
        "id": NAME,
        "family": NAME,
        "problem": MAP,
        "launch": MAP,
        "target": NAME,
        "specialisation": MAP,
        "resources": MAP,
        "source_sha256": HASH,
        "code_sha256": HASH,
        "source": TEXT,
        "instructions": (lambda v: v is None or COUNTS[0](v), "a map to integers of at least 0, or null"),
    },
    TargetRecord: {
        "name": NAME,
        "backend": (lambda v: type(v) is str and v in BACKENDS, ", ".join(BACKENDS)),
        "arch": NAME,
        "lds_limit": POSITIVE,
        "wavefront_size": WAVEFRONT,
        "runs_on": NAMES,
    },
    Manifest: {
        "bundle_version": TEXT,
        "assay_version": TEXT,
        "toolchain": MAP,
        "profile": NAME,
        "targets": (lambda v: type(v) in (tuple, list), "a list of targets"),
        "sources": SOURCES,
        "families": (lambda v: _is_map(v) and all(map(_is_name, v)), "a map from family names"),
        "counts": COUNTS,
        "bytes": COUNTS,
        "schema": (lambda v: _is_list_of(v, COUNT[0]) and len(v) == 2, "two integers, major and minor"),
        "companion": (lambda v: v is None or _is_map(v), "a map, or null"),
    },
}


def from_json(kind: type[_Record], data: Any, where: str, **given: Any) -> _Record:
    """The record spelled by `data`, with the fields in `given` taken from there. Fields unknown here are passed over.

    Raises BundleError with everything that is missing or of the wrong form.
    """
    if faults := map_faults(kind, data, where, given):
        raise BundleError(faults)
    names = kind._fields
    taken = {name: data[name] for name in names if name in data and name not in given}
    return kind(**{**taken, **given})


def map_faults(kind: type, data: Any, where: str, given: Mapping[str, Any]) -> list[Fault]:
    """Everything wrong with decoded JSON that should spell a `kind`; fields in `given` are not looked for in it."""
    if type(data) is not dict:
        return [Fault(where, f"{_shown(data)}", "a map")]
    faults = []
    for name in kind._fields:
        if name in given:
            continue
        if name in data:
            faults += _field_faults(kind, name, data[name], where)
        elif name not in kind._field_defaults:
            faults.append(Fault(where, f"no field {name}", hint=did_you_mean(name, data)))
    return faults


def record_faults(record: Any, where: str) -> list[Fault]:
    """Everything wrong with one record, field by field: type, range, and whether canonical JSON can hold it."""
    kind = type(record)
    if kind not in RULES:
        return [Fault(where, f"{_shown(record)}", "a record of assay.bundle")]
    return [fault for name in RULES[kind] for fault in _value_faults(kind, name, getattr(record, name), where)]


def all_sound(kind: type, records: Iterable[Any]) -> bool:
    """Whether `record_faults` finds nothing in any of these, all of one kind. Equal values are judged once."""
    for name, values in zip(kind._fields, zip(*records, strict=True), strict=False):
        try:
            distinct = distinct_values(values)
        except TypeError:
            return False
        if not all(map(RULES[kind][name][0], distinct)):
            return False
        if RULES[kind][name] in _CHECKED_AS_JSON and any(value_faults(value, "") for value in distinct):
            return False
    return True


def conditions_sound(conditions: Collection[Condition]) -> bool:
    """Whether `condition_faults` finds nothing in any of these."""
    if not all_sound(Condition, conditions) or not {condition.field for condition in conditions}.isdisjoint(
        RESERVED_FIELDS
    ):
        return False
    return all(op in _VALUES and _VALUES[op][0](value) for _, op, value in conditions)


def distinct_values(values: Collection[Any]) -> list[Any]:
    """Each of these once. 1 and True are two. Raises TypeError where one is a list or a map."""
    return [value for _, value in set(zip(map(type, values), values, strict=True))]


def all_hashes(values: Collection[Any]) -> bool:
    """Whether `HASH` holds for every one, told at once."""
    if not set(map(type, values)) <= {str} or not set(map(len, values)) <= {64}:
        return False
    joined = "".join(values)
    try:
        return bytes.fromhex(joined).hex() == joined
    except ValueError:
        return False


def condition_faults(condition: Condition, where: str) -> list[Fault]:
    """Everything wrong with one condition's field, operator or value."""
    if faults := record_faults(condition, where):
        return faults
    where = f"{where}: condition on {condition.field}"
    if condition.field in RESERVED_FIELDS:
        faults.append(Fault(where, "a reserved word", f"any field but {', '.join(RESERVED_FIELDS)}"))
    if condition.op not in OPERATORS:
        hint = did_you_mean(condition.op, OPERATORS)
        return [*faults, Fault(where, f"operator {condition.op!r}", ", ".join(OPERATORS), hint)]
    allowed = _VALUES[condition.op]
    if not allowed[0](condition.value):
        faults.append(Fault(where, f"{condition.op} {_shown(condition.value)}", allowed[1]))
    return faults


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in (str, bool) or INTEGER[0](value)


_VALUES: dict[str, Check] = {
    "eq": (_is_scalar, "text, a 64-bit integer, true, false or null"),
    "one_of": (
        lambda v: type(v) is tuple and len(v) > 0 and all(map(_is_scalar, v)),
        "a tuple of text, 64-bit integers, true, false or null, not empty",
    ),
    "multiple_of": POSITIVE,
    "at_least": INTEGER,
    "at_most": INTEGER,
}


def _value_faults(kind: type, name: str, value: Any, where: str) -> list[Fault]:
    """`_field_faults`, and what canonical JSON cannot hold."""
    found = _field_faults(kind, name, value, where)
    if not found and RULES[kind][name] in _CHECKED_AS_JSON:
        return value_faults(value, f"{where}: {name}")
    return found


def _field_faults(kind: type, name: str, value: Any, where: str) -> list[Fault]:
    test, allowed = RULES[kind][name]
    return [] if test(value) else [Fault(f"{where}: {name}", _shown(value), allowed)]


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "something nested too deeply"
    text = text if len(text) <= 80 else text[:77] + "..."
    return text if value is None or type(value) in (int, str, bool) else f"{text} ({type(value).__name__})"
