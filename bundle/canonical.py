"""Canonical JSON: one value, one spelling in bytes, so that a hash of the bytes is a hash of the value.

UTF-8, keys sorted by code point, no white space, no floating-point numbers (their spelling is not portable), no NaN, no
duplicate keys. `decode` refuses what `encode` never writes, except white space and key order, which carry no meaning.
"""

from __future__ import annotations

import json
from typing import Any

from .faults import BundleError, Fault

# Beyond this depth nothing of ours exists, and json's own C scanner would end in RecursionError.
MAX_DEPTH = 64

_MISSING = object()


def value_faults(value: Any, where: str, depth: int = 0) -> list[Fault]:
    """Everything in `value` that canonical JSON cannot hold."""
    kind = type(value)
    if value is None or kind is int or kind is bool:
        return []
    if depth > MAX_DEPTH:
        return [Fault(where, "nested too deeply", f"{MAX_DEPTH} levels")]
    if kind is str:
        return _text_faults(value, where)
    if kind is list or kind is tuple:
        return [f for i, item in enumerate(value) for f in value_faults(item, f"{where}[{i}]", depth + 1)]
    if kind is dict:
        return [f for key, item in value.items() for f in _item_faults(key, item, where, depth)]
    hint = "write a ratio as two integers" if kind is float else ""
    return [Fault(where, f"{value!r} ({kind.__name__})", "text, integer, true, false, null, list or map", hint)]


def encode(value: Any, where: str = "value") -> bytes:
    """The one spelling of `value`. Raises BundleError listing everything in it that JSON cannot hold."""
    if faults := value_faults(value, where):
        raise BundleError(faults)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def decode(data: bytes, where: str) -> Any:
    """The value spelled by `data`. Raises BundleError on anything else: bad UTF-8, duplicate keys, floats."""
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except (ValueError, RecursionError) as error:
        raise BundleError(Fault(where, f"is not canonical JSON: {error}")) from None


def _text_faults(text: str, where: str) -> list[Fault]:
    # A lone surrogate is a legal Python string that UTF-8 cannot spell.
    if text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text):
        return []
    return [Fault(where, f"{text!r}", "text that UTF-8 can spell")]


def _item_faults(key: Any, item: Any, where: str, depth: int) -> list[Fault]:
    if type(key) is not str:
        return [Fault(where, f"key {key!r} ({type(key).__name__})", "text keys")]
    return _text_faults(key, where) + value_faults(item, f"{where}.{key}", depth + 1)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        left = dict(pairs)
        twice = sorted({key for key, _ in pairs if left.pop(key, _MISSING) is _MISSING})
        raise ValueError(f"duplicate key {', '.join(twice)}")
    return made


def _refuse_number(spelling: str) -> None:
    raise ValueError(f"number {spelling} is not an integer")
