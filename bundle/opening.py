"""The short way to open a bundle: for one that is whole, without the means to say what is wrong with another.

`open_whole` checks what `Bundle.open` checks, and gives None wherever that would raise or has more to decide; its
caller then takes the long way, `reader.py`, which says what is wrong.  So nothing is admitted here that is refused
there, which `tests/bundle/test_opening.py` holds the two to.  The format is told at the top of `format.py`.

No record is made and no module of the folder is imported: what a first call must load costs it more than reading the
file.  `Bundle.of` makes a bundle of the file that was opened.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from hashlib import sha256
from typing import Any

HEADER_SIZE = 192
_HEADER = struct.Struct("<10sHHHQQQ24x32s32s32x")
_BEGINNING = (b"\x89ASSAY\r\n\x1a\n", 1)
_SCHEMA_MAJOR = 1
_ALIGNMENT, _MAX_RATIO, _MAX_RAW_BYTES = 64, 1032, 1 << 28
# An index: a count, then a raw hash and size of each blob, then a place, a size and a hash as stored of each.
_RAW_ENTRY, _STORED_ENTRY = 40, struct.Struct("<QQ32s")
_INDEXES = ("object-index", "source-index")
_SINGLE = ("manifest", *_INDEXES, "objects", "sources")
_BEARING = ("manifest", "table", "variants")
_ENTRY = (
    ("kind", str), ("name", str), ("codec", str), ("offset", int), ("stored_size", int), ("raw_size", int),
    ("stored_sha256", str), ("raw_sha256", str),
)  # fmt: skip
_IDENTIFYING = ("kind", "name", "raw_size", "raw_sha256")
_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
# What reading a file that is not what it should be may raise; a JSON or Unicode error is a ValueError.
_DOUBT = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error)


class Doubt(Exception):
    """Something is not as it must be for the short way."""


class Opened:
    """A bundle's file, open, and what was checked of it.

    header: directory's offset and size, identity's end, directory's hash, identity.  entries: the directory's, as
    decoded, in its order.  stored: bytes of the manifest and of the tables by kind and name, hashed.  indexes: by kind.
    manifest: as decoded and checked.
    """

    __slots__ = ("_at", "entries", "file", "header", "indexes", "manifest", "path", "size", "stored")

    def __init__(self, path: str | os.PathLike[str], file: Any):
        self.path = path
        self.file = file
        self.size: int = os.fstat(file.fileno()).st_size
        self.header = self._read_header()
        self.entries = self._read_directory()
        self._at = {(entry["kind"], entry["name"]): entry for entry in self.entries}
        _check(len(self._at) == len(self.entries) and all((kind, "") in self._at for kind in _SINGLE))
        self.stored = {
            key: self._hashed(entry["offset"], entry["stored_size"], entry["stored_sha256"])
            for key, entry in self._at.items()
            if key[0] in ("manifest", "table")
        }
        self.indexes = {kind: self._read_index(self._at[kind, ""]) for kind in _INDEXES}
        self._check_identity()
        self.manifest = _checked_manifest(self._raw(self._at["manifest", ""]))

    def table(self, family: str) -> Any:
        """The family's table, decoded.  Raises Doubt, also where there is no such family."""
        entry = self._at.get(("table", family))
        _check(entry is not None)
        try:
            return decode(self._raw(entry))
        except _DOUBT:
            raise Doubt from None

    def object_bytes(self, key: str) -> bytes:
        """The code object with that hash, hexadecimal, read and hashed.  Raises Doubt."""
        try:
            index, area = self.indexes["object-index"], self._at["objects", ""]
            (count,) = struct.unpack_from("<Q", index)
            at = index.find(bytes.fromhex(key), 8, 8 + count * _RAW_ENTRY)
            # A hash lies at the beginning of an entry; one that is found elsewhere is part of others.
            _check(at >= 0 and (at - 8) % _RAW_ENTRY == 0)
            (raw_size,) = struct.unpack_from("<Q", index, at + 32)
            behind = 8 + count * _RAW_ENTRY + (at - 8) // _RAW_ENTRY * _STORED_ENTRY.size
            offset, stored_size, stored_hash = _STORED_ENTRY.unpack_from(index, behind)
            inside = area["offset"] <= offset and offset + stored_size <= area["offset"] + area["stored_size"]
            _check(inside and offset % _ALIGNMENT == 0 and _possible(raw_size, stored_size))
            return _inflated(self._hashed(offset, stored_size, stored_hash.hex()), raw_size, key)
        except _DOUBT:
            raise Doubt from None

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self.file.close()

    def _read(self, offset: int, size: int) -> bytes:
        _check(offset >= 0 and size >= 0 and offset + size <= self.size)
        data = os.pread(self.file.fileno(), size, offset)
        _check(len(data) == size)
        return data

    def _hashed(self, offset: int, size: int, expected: str) -> bytes:
        data = self._read(offset, size)
        _check(sha256(data).hexdigest() == expected)
        return data

    def _read_header(self) -> tuple[int, int, int, bytes, bytes]:
        head = self._read(0, HEADER_SIZE)
        magic, major, _, _, *header = _HEADER.unpack(head[: _HEADER.size])
        offset, size, end, directory_hash, identity = header
        _check((magic, major) == _BEGINNING and sha256(head[: _HEADER.size]).digest() == head[_HEADER.size :])
        _check(end == _aligned(offset + size) and end <= self.size)
        return offset, size, end, directory_hash, identity

    def _read_directory(self) -> list[dict[str, Any]]:
        offset, size, _, expected, _ = self.header
        entries = decode(self._hashed(offset, size, expected.hex()))["sections"]
        _check(type(entries) is list)
        end = HEADER_SIZE
        for entry in entries:
            _check(all(type(entry[name]) is kind for name, kind in _ENTRY) and entry["offset"] == _aligned(end))
            stored_size, raw_size = entry["stored_size"], entry["raw_size"]
            as_it_is = entry["codec"] == "none" and raw_size == stored_size
            _check(as_it_is or (entry["codec"] == "zlib" and _possible(raw_size, stored_size)))
            _check(stored_size >= 0 and raw_size >= 0)
            end = entry["offset"] + stored_size
        _check(_aligned(end) == offset)
        return entries

    def _read_index(self, entry: dict[str, Any]) -> bytes:
        index = self._hashed(entry["offset"], entry["stored_size"], entry["stored_sha256"])
        (count,) = struct.unpack_from("<Q", index)
        _check(len(index) == 8 + count * (_RAW_ENTRY + _STORED_ENTRY.size))
        return index

    def _check_identity(self) -> None:
        digest = sha256(b"assay bundle identity 1\n")
        bearing = [entry for entry in self.entries if entry["kind"] in _BEARING]
        for entry in sorted(bearing, key=lambda entry: (_BEARING.index(entry["kind"]), entry["name"])):
            kind, name, raw_size, expected = (entry[name] for name in _IDENTIFYING)
            # Names of letters and hashes need no escapes.
            _check((not name or is_name(name)) and is_hash(expected))
            digest.update(f'["{kind}","{name}",{raw_size},"{expected}"]'.encode())
        for index in self.indexes.values():
            (count,) = struct.unpack_from("<Q", index)
            half = index[8 : 8 + count * _RAW_ENTRY]
            digest.update(len(half).to_bytes(8, "little") + half)
        _check(digest.digest() == self.header[4])

    def _raw(self, entry: dict[str, Any]) -> bytes:
        """A section's bytes as they were before deflating; it is one of `stored`."""
        stored = self.stored[entry["kind"], entry["name"]]
        if entry["codec"] == "zlib":
            return _inflated(stored, entry["raw_size"], entry["raw_sha256"])
        # It is as it was, and hashed.
        _check(entry["stored_sha256"] == entry["raw_sha256"])
        return stored


def open_whole(path: str | os.PathLike[str]) -> Opened | None:
    """The bundle at `path`, open; None where it is not whole, no plain bundle, or not to be had: then none is open."""
    # As pathlib has it: no path is in bytes, and none a number, which `open` takes for a descriptor of its caller's.
    is_path = isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str)
    if not is_path or not hasattr(os, "pread"):
        return None
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by Opened.close().
    except (OSError, ValueError):
        return None
    try:
        return Opened(path, file)
    except (Doubt, *_DOUBT):
        file.close()
        return None
    except BaseException:
        file.close()
        raise


def decode(data: bytes) -> Any:
    """The value that canonical JSON spells, as `canonical.decode` has it.  Raises ValueError, RecursionError."""
    return _decoder.decode(data.decode())


def _check(holds: bool) -> None:
    if not holds:
        raise Doubt


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _refuse(spelling: str) -> None:
    raise ValueError(spelling)


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_float=_refuse, parse_constant=_refuse)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _possible(raw_size: int, stored_size: int) -> bool:
    return raw_size <= _MAX_RAW_BYTES and raw_size <= (stored_size + 1) * _MAX_RATIO


def _inflated(stored: bytes, raw_size: int, expected: str) -> bytes:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(stored, raw_size + 1)
    except zlib.error:
        raise Doubt from None
    whole = len(raw) == raw_size and inflater.eof and not inflater.unused_data
    _check(whole and sha256(raw).hexdigest() == expected)
    return raw


def is_name(value: Any) -> bool:
    """A name as `rules.NAME` has it."""
    return type(value) is str and 0 < len(value) <= 128 and value[0] in _WORD and not value.strip(f"{_WORD}.+-")


def is_hash(value: Any) -> bool:
    """A hash as `rules.HASH` has it."""
    return type(value) is str and len(value) == 64 and not value.strip("0123456789abcdef")


def is_count(value: Any, least: int = 0) -> bool:
    """An integer as `rules.COUNT`, or with 1 `rules.POSITIVE`, has it."""
    return type(value) is int and least <= value < 2**63


def _checked_manifest(data: bytes) -> dict[str, Any]:
    """What `rules.py` asks of a manifest and of its targets; a companion is for the long way."""
    manifest = decode(data)
    _check(type(manifest) is dict and manifest.get("companion") is None)
    schema, targets = manifest["schema"], manifest["targets"]
    _check(type(schema) is list and len(schema) == 2 and all(map(is_count, schema)) and schema[0] == _SCHEMA_MAJOR)
    _check(all(type(manifest[name]) is str for name in ("bundle_version", "assay_version")))
    _check(all(type(manifest.get(name, {})) is dict for name in ("counts", "bytes")))
    _check(type(manifest["toolchain"]) is dict and is_name(manifest["profile"]))
    _check(all(is_count(count) for name in ("counts", "bytes") for count in manifest.get(name, {}).values()))
    _check(all(map(_is_relative, manifest["sources"])) and all(map(is_hash, manifest["sources"].values())))
    _check(type(manifest["families"]) is dict and all(map(is_name, manifest["families"])))
    _check(type(targets) is list and all(map(_is_target, targets)))
    return manifest


def _is_relative(name: str) -> bool:
    return bool(name) and name[0] not in "/\\~" and ":" not in name and ".." not in name


def _is_target(target: Any) -> bool:
    return (
        is_name(target["name"])
        and target["backend"] in ("hip", "cuda")
        and is_name(target["arch"])
        and is_count(target["lds_limit"], 1)
        and type(target["wavefront_size"]) is int
        and target["wavefront_size"] in (32, 64)
        and type(target.get("runs_on", [])) is list
        and all(map(is_name, target.get("runs_on", [])))
    )
