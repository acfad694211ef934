"""The compile cache: outcomes by the hash of everything that decides them (`store` says how they are kept).

Failures of the compiler are kept like successes, so that they read the same warm and cold.  Crashes and time-outs are
not: they may be the machine's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from .records import CompileRequest, Outcome, canonical_json, sha256_hex
from .store import CacheError, Store, default_cache_directory
from .toolchain import Toolchain

# Raised when the worker measures or judges differently, so that old entries are no longer found.
_WORKER_VERSION = 3
_KEPT = frozenset({"compiled", "compile_error", "compiler_complaint", "abandoned"})
_FIELDS = {field.name for field in dataclasses.fields(Outcome)} - {"cached"}


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
        if set(fields) != _FIELDS:
            self._store.reject(key)
            return None
        for name in ("sass_local", "assembler_spills"):
            fields[name] = tuple(fields[name]) if fields[name] is not None else None
        return Outcome(**fields, cached=True)

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome, whole or not at all.  Raises CacheError when it cannot be written."""
        if outcome.status in _KEPT:
            self._store.put(key, {name: getattr(outcome, name) for name in sorted(_FIELDS)})


__all__ = ["CacheError", "CompileCache", "cache_key", "default_cache_directory"]
