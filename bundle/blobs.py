"""Blob indexes: where each code object and each rendered source lies. In binary, and parsed when a blob is asked for.

The raw half comes first and in one piece, because the bundle's identity is taken over exactly these bytes.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from .faults import BundleError, Fault
from .format import Section, aligned, size_faults

_COUNT = struct.Struct("<Q")
_RAW = struct.Struct("<32sQ")
_STORED = struct.Struct("<QQ32s")


class Blob(NamedTuple):
    """One deflated blob. `offset` from the start of the file, sizes in bytes, hashes hexadecimal."""

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


def unpack_index(index: bytes, area: Section, where: str) -> dict[str, Blob]:
    """Raw hash -> blob. Raises BundleError unless the blobs are in order and fill `area` without overlap or gap."""
    split = _COUNT.size + len(raw_half(index, where))
    pairs = zip(_RAW.iter_unpack(index[_COUNT.size : split]), _STORED.iter_unpack(index[split:]), strict=True)
    blobs: dict[str, Blob] = {}
    faults: list[Fault] = []
    last, end = b"", area.offset
    for (sha256, raw_size), (offset, stored_size, stored) in pairs:
        blob = Blob(sha256.hex(), raw_size, offset, stored_size, stored.hex())
        blobs[blob.raw_sha256] = blob
        if sha256 <= last or offset != aligned(end):
            label = f"{where}: {blob.raw_sha256[:16]}"
            faults.append(Fault(label, f"begins at {offset:,}", f"{aligned(end):,}", "in order, no overlap, no gap"))
        if size_faults("", raw_size, stored_size):
            faults += size_faults(f"{where}: {blob.raw_sha256[:16]}", raw_size, stored_size)
        last, end = sha256, offset + stored_size
    if end != area.end:
        faults.append(Fault(where, f"blobs end at {end:,}", f"the area's end at {area.end:,}"))
    if faults:
        raise BundleError(faults)
    return blobs
