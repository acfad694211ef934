"""Evidence: JSON documents behind the identity-bearing part, so that measuring a bundle does not change what it is.

    evidence      = magic u64:index-size hash:index index document*      ; from identity-end on
    magic         = "EVIDENCE"
    index         = canonical JSON {"identity": hash, "entries": [{"name", "offset", "stored_size", "raw_size",
                    "stored_sha256", "raw_sha256"}*]}
                    ; offset from the end of the index; entries in order of name, no gap, the last one ends the file
    document      = deflated JSON (any: floats are allowed here)

The index repeats the bundle's identity, so that evidence copied behind another bundle is refused. A damaged evidence
section does not keep kernels from loading: it is an error for whoever reads evidence, and for `verify`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import canonical
from .faults import BundleError, Fault
from .format import deflate, sha256, size_faults

if TYPE_CHECKING:
    from .store import Store

_MAGIC = b"EVIDENCE"
_HEAD = struct.Struct("<8sQ32s")
_FIELDS: dict[str, type] = {
    "name": str,
    "offset": int,
    "stored_size": int,
    "raw_size": int,
    "stored_sha256": str,
    "raw_sha256": str,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One document. `offset` from the start of the file, sizes in bytes, hashes hexadecimal."""

    name: str
    offset: int
    stored_size: int
    raw_size: int
    stored_sha256: str
    raw_sha256: str


def document_faults(documents: Mapping[str, bytes]) -> list[Fault]:
    """Everything that keeps `documents` from being evidence: names, and whether each is JSON without NaN."""
    faults = []
    for name, data in sorted(documents.items()):
        where = f"evidence {name}"
        if type(name) is not str or not name or not name.isprintable():
            faults.append(Fault(where, repr(name), "printable text"))
        try:
            json.loads(data, parse_constant=_refuse_constant)
        except (ValueError, TypeError, RecursionError) as error:
            faults.append(Fault(where, f"is not JSON: {error}"))
    return faults


def pack(documents: Mapping[str, bytes], identity: str) -> bytes:
    """The evidence section for these documents; empty for none."""
    if not documents:
        return b""
    entries: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for name, raw in sorted(documents.items()):
        stored = deflate(raw)
        values = (name, offset, len(stored), len(raw), sha256(stored), sha256(raw))
        entries.append(dict(zip(_FIELDS, values, strict=True)))
        parts.append(stored)
        offset += len(stored)
    index = canonical.encode({"identity": identity, "entries": entries}, "evidence")
    return b"".join([_HEAD.pack(_MAGIC, len(index), bytes.fromhex(sha256(index))), index, *parts])


def read_index(store: Store, start: int, identity: str) -> dict[str, Entry]:
    """Name -> entry of the section at `start`. Raises BundleError unless it is whole and of this bundle."""
    where = f"{store.path}: evidence"
    if store.size == start:
        return {}
    magic, size, expected = _HEAD.unpack(store.read(start, _HEAD.size, "evidence"))
    if magic != _MAGIC:
        raise BundleError(Fault(where, "does not begin with its magic", hint="something else was appended"))
    base = start + _HEAD.size + size
    document = canonical.decode(store.read_hashed(start + _HEAD.size, size, expected.hex(), "evidence"), where)
    if type(document) is not dict or document.get("identity") != identity:
        raise BundleError(Fault(where, "belongs to another bundle", f"identity {identity}"))
    items = document.get("entries")
    if type(items) is not list or not all(map(_is_entry, items)):
        raise BundleError(Fault(where, "is not a list of entries"))
    return _entries(items, base, store.size, where)


def read_raw(store: Store, entry: Entry) -> bytes:
    """The document's bytes, hashed."""
    label = f"evidence {entry.name}"
    return store.read_blob(
        entry.offset, entry.stored_size, entry.stored_sha256, entry.raw_size, entry.raw_sha256, label
    )


def read_entry(store: Store, entry: Entry) -> Any:
    """The document, decoded."""
    try:
        return json.loads(read_raw(store, entry), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(Fault(f"{store.path}: evidence {entry.name}", f"is not JSON: {error}")) from None


def _entries(items: list[dict[str, Any]], base: int, file_size: int, where: str) -> dict[str, Entry]:
    faults: list[Fault] = []
    entries: dict[str, Entry] = {}
    end = base
    for item in items:
        entry = Entry(**{name: item[name] for name in _FIELDS} | {"offset": base + item["offset"]})
        label = f"{where} {entry.name}"
        if entry.offset != end or entry.stored_size < 0 or entry.raw_size < 0 or entry.name in entries:
            faults.append(Fault(label, f"begins at {entry.offset:,}", f"{end:,}", "each once, no overlap, no gap"))
        faults += size_faults(label, entry.raw_size, entry.stored_size)
        entries[entry.name] = entry
        end = entry.offset + entry.stored_size
    if end != file_size:
        faults.append(Fault(where, f"ends at {end:,}", f"the file's end at {file_size:,}", "cut short, or appended to"))
    if faults:
        raise BundleError(faults)
    return entries


def _is_entry(item: Any) -> bool:
    return type(item) is dict and all(type(item.get(name)) is kind for name, kind in _FIELDS.items())


def _refuse_constant(spelling: str) -> None:
    raise ValueError(f"{spelling} is not JSON")
