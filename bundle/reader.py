"""Opening a bundle and reading out of it. Every byte is hashed before its first use; there is no switch for that."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import canonical
from .blobs import BlobIndex, raw_half, unpack_index
from .faults import BundleError, Fault, did_you_mean
from .format import (
    HEADER_SIZE,
    Header,
    Section,
    aligned,
    identity_of,
    sections_of,
    sha256,
    unpack_directory,
    unpack_header,
    version_fault,
)
from .records import COMPANION_SCHEMA, SCHEMA, Manifest, TargetRecord, VariantRecord
from .rules import from_json
from .store import Store
from .table import OrderedRows
from .table_codec import decode_table

if TYPE_CHECKING:
    from .evidence import Entry
    from .opening import Opened


class UnknownName(BundleError):
    """The bundle has no family, variant, object or evidence of that name."""


class Bundle:
    """One open bundle. Use `Bundle.open(path)`, as a context manager or with `close()`.

    Opening reads and hashes the header, the directory, the manifest, the tables and both indexes, and parses the
    manifest; everything else is read, hashed and parsed when first asked for. Safe to use from several threads and
    after a fork: nothing is locked, because computing a value twice gives the same value.
    Every method raises BundleError (damaged, closed, cut short) naming the file and the part; UnknownName where said.
    """

    def __init__(self, store: Store, *, companion: bool = False):
        self._begin(store, companion=companion)
        self._header = unpack_header(store.read(0, min(HEADER_SIZE, store.size), "header"), self._where)
        self._sections = self._read_directory()
        self._by_name = {(s.kind, s.name): s for s in self._sections}
        self._stored = {s: self._stored_bytes(s) for s in self._sections if s.kind in ("manifest", "table")}
        self._index = {kind: self._stored_bytes(self._section(kind)) for kind in ("object-index", "source-index")}
        self._check_identity()
        self.manifest: Manifest = self._read_manifest()

    def _begin(self, store: Store, *, companion: bool) -> None:
        self._store = store
        self._companion = companion
        self.path: Path = store.path
        self._where = str(store.path)
        self._rows: dict[str, OrderedRows] = {}
        self._blobs: dict[str, BlobIndex] = {}
        self._variants: dict[str, dict[str, dict[str, Any]]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, companion: bool = False) -> Bundle:
        """Open and check the bundle at `path`. Raises BundleError, and then no file is left open.

        companion: whether a companion will do, which is no qualified bundle and is refused otherwise.
        """
        store = Store(path)
        try:
            return cls(store, companion=companion)
        except BaseException:
            store.close()
            raise

    @classmethod
    def of(cls, opened: Opened) -> Bundle:
        """The bundle that was opened the short way: what was checked then is not read again, and the file is shared."""
        bundle = cls.__new__(cls)
        bundle._begin(Store.of(opened.path, opened.file, opened.size), companion=False)
        bundle._header = Header(*opened.header)
        bundle._sections = sections_of(opened.entries)
        bundle._by_name = {(s.kind, s.name): s for s in bundle._sections}
        bundle._stored = {bundle._by_name[key]: data for key, data in opened.stored.items()}
        bundle._index = opened.indexes
        bundle.manifest = bundle._manifest_of(opened.manifest)
        return bundle

    @property
    def identity(self) -> str:
        """SHA-256 over all that decides what is launched, hexadecimal; independent of zlib's build and of evidence."""
        return self._header.identity.hex()

    def families(self) -> tuple[str, ...]:
        """The families that have rows, sorted."""
        return tuple(sorted(section.name for section in self._sections if section.kind == "table"))

    def rows(self, family: str) -> OrderedRows:
        """The family's rows for all targets, in the order in which they are tried. Raises UnknownName."""
        if family not in self._rows:
            section = self._by_name.get(("table", family))
            if section is None:
                raise self._unknown("family", family, self.families())
            raw = self._raw_bytes(section)
            self._rows.setdefault(family, decode_table(raw, family, f"{self._where}: table {family}"))
        return self._rows[family]

    def object_bytes(self, sha256: str) -> bytes:
        """The raw code object with that hash. Read and hashed anew at each call. Raises UnknownName."""
        return self._blob("object", sha256)

    def object_hashes(self) -> tuple[str, ...]:
        """The hashes of all code objects, ascending."""
        return tuple(self._blob_index("object"))

    def variant(self, id: str) -> VariantRecord:
        """The variant record with that id, its rendered source included. Raises UnknownName."""
        for family in self.families():
            found = self._variant_maps(family).get(id)
            if found is not None:
                where = f"{self._where}: variant {id}"
                record = from_json(VariantRecord, found, where, family=family, source="")
                source = self._blob("source", record.source_sha256).decode("utf-8", "replace")
                return from_json(VariantRecord, found, where, family=family, source=source)
        raise self._unknown("variant", id, [row.id for family in self.families() for row in self.rows(family)])

    def variant_ids(self) -> tuple[str, ...]:
        """The ids of all variants, sorted."""
        return tuple(sorted(id for family in self.families() for id in self._variant_maps(family)))

    def sizes(self) -> dict[str, int]:
        """Bytes in this file by kind of section as stored (compressed), and of each object as `object:<sha256>`."""
        sizes: dict[str, int] = {}
        for section in self._sections:
            sizes[section.kind] = sizes.get(section.kind, 0) + section.stored_size
        objects = {f"object:{key}": blob.stored_size for key, blob in self._blob_index("object").items()}
        return sizes | objects

    def evidence_names(self) -> tuple[str, ...]:
        """Names of the evidence appended to this bundle, sorted."""
        return tuple(sorted(self._evidence()))

    def evidence(self, name: str) -> Any:
        """The decoded JSON document of that name. Raises UnknownName."""
        entries = self._evidence()
        if name not in entries:
            raise self._unknown("evidence", name, entries)
        from .evidence import read_entry  # Here and below, and not above: loading kernels needs none of it.

        return read_entry(self._store, entries[name])

    def close(self) -> None:
        """Close the file. What was read stays valid; reading more raises BundleError."""
        self._store.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_directory(self) -> tuple[Section, ...]:
        header = self._header
        end = header.directory_offset + header.directory_size
        if header.identity_end != aligned(end):
            raise BundleError(Fault(f"{self._where}: header", "its directory does not end the identity-bearing part"))
        data = self._store.read_hashed(
            header.directory_offset, header.directory_size, header.directory_sha256.hex(), "directory"
        )
        # The pad behind the directory belongs to the file too: a file cut inside it is cut short.
        self._store.read(end, header.identity_end - end, "directory")
        return unpack_directory(data, header, self._where)

    def _check_identity(self) -> None:
        halves = [raw_half(data, f"{self._where}: {kind}") for kind, data in self._index.items()]
        if identity_of(self._sections, halves) != self._header.identity:
            raise BundleError(Fault(f"{self._where}: header", "its identity is not that of the sections"))

    def _read_manifest(self) -> Manifest:
        where = f"{self._where}: manifest"
        return self._manifest_of(canonical.decode(self._raw_bytes(self._section("manifest")), where))

    def _manifest_of(self, data: Any) -> Manifest:
        where = f"{self._where}: manifest"
        _check_schema(data, where)
        manifest = from_json(Manifest, data, where)
        targets = tuple(_target(item, where) for item in manifest.targets)
        manifest = manifest._replace(targets=targets, schema=tuple(manifest.schema))
        if manifest.companion is not None:
            self._admit_companion(manifest)
        return manifest

    def _admit_companion(self, manifest: Manifest) -> None:
        from .companions import form_faults, refusal

        if faults := form_faults(manifest, self._where):
            raise BundleError(faults)
        if not self._companion:
            raise BundleError(refusal(manifest, self._where))

    def _section(self, kind: str) -> Section:
        return self._by_name[kind, ""]

    def _stored_bytes(self, section: Section) -> bytes:
        label = f"{section.kind} {section.name}".rstrip()
        return self._store.read_hashed(section.offset, section.stored_size, section.stored_sha256, label)

    def _raw_bytes(self, section: Section) -> bytes:
        label = f"{section.kind} {section.name}".rstrip()
        if section.codec == "none":
            raw = self._stored.get(section) or self._stored_bytes(section)
            if sha256(raw) != section.raw_sha256:
                raise BundleError(
                    Fault(f"{self._where}: {label}", "its raw SHA-256 does not match", section.raw_sha256)
                )
            return raw
        return self._store.read_blob(
            section.offset, section.stored_size, section.stored_sha256, section.raw_size, section.raw_sha256, label
        )

    def _blob_index(self, what: str) -> BlobIndex:
        if what not in self._blobs:
            area = self._section(f"{what}s")
            index = unpack_index(self._index[f"{what}-index"], area, f"{self._where}: {what}-index")
            self._blobs.setdefault(what, index)
        return self._blobs[what]

    def _blob(self, what: str, key: str) -> bytes:
        blob = self._blob_index(what).get(key)
        if blob is None:
            raise self._unknown(what, key, self._blob_index(what))
        label = f"{what} {key}"
        return self._store.read_blob(
            blob.offset, blob.stored_size, blob.stored_sha256, blob.raw_size, blob.raw_sha256, label
        )

    def _variant_maps(self, family: str) -> dict[str, dict[str, Any]]:
        if family not in self._variants:
            where = f"{self._where}: variants {family}"
            section = self._by_name.get(("variants", family))
            items = canonical.decode(self._raw_bytes(section), where) if section else []
            if type(items) is not list or not all(type(i) is dict and type(i.get("id")) is str for i in items):
                raise BundleError(Fault(where, "is not a list of variants"))
            by_id = {item["id"]: item for item in items}
            if len(by_id) != len(items):
                raise BundleError(Fault(where, "two variants of one id"))
            self._variants.setdefault(family, by_id)
        return self._variants[family]

    def _evidence(self) -> dict[str, Entry]:
        from .evidence import read_index

        return read_index(self._store, self._header.identity_end, self.identity)

    def _unknown(self, what: str, name: object, known: Any) -> UnknownName:
        names = sorted(map(str, known))
        allowed = ", ".join(names) if len(names) <= 12 else f"one of {len(names)}"
        return UnknownName(Fault(self._where, f"no {what} {name}", allowed or "none", did_you_mean(name, names)))


def _check_schema(data: Any, where: str) -> None:
    """Asked before anything else: the rest of a document of another schema cannot be judged."""
    schema = data.get("schema") if type(data) is dict else None
    if type(schema) is not list or len(schema) != 2 or not all(type(number) is int for number in schema):
        raise BundleError(Fault(f"{where}: schema", f"{schema!r}", "two integers, major and minor"))
    known = COMPANION_SCHEMA if data.get("companion") is not None else SCHEMA
    if schema[0] != known[0]:
        raise BundleError(version_fault(where, "schema", (schema[0], schema[1]), known))


def _target(item: Any, where: str) -> TargetRecord:
    record = from_json(TargetRecord, item, f"{where}: target")
    return record._replace(runs_on=tuple(record.runs_on))
