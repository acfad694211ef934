r"""The container: header, sections, directory. One file, little-endian, version 1.0.

    bundle        = header section* directory [evidence]
    header        = magic u16:major u16:minor u16:0
                    u64:directory-offset u64:directory-size u64:identity-end u64:0 u64:0 u64:0
                    hash:directory hash:identity 32*%x00 hash:header     ; 192 bytes; the last covers the 160 before
    magic         = %x89 "ASSAY" CR LF %x1A LF
    section       = pad (document / index / area)
    pad           = *63%x00                                              ; up to the next multiple of 64
    document      = canonical JSON, as it is (codec "none") or deflated (codec "zlib")
                    ; kinds: manifest, table (one a family), variants (one a family)
    index         = u64:count raw-half stored-half                       ; kinds: object-index, source-index
    raw-half      = count*(hash:raw u64:raw-size)                        ; ascending by hash, so each once
    stored-half   = count*(u64:offset u64:stored-size hash:stored)       ; same order
    area          = count*(pad deflated-blob)                            ; kinds: objects, sources; same order, no gaps
    directory     = pad canonical JSON {"sections": [entry*]} pad        ; identity-end is here
    entry         = {"kind", "name", "codec", "offset", "stored_size", "raw_size", "stored_sha256", "raw_sha256"}
    evidence      = see evidence.py
    hash          = 32 bytes, SHA-256

Sections lie in the order manifest, tables, variants, indexes, areas, directory; each begins at the first multiple of
64 behind the one before it. So nothing overlaps, and nothing hides in a gap. The identity is the SHA-256 over the raw
bytes' hashes of manifest, tables and variants and over the raw half of both indexes: two builds that differ only in
their zlib have one identity, and evidence has no part in it.

Version rule: a newer minor may add section kinds, table columns and JSON fields that an older reader can pass over, and
nothing else. Whatever an older reader would misread (a new meaning, a condition that must be checked) raises the major,
and every reader refuses a major that is not its own. magic, major and minor stay where they are for ever.

Constraints:
 1. Opening 1,000 rows takes under 10 ms, and launching one kernel reads that kernel and not the rest: hence a table a
    family, each code object deflated on its own, and an index in binary: the identity is taken over half of it as it
    stands, so that opening hashes it and parses nothing, and it is half the size of a JSON one.
 2. Byte-identical from equal contents: no time, no path, no order but sorted; zlib at level 9 with its defaults.
 3. The file is hostile until its hashes are checked, and afterwards it is still only data: every offset is checked
    against the file before it is read, inflation stops at the declared size, nothing is executed or unpickled.
 4. Evidence changes while the identity does not: it stands behind, and is replaced as a whole.

Measured (1,000 rows of eight conditions in one family, each with an object and a source of its own; two cores of an
EPYC, others at work on them): 69 bytes of table a row as stored, 180 raw, half of it the two hashes; 88 bytes of index
a blob; directory 2 kB; padding 32 bytes a blob. Opening 0.6 ms; parsing that table 5 ms; choosing a row 0.1 ms; reading
and hashing one 30 kB object 0.1 ms, after 1.2 ms for the index; the whole file verified in 0.2 s and written in 1.3 s
(deflating 30 MB).

Rejected: zip (every member is described twice and the two may disagree; a time stamp a member; CRC-32 and no hash; the
end is found by searching backwards. Speed was no reason: it opens 1,000 members in 2 ms). SQLite (not reproducible byte
for byte). msgpack and zstd (not in the standard library of Python 3.11). mmap (a file cut short under a running server
ends in SIGBUS; a short pread is an error with a name).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

from . import canonical
from .faults import BundleError, Fault
from .record import Record
from .records import as_json

MAGIC = b"\x89ASSAY\r\n\x1a\n"
# By which a bundle is known for one even where a transfer has mended its line ends; opening it tells of that.
MAGIC_NAME = MAGIC[:6]
MAJOR, MINOR = 1, 0
ALIGNMENT = 64
# A deflate stream grows at most 1,032 times; and no code object or document of ours is near the second figure.
MAX_RATIO = 1032
MAX_RAW_BYTES = 1 << 28

KIND_ORDER = ("manifest", "table", "variants", "object-index", "source-index", "objects", "sources")
# Stored as they are: read at every open and small, or (areas) made of blobs that are deflated one by one.
_UNPACKED = ("manifest", "object-index", "source-index", "objects", "sources")

_HEADER = struct.Struct("<10sHHHQQQ24x32s32s32x")
HEADER_SIZE = _HEADER.size + 32


class Header(Record):
    """Where the directory is (bytes from the start of the file), and what it and the whole must hash to."""

    __slots__ = ()

    directory_offset: int
    directory_size: int
    identity_end: int
    directory_sha256: bytes
    identity: bytes


class Section(Record):
    """One directory entry. Offsets and sizes in bytes; hashes hexadecimal."""

    __slots__ = ()

    kind: str
    name: str
    codec: str
    offset: int
    stored_size: int
    raw_size: int
    stored_sha256: str
    raw_sha256: str

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.stored_size


def aligned(offset: int) -> int:
    """The first multiple of ALIGNMENT at or behind `offset`."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def pack_header(header: Header) -> bytes:
    """The first HEADER_SIZE bytes of the file."""
    body = _HEADER.pack(
        MAGIC,
        MAJOR,
        MINOR,
        0,
        header.directory_offset,
        header.directory_size,
        header.identity_end,
        header.directory_sha256,
        header.identity,
    )
    return body + hashlib.sha256(body).digest()


def unpack_header(data: bytes, where: str) -> Header:
    """The header at the start of `data`. Raises BundleError: not a bundle, another major version, or damaged."""
    if data[: len(MAGIC)] != MAGIC:
        raise BundleError(Fault(where, "is not an assay bundle", hint="it does not start with the bundle's magic"))
    if len(data) < HEADER_SIZE:
        raise BundleError(Fault(where, f"is cut short at {len(data)} bytes", f"{HEADER_SIZE} bytes of header"))
    body = data[: _HEADER.size]
    _, major, minor, _, offset, size, end, directory_sha256, identity = _HEADER.unpack(body)
    if major != MAJOR:
        raise BundleError(version_fault(f"{where}: header", "format", (major, minor), (MAJOR, MINOR)))
    if hashlib.sha256(body).digest() != data[_HEADER.size : HEADER_SIZE]:
        raise BundleError(Fault(f"{where}: header", "is damaged", hint="its SHA-256 does not match"))
    return Header(offset, size, end, directory_sha256, identity)


def version_fault(where: str, what: str, found: tuple[int, int], known: tuple[int, int]) -> Fault:
    """The refusal of a major version that is not this reader's, with both versions."""
    newer = found[0] > known[0]
    hint = "a newer assay wrote it: upgrade the one that reads" if newer else "rebuild it with this version"
    return Fault(where, f"{what} version {found[0]}.{found[1]}", f"version {known[0]}.x", hint)


def pack_directory(sections: list[Section]) -> bytes:
    """The directory's bytes."""
    return canonical.encode({"sections": [as_json(section) for section in sections]}, "directory")


def unpack_directory(data: bytes, header: Header, where: str) -> tuple[Section, ...]:
    """The sections of a bundle, in file order. Raises BundleError unless they tile the file and hold their minimum."""
    where = f"{where}: directory"
    document = canonical.decode(data, where)
    entries = document.get("sections") if type(document) is dict else None
    if type(entries) is not list or not all(map(_is_entry, entries)):
        raise BundleError(Fault(where, "is not a list of sections as format.py says"))
    sections = sections_of(entries)
    if faults := _layout_faults(sections, header, where):
        raise BundleError(faults)
    return sections


def sections_of(entries: list[dict[str, Any]]) -> tuple[Section, ...]:
    """The entries of a directory, each of the right form."""
    return tuple(Section(**{name: entry[name] for name in _ENTRY_TYPES}) for entry in entries)


def identity_of(sections: tuple[Section, ...] | list[Section], raw_halves: list[bytes]) -> bytes:
    """The bundle's identity, from raw hashes alone: see the module's text."""
    digest = hashlib.sha256(b"assay bundle identity 1\n")
    bearing = [s for s in sections if s.kind in ("manifest", "table", "variants")]
    for section in sorted(bearing, key=lambda s: (KIND_ORDER.index(s.kind), s.name)):
        digest.update(canonical.encode([section.kind, section.name, section.raw_size, section.raw_sha256]))
    for half in raw_halves:
        digest.update(len(half).to_bytes(8, "little") + half)
    return digest.digest()


def codec_of(kind: str) -> str:
    """How the writer stores a section of this kind."""
    return "none" if kind in _UNPACKED else "zlib"


def deflate(raw: bytes) -> bytes:
    """`raw` at level 9, the same bytes from the same zlib."""
    return zlib.compress(raw, 9)


def inflate(stored: bytes, raw_size: int, where: str) -> bytes:
    """Exactly `raw_size` bytes out of `stored`. Raises BundleError, having inflated at most one byte more."""
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(stored, raw_size + 1)
    except zlib.error as error:
        raise BundleError(Fault(where, f"cannot be inflated: {error}")) from None
    if len(raw) != raw_size or not inflater.eof or inflater.unused_data:
        raise BundleError(Fault(where, "does not inflate to its declared size", f"exactly {raw_size:,} bytes"))
    return raw


def size_faults(where: str, raw_size: int, stored_size: int) -> list[Fault]:
    """Declared sizes that no honest deflate stream has, or that are larger than anything a bundle may hold."""
    if raw_size > MAX_RAW_BYTES:
        return [Fault(where, f"{raw_size:,} bytes", f"at most {MAX_RAW_BYTES:,} bytes")]
    if raw_size > (stored_size + 1) * MAX_RATIO:
        return [Fault(where, f"{stored_size:,} bytes that claim to inflate to {raw_size:,}", f"ratio {MAX_RATIO}")]
    return []


_ENTRY_TYPES: dict[str, type] = {
    "kind": str,
    "name": str,
    "codec": str,
    "offset": int,
    "stored_size": int,
    "raw_size": int,
    "stored_sha256": str,
    "raw_sha256": str,
}


def _is_entry(entry: Any) -> bool:
    return (
        type(entry) is dict
        and all(type(entry.get(name)) is kind for name, kind in _ENTRY_TYPES.items())
        and min(entry["offset"], entry["stored_size"], entry["raw_size"]) >= 0
        and entry["codec"] in ("none", "zlib")
    )


def _layout_faults(sections: tuple[Section, ...], header: Header, where: str) -> list[Fault]:
    faults: list[Fault] = []
    end = HEADER_SIZE
    for section in sections:
        label = f"{where}: {section.kind} {section.name}".rstrip()
        if section.offset != aligned(end):
            faults.append(Fault(label, f"begins at {section.offset:,}", f"{aligned(end):,}", "no overlap, no gap"))
        end = section.end
        if section.codec == "zlib":
            faults += size_faults(label, section.raw_size, section.stored_size)
        elif section.raw_size != section.stored_size:
            faults.append(Fault(label, "two sizes, though it is stored as it is"))
    if aligned(end) != header.directory_offset:
        faults.append(Fault(where, f"begins at {header.directory_offset:,}", f"{aligned(end):,}"))
    return faults + _presence_faults(sections, where)


def _presence_faults(sections: tuple[Section, ...], where: str) -> list[Fault]:
    names = {(section.kind, section.name) for section in sections}
    faults = [Fault(where, "two sections of one kind and name", "one")] if len(names) < len(sections) else []
    single = (kind for kind in KIND_ORDER if kind not in ("table", "variants"))
    return faults + [Fault(where, f"no section {kind}") for kind in single if (kind, "") not in names]
