"""Bounded reads out of one open file. Nothing is read that was not first checked to lie inside it."""

from __future__ import annotations

import os
import threading
from io import FileIO
from pathlib import Path

from .faults import BundleError, Fault
from .format import inflate, sha256


class Store:
    """One file open for reading, usable from several threads at once. Raises BundleError from every method."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        try:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close().
            self.size = os.fstat(self._file.fileno()).st_size
        except (OSError, ValueError) as error:  # ValueError: a path with a zero byte in it.
            reason = getattr(error, "strerror", None) or error
            raise BundleError(Fault(str(self.path), f"cannot be opened: {reason}")) from error
        self._seeking = threading.Lock()

    @classmethod
    def of(cls, path: str | os.PathLike[str], file: FileIO, size: int) -> Store:
        """The store of a file of that size in bytes, which was opened before."""
        store = cls.__new__(cls)
        store.path, store._file, store.size = Path(path), file, size
        store._seeking = threading.Lock()
        return store

    def read(self, offset: int, size: int, where: str) -> bytes:
        """Exactly `size` bytes from `offset`."""
        if offset < 0 or size < 0 or offset + size > self.size:
            given = f"bytes {offset:,} to {offset + size:,}"
            raise BundleError(Fault(f"{self.path}: {where}", given, f"the file's {self.size:,} bytes", "cut short?"))
        try:
            data = self._read(offset, size)
        except (OSError, ValueError) as error:
            raise BundleError(Fault(f"{self.path}: {where}", f"cannot be read: {error}")) from error
        if len(data) != size:
            raise BundleError(Fault(f"{self.path}: {where}", f"{len(data):,} of {size:,} bytes", "", "cut short?"))
        return data

    def read_hashed(self, offset: int, size: int, expected: str, where: str) -> bytes:
        """`read`, and the bytes hash to `expected`."""
        data = self.read(offset, size, where)
        if sha256(data) != expected:
            raise BundleError(
                Fault(
                    f"{self.path}: {where}", "its SHA-256 does not match", expected, "damaged: rebuild or copy it again"
                )
            )
        return data

    def read_blob(self, offset: int, size: int, expected: str, raw_size: int, raw_expected: str, where: str) -> bytes:
        """The raw bytes of a deflated blob, hashed before and after inflating."""
        stored = self.read_hashed(offset, size, expected, where)
        raw = inflate(stored, raw_size, f"{self.path}: {where}")
        if sha256(raw) != raw_expected:
            raise BundleError(Fault(f"{self.path}: {where}", "inflated, its SHA-256 does not match", raw_expected))
        return raw

    def close(self) -> None:
        """Close the file; a second time does nothing. Reads fail from here on."""
        self._file.close()

    def _read(self, offset: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return _pread(self._file.fileno(), offset, size)
        with self._seeking:  # Windows has no pread: one file position for all threads.
            self._file.seek(offset)
            return self._file.read(size) or b""


def _pread(descriptor: int, offset: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.pread(descriptor, size, offset)
        if not part:
            break
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
