"""The compile cache: outcomes by the hash of everything that decides them (`store` says how they are kept).

Failures of the compiler are kept like successes, so that they read the same warm and cold.  Crashes and time-outs are
not: they may be the machine's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .records import CompileRequest, Outcome, canonical_json, sha256_hex
from .store import CacheError, Store, default_cache_directory
from .toolchain import Toolchain

# Raised when the worker measures or judges differently, so that old entries are no longer found.
_WORKER_VERSION = 4
_KEPT = frozenset({"compiled", "compile_error", "compiler_complaint", "abandoned"})
_FIELDS = {field.name for field in dataclasses.fields(Outcome)} - {"cached"}


def _is_count(value: Any) -> bool:
    return type(value) is int


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) and _is_count(n) for name, n in value.items())


# What the fields that are always there may hold, and those that may be None; the others are counts or None.
_ALWAYS: dict[str, Callable[[Any], bool]] = {
    "status": lambda value: isinstance(value, str) and value in _KEPT,
    "code": lambda value: isinstance(value, bytes),
    "messages": lambda value: isinstance(value, str),
    "symbol": lambda value: isinstance(value, str),
    "seconds": lambda value: type(value) in (int, float),
    "cpu_seconds": lambda value: type(value) in (int, float),
}
_PAIRS = ("sass_local", "assembler_spills")
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "instructions": _is_counts,
    "ir_sha256": lambda value: isinstance(value, str),
    **dict.fromkeys(_PAIRS, _is_pair),
}


def _is_outcome(fields: dict[str, Any]) -> bool:
    """Whether an entry holds what `put` would have written."""
    return set(fields) == _FIELDS and all(
        _ALWAYS[name](value) if name in _ALWAYS else value is None or _OPTIONAL.get(name, _is_count)(value)
        for name, value in fields.items()
    )


def cache_key(request: CompileRequest, toolchain: Toolchain) -> str:
    """Hash of source, signature, specialisation, options, target, compiler build and worker version."""
    return sha256_hex(
        canonical_json({"request": request.to_dict(), "toolchain": toolchain.to_dict(), "worker": _WORKER_VERSION})
    )


class CompileCache:
    """Outcomes below one directory, which several processes may use at once."""

    def __init__(self, directory: Path):
        """Raises CacheError if the directory cannot be made."""
        self._store = Store(directory, "outcome")

    @property
    def damaged(self) -> list[str]:
        """Names of entries that were passed over."""
        return self._store.damaged

    def get(self, key: str) -> Outcome | None:
        """The outcome kept under `key`.  A damaged entry is noted in `.damaged` and counts as absent."""
        fields = self._store.get(key)
        if fields is None:
            return None
        if not _is_outcome(fields):
            self._store.reject(key)
            return None
        for name in _PAIRS:
            fields[name] = tuple(fields[name]) if fields[name] is not None else None
        return Outcome(**fields, cached=True)

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome, whole or not at all.  Raises CacheError when it cannot be written."""
        if outcome.status in _KEPT:
            self._store.put(key, {name: getattr(outcome, name) for name in sorted(_FIELDS)})


__all__ = ["CacheError", "CompileCache", "cache_key", "default_cache_directory"]
