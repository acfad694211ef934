"""The compile cache: one file an outcome, found by the hash of everything that decides it.

    file     = magic  SHA-256(payload)  payload
    magic    = "ASSAY-OUTCOME-1\\n"
    payload  = msgpack map { key, outcome }

An entry holds no path and may be copied to another machine; it is read back only when its digest and its key are right.
Failures of the compiler are kept like successes, so that they read the same warm and cold.  Crashes and time-outs are
not: they may be the machine's.  Writing goes through a temporary file in the same folder and a rename, so that builders
may share a cache and be killed at any moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
from pathlib import Path

import msgpack

from assay.bundle.faults import Fault, FaultsError

from .records import CompileRequest, Outcome, canonical_json, sha256_hex
from .toolchain import Toolchain

_MAGIC = b"ASSAY-OUTCOME-1\n"
# Raised when the worker measures or judges differently, so that old entries are no longer found.
_WORKER_VERSION = 2
_KEPT = frozenset({"compiled", "compile_error", "compiler_complaint", "abandoned"})
_FIELDS = {field.name for field in dataclasses.fields(Outcome)} - {"cached"}


class CacheError(FaultsError):
    """A cache folder that cannot be used; exit status 3."""


def cache_key(request: CompileRequest, toolchain: Toolchain) -> str:
    """Hash of source, signature, specialisation, options, target, compiler build and worker version."""
    return sha256_hex(
        canonical_json({"request": request.to_dict(), "toolchain": toolchain.to_dict(), "worker": _WORKER_VERSION})
    )


def default_cache_directory() -> Path:
    """`$ASSAY_CACHE_DIR`, or `assay` below the user's cache folder (XDG Base Directory specification)."""
    if given := os.environ.get("ASSAY_CACHE_DIR"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"


class CompileCache:
    """Outcomes below one directory, which several processes may use at once."""

    def __init__(self, directory: Path):
        """Raises CacheError if the directory cannot be made."""
        self._directory = directory / "outcomes"
        self.damaged: list[str] = []
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "name another with ASSAY_CACHE_DIR"
            raise CacheError(
                Fault(str(self._directory), error.strerror or str(error), "a folder to write to", hint)
            ) from None

    def get(self, key: str) -> Outcome | None:
        """The outcome kept under `key`.  A damaged entry is noted in `.damaged` and counts as absent."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            self.damaged.append(path.name)
            return None
        outcome = _decode(data, key)
        if outcome is None:
            self.damaged.append(path.name)
        return outcome

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome, whole or not at all.  Raises CacheError when it cannot be written."""
        if outcome.status not in _KEPT:
            return
        fields = {name: getattr(outcome, name) for name in sorted(_FIELDS)}
        payload = msgpack.packb({"key": key, "outcome": fields})
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
                temporary = file.name
                file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
        except OSError as error:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            given = f"cannot be written: {error.strerror or error}"
            raise CacheError(
                Fault(str(path), given, "a folder with room", "name another with ASSAY_CACHE_DIR")
            ) from None

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key}.outcome"


def _decode(data: bytes, key: str) -> Outcome | None:
    head = len(_MAGIC)
    digest, payload = data[head : head + 32], data[head + 32 :]
    if data[:head] != _MAGIC or hashlib.sha256(payload).digest() != digest:
        return None
    entry = msgpack.unpackb(payload)
    if entry["key"] != key or set(entry["outcome"]) != _FIELDS:
        return None
    fields = entry["outcome"]
    for name in ("sass_local", "assembler_spills"):
        fields[name] = tuple(fields[name]) if fields[name] is not None else None
    return Outcome(**fields, cached=True)
