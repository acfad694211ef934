"""Results kept on disk, each in one file, found by the hash of everything that decides it.

    file     = magic  SHA-256(payload)  payload
    magic    = "ASSAY-RESULT-1\\n"
    payload  = msgpack map { key, kind, result }

An entry holds no path and may be copied to another machine; it is read only when its digest, key and kind are right.
Writing goes through a temporary file in the same folder and a rename, so that builders may share a folder and be killed
at any moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgpack

from assay.bundle.faults import Fault, FaultsError

_MAGIC = b"ASSAY-RESULT-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


class CacheError(FaultsError):
    """A cache folder that cannot be used; exit status 3."""


class Store:
    """Results of one kind below one directory, which several processes may use.  `damaged`: entries passed over."""

    def __init__(self, directory: Path, kind: str):
        """`kind` in the singular names the entries.  Raises CacheError if the directory cannot be made."""
        self._directory = directory / f"{kind}s"
        self._kind = kind
        self.damaged: list[str] = []
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cache_error(self._directory, error.strerror or str(error), "a folder to write to") from None

    def get(self, key: str) -> dict[str, Any] | None:
        """The result kept under `key`.  A damaged entry is noted in `.damaged` and counts as absent."""
        path = self._path(key)
        try:
            result = self._decode(path.read_bytes(), key)
        except FileNotFoundError:
            return None
        except Exception:  # whatever is wrong with an entry, another can be made
            result = None
        if result is None:
            self.reject(key)
        return result

    def reject(self, key: str) -> None:
        """Note that an entry is of no use."""
        self.damaged.append(self._path(key).name)

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result (what msgpack can hold), whole or not at all.  Raises CacheError when it cannot be written."""
        # A compiler may print anything: what is no text in UTF-8 comes back as it was.
        payload = msgpack.packb({"key": key, "kind": self._kind, "result": result}, unicode_errors="surrogatepass")
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
            raise _cache_error(path, f"cannot be written: {error.strerror or error}", "a folder with room") from None

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key}.{self._kind}"

    def _decode(self, data: bytes, key: str) -> dict[str, Any] | None:
        head = len(_MAGIC)
        digest, payload = data[head : head + _DIGEST_BYTES], data[head + _DIGEST_BYTES :]
        if data[:head] != _MAGIC or hashlib.sha256(payload).digest() != digest:
            return None
        entry = msgpack.unpackb(payload, unicode_errors="surrogatepass")
        result = entry["result"]
        return result if (entry["key"], entry["kind"]) == (key, self._kind) and isinstance(result, dict) else None


def _cache_error(path: Path, given: str, allowed: str) -> CacheError:
    return CacheError(Fault(str(path), given, allowed, "name another with ASSAY_CACHE_DIR"))


def default_cache_directory() -> Path:
    """`$ASSAY_CACHE_DIR`, or `assay` below the user's cache folder (XDG Base Directory specification).

    Raises CacheError where there is neither.
    """
    if given := os.environ.get("ASSAY_CACHE_DIR"):
        return Path(given)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "assay"
    try:
        return Path.home() / ".cache/assay"
    except RuntimeError:  # HOME is not set and the user has no entry in the list of users
        raise CacheError(
            Fault("the cache", "no home directory", "a folder to write to", "set ASSAY_CACHE_DIR")
        ) from None
