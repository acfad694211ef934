"""Blob indexes: where each code object and each rendered source lies. In binary, and parsed when a blob is asked for.

The raw half comes first and in one piece, because the bundle's identity is taken over exactly these bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from .faults import BundleError, Fault
from .format import Section, aligned, size_faults
from .record import Record

_COUNT = struct.Struct("<Q")
_RAW = struct.Struct("<32sQ")
_STORED = struct.Struct("<QQ32s")


class Blob(Record):
    """One deflated blob. `offset` from the start of the file, sizes in bytes, hashes hexadecimal."""

    __slots__ = ()

    raw_sha256: str
    raw_size: int
    offset: int
    stored_size: int
    stored_sha256: str


def pack_index(blobs: Iterable[Blob]) -> bytes:
    """The index section of `blobs`, which are in ascending order of their raw hash."""
    blobs = list(blobs)
    raw = [_RAW.pack(bytes.fromhex(b.raw_sha256), b.raw_size) for b in blobs]
    stored = [_STORED.pack(b.offset, b.stored_size, bytes.fromhex(b.stored_sha256)) for b in blobs]
    return _COUNT.pack(len(blobs)) + b"".join(raw) + b"".join(stored)


def raw_half(index: bytes, where: str) -> bytes:
    """The identity-bearing part of an index. Raises BundleError where the index's size is not its count's."""
    count = _COUNT.unpack_from(index)[0] if len(index) >= _COUNT.size else 0
    if len(index) != _COUNT.size + count * (_RAW.size + _STORED.size):
        raise BundleError(Fault(where, f"{len(index):,} bytes for {count:,} entries"))
    return index[_COUNT.size : _COUNT.size + count * _RAW.size]


class BlobIndex(Mapping[str, Blob]):
    """The blobs of one area by their raw hash, hexadecimal. Each `Blob` is made when it is asked for: few ever are."""

    def __init__(self, index: bytes, places: dict[str, int]):
        """index: the section. places: raw hash -> position in both its halves."""
        self._index = index
        self._places = places

    def __getitem__(self, raw_sha256: str) -> Blob:
        place = self._places[raw_sha256]
        _, raw_size = _RAW.unpack_from(self._index, _COUNT.size + place * _RAW.size)
        behind_raw = _COUNT.size + len(self._places) * _RAW.size
        offset, stored_size, stored = _STORED.unpack_from(self._index, behind_raw + place * _STORED.size)
        return Blob(raw_sha256, raw_size, offset, stored_size, stored.hex())

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def unpack_index(index: bytes, area: Section, where: str) -> BlobIndex:
    """The blobs of `area`. Raises BundleError unless they are in order and fill it without overlap or gap."""
    split = _COUNT.size + len(raw_half(index, where))
    pairs = zip(_RAW.iter_unpack(index[_COUNT.size : split]), _STORED.iter_unpack(index[split:]), strict=True)
    places: dict[str, int] = {}
    faults: list[Fault] = []
    last, end = b"", area.offset
    for (sha256, raw_size), (offset, stored_size, _) in pairs:
        places[sha256.hex()] = len(places)
        if sha256 <= last or offset != aligned(end):
            label = f"{where}: {sha256.hex()[:16]}"
            faults.append(Fault(label, f"begins at {offset:,}", f"{aligned(end):,}", "in order, no overlap, no gap"))
        if size_faults("", raw_size, stored_size):
            faults += size_faults(f"{where}: {sha256.hex()[:16]}", raw_size, stored_size)
        last, end = sha256, offset + stored_size
    if end != area.end:
        faults.append(Fault(where, f"blobs end at {end:,}", f"the area's end at {area.end:,}"))
    if faults:
        raise BundleError(faults)
    return BlobIndex(index, places)
