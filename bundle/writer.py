"""Writing a bundle: validate everything, lay it out, put it in place in one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import canonical, evidence
from .atomic import replace_file
from .blobs import Blob, pack_index, raw_half
from .contents import Contents
from .faults import BudgetError, BundleError, Fault
from .format import (
    HEADER_SIZE,
    Header,
    Section,
    aligned,
    codec_of,
    deflate,
    identity_of,
    pack_directory,
    pack_header,
    sha256,
)
from .records import Manifest, Row, VariantRecord, as_json
from .table_codec import encode_table
from .validate import contents_faults, tally


def write_bundle(
    path: str | os.PathLike[str],
    contents: Contents,
    *,
    size_budget: int | None = None,
    target_budgets: Mapping[str, int] | None = None,
) -> str:
    """Write `contents` to `path`; the bundle's identity. Equal contents give equal bytes, whatever their order.

    size_budget: most bytes the identity-bearing part may have. target_budgets: target -> most bytes of its code objects
    as stored. Raises BundleError with everything wrong: contents that do not hold together, a disk that is full or
    cannot be written; BudgetError for a budget broken. Then nothing was written, and what stood at `path` still does.
    """
    data, identity, stored = pack_bundle(contents)
    _check_sizes(contents, len(data), stored, size_budget, target_budgets or {})
    replace_file(path, [data, evidence.pack(contents.evidence, identity)])
    return identity


def check_budgets(
    contents: Contents, *, size_budget: int | None = None, target_budgets: Mapping[str, int] | None = None
) -> None:
    """What `write_bundle` would say of `contents`, with nothing written. Raises BundleError and BudgetError as it."""
    data, _, stored = pack_bundle(contents)
    _check_sizes(contents, len(data), stored, size_budget, target_budgets or {})


def pack_bundle(contents: Contents) -> tuple[bytes, str, dict[str, int]]:
    """The identity-bearing part, its identity, and the stored bytes of each code object. Raises BundleError."""
    if faults := [*contents_faults(contents), *evidence.document_faults(contents.evidence)]:
        raise BundleError(faults)
    builder = _Builder()
    tables, variants = _documents(contents)
    sources = {variant.source_sha256: variant.source.encode("utf-8") for variant in contents.variants}
    builder.add("manifest", "", canonical.encode(_manifest_json(contents, tables, variants, sources), "manifest"))
    for kind, documents in (("table", tables), ("variants", variants)):
        for family, document in sorted(documents.items()):
            builder.add(kind, family, document)
    blobs = builder.add_blobs({"object": dict(contents.objects), "source": sources})
    data, identity = builder.finish()
    return data, identity, {blob.raw_sha256: blob.stored_size for blob in blobs["object"]}


class _Builder:
    """Lays sections out one behind the other, each at the next aligned offset."""

    def __init__(self) -> None:
        self._data = bytearray(HEADER_SIZE)
        self._sections: list[Section] = []
        self._halves: list[bytes] = []

    def add(self, kind: str, name: str, raw: bytes) -> None:
        codec = codec_of(kind)
        stored = raw if codec == "none" else deflate(raw)
        offset = self._append(stored)
        sizes = (len(stored), len(raw), sha256(stored), sha256(raw))
        self._sections.append(Section(kind, name, codec, offset, *sizes))

    def add_blobs(self, groups: Mapping[str, Mapping[str, bytes]]) -> dict[str, list[Blob]]:
        """Both indexes, then both areas. An index's size follows from its count, so the offsets are known first."""
        counts = {what: len(pack_index([_PLACEHOLDER] * len(raws))) for what, raws in groups.items()}
        end = len(self._data)
        for size in counts.values():
            end = aligned(end) + size
        placed: dict[str, list[Blob]] = {}
        areas: dict[str, bytes] = {}
        for what, raws in groups.items():
            placed[what], areas[what] = _lay_out(raws, aligned(end))
            end = aligned(end) + len(areas[what])
        for what, blobs in placed.items():
            index = pack_index(blobs)
            self.add(f"{what}-index", "", index)
            self._halves.append(raw_half(index, what))
        for what, area in areas.items():
            self.add(f"{what}s", "", area)
        return placed

    def finish(self) -> tuple[bytes, str]:
        identity = identity_of(self._sections, self._halves)
        directory = pack_directory(self._sections)
        offset = self._append(directory)
        end = aligned(len(self._data))
        self._data += bytes(end - len(self._data))
        header = Header(offset, len(directory), end, bytes.fromhex(sha256(directory)), identity)
        self._data[:HEADER_SIZE] = pack_header(header)
        return bytes(self._data), identity.hex()

    def _append(self, stored: bytes) -> int:
        offset = aligned(len(self._data))
        self._data += bytes(offset - len(self._data)) + stored
        return offset


_PLACEHOLDER = Blob("00" * 32, 0, 0, 0, "00" * 32)


def _lay_out(raws: Mapping[str, bytes], start: int) -> tuple[list[Blob], bytes]:
    area = bytearray()
    blobs = []
    keys = sorted(raws)
    with ThreadPoolExecutor() as pool:  # zlib works without the interpreter's lock, and level 9 is slow.
        deflated = list(pool.map(deflate, [raws[key] for key in keys]))
    for key, stored in zip(keys, deflated, strict=True):
        area += bytes(aligned(len(area)) - len(area))
        blobs.append(Blob(key, len(raws[key]), start + len(area), len(stored), sha256(stored)))
        area += stored
    return blobs, bytes(area)


def _documents(contents: Contents) -> tuple[dict[str, bytes], dict[str, bytes]]:
    rows: dict[str, list[Row]] = {}
    for row in contents.rows:
        rows.setdefault(row.family, []).append(row)
    variants: dict[str, list[VariantRecord]] = {}
    for variant in contents.variants:
        variants.setdefault(variant.family, []).append(variant)
    return (
        {family: encode_table(items) for family, items in rows.items()},
        {family: _variants_json(items) for family, items in variants.items()},
    )


def _variants_json(variants: list[VariantRecord]) -> bytes:
    # The family is the section's name, and the source text lies in the sources area under its hash.
    items = []
    for variant in sorted(variants, key=lambda variant: variant.id):
        item = as_json(variant)
        del item["family"], item["source"]
        items.append(item)
    return canonical.encode(items, "variants")


def _manifest_json(
    contents: Contents, tables: Mapping[str, bytes], variants: Mapping[str, bytes], sources: Mapping[str, bytes]
) -> dict[str, Any]:
    targets = tuple(sorted(contents.manifest.targets, key=lambda target: target.name))
    sections = (("table", tables), ("variants", variants), ("objects", contents.objects), ("sources", sources))
    sizes = {name: sum(map(len, parts.values())) for name, parts in sections}
    manifest: Manifest = contents.manifest._replace(targets=targets, counts=tally(contents), bytes=sizes)
    document = as_json(manifest)
    if manifest.companion is None:
        del document["companion"]
    return document


def _check_sizes(
    contents: Contents,
    total: int,
    stored: Mapping[str, int],
    size_budget: int | None,
    target_budgets: Mapping[str, int],
) -> None:
    faults = []
    largest = ", ".join(f"{key[:16]} {size:,}" for key, size in sorted(stored.items(), key=lambda p: (-p[1], p[0]))[:3])
    hint = f"largest objects: {largest}"
    if size_budget is not None and total > size_budget:
        faults.append(Fault("bundle size", f"{total:,} bytes", f"at most {size_budget:,}", hint))
    for target, budget in sorted(target_budgets.items()):
        used = sum(stored[key] for key in {row.object for row in contents.rows if row.target == target})
        if used > budget:
            faults.append(Fault(f"target {target}", f"{used:,} bytes of code objects", f"at most {budget:,}", hint))
    if faults:
        raise BudgetError(faults)
