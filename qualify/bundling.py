"""`assay bundle`: several verified bundles, such as those of several targets, as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, Contents, Fault, FaultsError, Manifest

from .placing import place_bundle
from .verification import bundle_faults, file_fault

SCHEMA = "assay.bundle/1"
# What a bundle says once of all its rows, and so must be the same in all that are put together.
_SHARED = ("toolchain", "profile", "bundle_version", "assay_version", "schema")


class MergeError(FaultsError):
    """Bundles that are damaged or contradict each other; exit status 1."""


class NoBundle(FaultsError):
    """A file that is not there or not to be read; exit status 2."""


@dataclass(frozen=True)
class _Input:
    path: Path
    identity: str
    contents: Contents


def bundle_bundles(paths: Sequence[Path], out: Path) -> dict[str, Any]:
    """Write to `out` what all of `paths` hold; returns what `assay bundle --json` prints.  Equal inputs in any order
    give equal bytes.

    Raises NoBundle for what is no file to read, MergeError with everything that is damaged or contradictory,
    BundleError where `out` cannot be written.  Then nothing was written, and what stood at `out` still does.
    """
    missing = [fault for path in paths if (fault := file_fault(path))]
    if missing:
        raise NoBundle(missing)
    # By path, so that what is said of them does not depend on the order of the arguments either.
    paths = sorted(set(paths))
    damaged = [fault for path in paths for fault in bundle_faults(path)]
    if damaged:
        raise MergeError(damaged)
    inputs = [_read(path) for path in paths]
    contents = merge(inputs)
    identity = place_bundle(out, contents)
    return _document(out, identity, inputs)


def _read(path: Path) -> _Input:
    with Bundle.open(path) as bundle:
        contents = Contents(
            manifest=bundle.manifest,
            rows=tuple(row for family in bundle.families() for row in bundle.rows(family)),
            variants=tuple(bundle.variant(id) for id in bundle.variant_ids()),
            objects={key: bundle.object_bytes(key) for key in bundle.object_hashes()},
            evidence={name: _spelled(bundle.evidence(name)) for name in bundle.evidence_names()},
        )
        return _Input(path, bundle.identity, contents)


def _spelled(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def merge(inputs: Sequence[_Input]) -> Contents:
    """The union of all contents.  Raises MergeError with everything that two of them say differently."""
    faults: list[Fault] = []
    first = inputs[0].contents.manifest
    for item in inputs[1:]:
        faults += _shared_faults(inputs[0].path, first, item)
    manifest = first._replace(
        targets=tuple(_union("target", inputs, lambda c: {t.name: t for t in c.manifest.targets}, faults).values()),
        sources=_union("source", inputs, lambda c: c.manifest.sources, faults),
        families=_union("contract of family", inputs, lambda c: c.manifest.families, faults),
        counts={},
        bytes={},
    )
    rows = _union("row", inputs, lambda c: {row.id: row for row in c.rows}, faults)
    variants = _union("variant", inputs, lambda c: {variant.id: variant for variant in c.variants}, faults)
    objects = _union("code object", inputs, lambda c: c.objects, faults)
    evidence = _evidence(inputs, faults)
    if faults:
        raise MergeError(faults)
    return Contents(manifest, tuple(rows.values()), tuple(variants.values()), objects, evidence)


def _shared_faults(path: Path, first: Manifest, item: _Input) -> list[Fault]:
    return [
        Fault(f"{item.path}: {name}", str(ours), f"{theirs}, as in {path}", "build all of them in the same way")
        for name in _SHARED
        if (ours := getattr(item.contents.manifest, name)) != (theirs := getattr(first, name))
    ]


def _union(
    what: str, inputs: Sequence[_Input], part: Callable[[Contents], Mapping[str, Any]], faults: list[Fault]
) -> dict[str, Any]:
    """All named things of one sort; what two inputs have under one name and differently is added to `faults`."""
    found: dict[str, tuple[Path, Any]] = {}
    for item in inputs:
        for name, value in part(item.contents).items():
            path, known = found.setdefault(name, (item.path, value))
            if known != value:
                faults.append(
                    Fault(f"{item.path}: {what} {name}", f"is another one than in {path}", "the same in both")
                )
    return {name: value for name, (_, value) in found.items()}


def _evidence(inputs: Sequence[_Input], faults: list[Fault]) -> dict[str, bytes]:
    """Documents that list variants are put together by variant; what else they say must be the same in all."""
    heads = _union(
        "evidence", inputs, lambda c: {name: _without_variants(text) for name, text in c.evidence.items()}, faults
    )
    merged = {}
    for name, head in heads.items():
        variants = _union(
            f"evidence {name} of variant", inputs, lambda c, name=name: _variants(c.evidence.get(name)), faults
        )
        merged[name] = _spelled({**head, "variants": variants} if variants else head)
    return merged


def _without_variants(text: bytes) -> Any:
    document = json.loads(text)
    return {**document, "variants": {}} if _lists_variants(document) else document


def _variants(text: bytes | None) -> dict[str, Any]:
    document = json.loads(text) if text is not None else None
    return document["variants"] if _lists_variants(document) else {}


def _lists_variants(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("variants"), dict)


def _document(out: Path, identity: str, inputs: Sequence[_Input]) -> dict[str, Any]:
    with Bundle.open(out) as bundle:
        counts = bundle.manifest.counts
        sizes = bundle.sizes()
        rows = [row for family in bundle.families() for row in bundle.rows(family)]
    return {
        "schema": SCHEMA,
        "bundle": str(out),
        "identity": identity,
        "bytes": out.stat().st_size,
        "rows": counts["rows"],
        "objects": counts["objects"],
        "targets": [
            {
                "target": target.name,
                "rows": counts[f"rows:{target.name}"],
                "object_bytes": sum(
                    sizes[f"object:{key}"] for key in {row.object for row in rows if row.target == target.name}
                ),
            }
            for target in bundle.manifest.targets
        ],
        "inputs": [{"bundle": str(item.path), "identity": item.identity} for item in inputs],
    }
