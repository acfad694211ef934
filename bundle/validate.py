"""Whether contents make a sound bundle: asked by the writer before it writes, and by `verify` of what it has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from . import canonical, companions
from .contents import Contents
from .faults import Fault, did_you_mean
from .format import MAX_RAW_BYTES, sha256, version_fault
from .picking import DEPENDENT_LAUNCH
from .records import (
    ARGUMENT_KINDS,
    COMPANION_SCHEMA,
    SCHEMA,
    Manifest,
    Row,
    TargetRecord,
    VariantRecord,
)
from .rules import condition_faults, record_faults


def contents_faults(contents: Contents) -> list[Fault]:
    """Everything wrong with `contents`, in an order that does not depend on theirs."""
    faults = form_faults(contents)
    if faults:
        return faults  # Comparing malformed records with each other would only repeat these in other words.
    targets = {target.name: target for target in contents.manifest.targets}
    variants = {variant.id: variant for variant in contents.variants}
    faults = _duplicate_faults(contents)
    for row in sorted(contents.rows, key=lambda row: (row.family, row.id)):
        where = f"row {row.family}/{row.id}"
        faults += _row_faults(row, targets.get(row.target), contents.manifest, where)
        faults += _reference_faults(row, variants.get(row.id), contents.objects, where)
    if contents.manifest.companion is not None:
        faults += companions.reference_faults(contents.manifest.companion, contents.rows)
    faults += ambiguity_faults(contents.rows)
    faults += _blob_faults(contents)
    return faults


def form_faults(contents: Contents) -> list[Fault]:
    """Everything wrong inside single records: types, ranges, what JSON cannot hold."""
    manifest = contents.manifest
    faults = record_faults(manifest, "manifest")
    known = SCHEMA if manifest.companion is None else COMPANION_SCHEMA
    if not faults and manifest.schema[0] != known[0]:
        faults.append(version_fault("manifest", "schema", tuple(manifest.schema), known))
    if not faults and manifest.companion is not None:
        faults += companions.form_faults(manifest, "manifest")
    if not faults:
        faults += [f for t in manifest.targets for f in record_faults(t, f"target {getattr(t, 'name', t)}")]
    for row in sorted(contents.rows, key=lambda row: (str(row.family), str(row.id))):
        where = f"row {row.family}/{row.id}"
        found = record_faults(row, where)
        if not found:
            found += [f for condition in row.conditions for f in condition_faults(condition, where)]
            found += [f for argument in row.arguments for f in record_faults(argument, f"{where}: argument")]
        faults += found
    for variant in sorted(contents.variants, key=lambda variant: str(variant.id)):
        faults += record_faults(variant, f"variant {variant.id}")
    return faults


def tally(contents: Contents) -> dict[str, int]:
    """How many of each there are, as the manifest's `counts` says it."""
    counts = {
        "rows": len(contents.rows),
        "variants": len(contents.variants),
        "objects": len(contents.objects),
        "sources": len({variant.source_sha256 for variant in contents.variants}),
    }
    per_target = Counter(row.target for row in contents.rows)
    return counts | {f"rows:{target.name}": per_target[target.name] for target in contents.manifest.targets}


def ambiguity_faults(rows: Iterable[Row]) -> list[Fault]:
    """Pairs of rows of one family and target that nothing but their id would choose between."""
    faults = []
    seen: dict[tuple[object, ...], str] = {}
    for row in sorted(rows, key=lambda row: (row.family, row.id)):
        spelled = sorted(canonical.encode([c.field, c.op, _as_set(c.op, c.value)]) for c in row.conditions)
        key = (row.family, row.target, row.preference, *dict.fromkeys(spelled))
        first = seen.setdefault(key, row.id)
        if first != row.id:
            given = f"the conditions and preference of row {first}"
            hint = "give one a condition more or another preference"
            faults.append(Fault(f"row {row.family}/{row.id}", given, "one row for each", hint))
    return faults


def _as_set(op: str, value: object) -> object:
    # `one of 64, 128` and `one of 128, 64` admit the same requests.
    return sorted(map(repr, value)) if op == "one_of" else value


def _duplicate_faults(contents: Contents) -> list[Fault]:
    faults = []
    for what, names in (
        ("target", [target.name for target in contents.manifest.targets]),
        ("row", [row.id for row in contents.rows]),
        ("variant", [variant.id for variant in contents.variants]),
    ):
        counted = sorted((name, count) for name, count in Counter(names).items() if count > 1)
        faults += [Fault(f"{what} {name}", f"stands {count} times", "once") for name, count in counted]
    if not contents.manifest.targets:
        faults.append(Fault("manifest: targets", "none", "at least one"))
    return faults


def _row_faults(row: Row, target: TargetRecord | None, manifest: Manifest, where: str) -> list[Fault]:
    faults = []
    if row.family not in manifest.families:
        hint = did_you_mean(row.family, manifest.families)
        faults.append(Fault(where, f"family {row.family} is not in the manifest", _listed(manifest.families), hint))
    if target is None:
        names = [t.name for t in manifest.targets]
        hint = did_you_mean(row.target, names)
        return [*faults, Fault(where, f"target {row.target} is not in the manifest", _listed(names), hint)]
    if row.lds_bytes > target.lds_limit:
        given = f"{row.lds_bytes:,} bytes of launch-time shared memory"
        faults.append(Fault(where, given, f"at most {target.lds_limit:,} on {target.name}"))
    if row.wavefront_size != target.wavefront_size:
        given = f"wavefront_size {row.wavefront_size}"
        faults.append(Fault(where, given, f"{target.wavefront_size} on {target.name}"))
    dependent = row.launch.get(DEPENDENT_LAUNCH, False)
    if dependent is not False and (dependent is not True or target.backend != "cuda"):
        allowed = "true or false, and true for cuda alone"
        faults.append(Fault(f"{where}: launch", f"{DEPENDENT_LAUNCH} {dependent!r} on {target.backend}", allowed))
    return faults + _argument_faults(row, where)


def _argument_faults(row: Row, where: str) -> list[Fault]:
    faults = []
    end = 0
    for argument in row.arguments:
        label = f"{where}: argument {argument.name}"
        if argument.offset < end:
            faults.append(Fault(label, f"offset {argument.offset}", f"at least {end}", "in order, no overlap"))
        size = ARGUMENT_KINDS[argument.kind]
        if size is not None and argument.size != size:
            faults.append(Fault(label, f"{argument.kind} of {argument.size} bytes", f"{size} bytes"))
        end = argument.offset + argument.size
    hidden = sum(argument.kind == "hidden" for argument in row.arguments)
    if hidden != row.hidden_arguments:
        faults.append(Fault(f"{where}: hidden_arguments", f"{row.hidden_arguments}", f"{hidden}, as listed"))
    return faults


def _reference_faults(row: Row, variant: VariantRecord | None, objects: Mapping[str, bytes], where: str) -> list[Fault]:
    faults = []
    if row.object not in objects:
        faults.append(Fault(where, f"code object {row.object} is missing", "an object of this bundle"))
    if variant is None:
        return [*faults, Fault(where, "its variant record is missing")]
    pairs = [
        (name, getattr(variant, name), getattr(row, name)) for name in ("family", "target", "launch", "specialisation")
    ]
    pairs.append(("code_sha256", variant.code_sha256, row.object))
    for name, recorded, given in pairs:
        if recorded != given:
            faults.append(Fault(f"{where}: {name}", f"{given!r}", f"{recorded!r}, as its variant record says"))
    return faults


def _blob_faults(contents: Contents) -> list[Fault]:
    faults = []
    used = {row.object for row in contents.rows}
    rows = {row.id for row in contents.rows}
    for key, code in sorted(contents.objects.items()):
        faults += object_faults(key, code)
        if key not in used:
            faults.append(Fault(f"object {key}", "no row launches it"))
    for variant in sorted(contents.variants, key=lambda variant: variant.id):
        where = f"variant {variant.id}"
        if variant.id not in rows:
            faults.append(Fault(where, "no row launches it"))
        if sha256(variant.source.encode("utf-8")) != variant.source_sha256:
            faults.append(Fault(f"{where}: source_sha256", variant.source_sha256, "the hash of its source text"))
    return faults


def object_faults(key: str, code: bytes) -> list[Fault]:
    """Everything wrong with one code object under the hash it is filed by."""
    if not isinstance(code, bytes) or not code:
        return [
            Fault(f"object {key}", "is empty" if code == b"" else f"{type(code).__name__}", "bytes of a code object")
        ]
    if len(code) > MAX_RAW_BYTES:
        return [Fault(f"object {key}", f"{len(code):,} bytes", f"at most {MAX_RAW_BYTES:,}")]
    actual = sha256(code)
    return [] if actual == key else [Fault(f"object {key}", f"its bytes hash to {actual}", "the hash it is filed by")]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
