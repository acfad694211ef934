"""Checking a whole bundle, byte by byte and reference by reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .contents import Contents
from .faults import BundleError, Fault, FaultsError
from .format import HEADER_SIZE
from .reader import Bundle
from .records import Row, TargetRecord
from .validate import contents_faults, tally

T = TypeVar("T")

ReadObject = Callable[[bytes, Row, TargetRecord], Iterable[Fault]]
"""Given a raw code object, a row that launches it and the row's target: what is wrong. It may raise FaultsError too."""


def verify_bundle(
    path: str | os.PathLike[str], read_object: ReadObject | None = None, *, companion: bool = False
) -> list[Fault]:
    """Everything wrong with the bundle at `path`; an empty list if nothing is. Never raises for what the file holds.

    Checked: every byte of the file against a hash or as padding, the schema, every reference of every row, everything
    the writer checks, the evidence; and, by `read_object`, that each code object is what its rows say (this folder
    cannot read code objects). companion: whether a companion will do; without it, being one is a fault.
    """
    try:
        with Bundle.open(path, companion=companion) as bundle:
            return _collect(bundle, read_object)
    except BundleError as error:
        return list(error.faults)


def _collect(bundle: Bundle, read_object: ReadObject | None) -> list[Fault]:
    faults = _padding_faults(bundle) + _section_faults(bundle)
    objects: dict[str, bytes] = {}
    rows: list[Row] = []
    variants = []
    for key in _read(faults, bundle.object_hashes) or ():
        if (code := _read(faults, bundle.object_bytes, key)) is not None:
            objects[key] = code
    for family in bundle.families():
        rows += _read(faults, bundle.rows, family) or ()
    for id in _read(faults, bundle.variant_ids) or ():
        if (variant := _read(faults, bundle.variant, id)) is not None:
            variants.append(variant)
    for name in _read(faults, bundle.evidence_names) or ():
        _read(faults, bundle.evidence, name)
    if not faults:  # On damaged parts, complaints about missing references would only repeat the damage.
        contents = Contents(bundle.manifest, tuple(rows), tuple(variants), objects)
        faults += contents_faults(contents) + _count_faults(bundle, contents)
    if not faults and read_object is not None:
        faults += _object_faults(bundle, rows, objects, read_object)
    return list(dict.fromkeys(faults))


def _read(faults: list[Fault], read: Callable[..., T], *arguments: Any) -> T | None:
    """What `read` returns, or None where it finds the bundle at fault; then its faults are among `faults`."""
    try:
        return read(*arguments)
    except BundleError as error:
        faults += error.faults
        return None


def _section_faults(bundle: Bundle) -> list[Fault]:
    faults: list[Fault] = []
    for section in bundle._sections:
        _read(faults, bundle._raw_bytes, section)
    return faults


def _padding_faults(bundle: Bundle) -> list[Fault]:
    """Bytes between sections must be zero: they are in no hash, and a place to hide things otherwise."""
    header = bundle._header
    spans = [(section.offset, section.end) for section in bundle._sections]
    spans.append((header.directory_offset, header.directory_offset + header.directory_size))
    faults: list[Fault] = []
    end = HEADER_SIZE
    for start, stop in [*spans, (header.identity_end, header.identity_end)]:
        gap = _read(faults, bundle._store.read, end, start - end, "padding")
        if gap is not None and any(gap):
            faults.append(Fault(f"{bundle.path}: padding at {end:,}", "is not zero"))
        end = stop
    return faults


def _count_faults(bundle: Bundle, contents: Contents) -> list[Fault]:
    said = bundle.manifest.counts
    where = f"{bundle.path}: manifest: counts"
    counted = tally(contents).items()
    return [Fault(where, f"{said.get(name)} {name}", str(n)) for name, n in counted if said.get(name) != n]


def _object_faults(bundle: Bundle, rows: list[Row], objects: dict[str, bytes], read_object: ReadObject) -> list[Fault]:
    targets = {target.name: target for target in bundle.manifest.targets}
    faults: list[Fault] = []
    for row in rows:
        try:
            faults += read_object(objects[row.object], row, targets[row.target])
        except FaultsError as error:
            faults += error.faults
        except (
            Exception
        ) as error:  # A reader that trips over hostile bytes has found a fault in them, not an end to verifying.
            where = f"{bundle.path}: row {row.family}/{row.id}: object {row.object}"
            faults.append(Fault(where, f"cannot be read: {type(error).__name__}: {error}"))
    return faults
