"""Companions: a bundle's kernels re-assembled for another GPU, to be run there as evidence and never to be served.

    companion = {"of": identity of the bundle, "target": name, "arch": name, "variants": {id: variant}}
                ; target, arch: what the code objects were assembled for.  One entry for each row, under its id.
    variant   = {"code_sha256": hash, "rewritten": {instruction: count}}
                ; of the bundle's own code object; and what its PTX had that was rewritten, and how often

It stands in the manifest of a file that otherwise is a bundle: the same rows under the same ids and names of targets,
with other code objects, and targets whose `arch` and limits are those of the other GPU.  Its schema has a major version
of its own.  `Bundle.open` refuses such a file unless asked for it, so that nothing takes it for a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .faults import Fault
from .records import Manifest, Row
from .rules import COUNTS, HASH, MAP, NAME, Check

_FIELDS: dict[str, Check] = {"of": HASH, "target": NAME, "arch": NAME, "variants": MAP}
_VARIANT: dict[str, Check] = {"code_sha256": HASH, "rewritten": COUNTS}


def form_faults(manifest: Manifest, where: str) -> list[Fault]:
    """Everything wrong inside the manifest's `companion`, which it has."""
    companion, where = manifest.companion or {}, f"{where}: companion"
    faults = _field_faults(companion, _FIELDS, where)
    if not faults:
        for id, variant in sorted(companion["variants"].items()):
            faults += _field_faults(variant, _VARIANT, f"{where}: variant {id}")
    return faults


def reference_faults(companion: dict[str, Any], rows: Iterable[Row]) -> list[Fault]:
    """Rows that it says nothing of, and variants that no row has."""
    ids = {row.id for row in rows}
    variants = companion["variants"].keys()
    faults = [Fault(f"companion: variant {id}", "is missing", "one for each row") for id in sorted(ids - variants)]
    return faults + [Fault(f"companion: variant {id}", "no row has this id") for id in sorted(variants - ids)]


def refusal(manifest: Manifest, where: str) -> Fault:
    """Why a companion is no bundle, for whoever asked for one."""
    hint = "assay qualify-device --retarget runs it; ship and load the bundle that it is of"
    return Fault(where, f"is {described(manifest)}", "a qualified bundle", hint)


def described(manifest: Manifest) -> str:
    """`a companion (sm120 re-assembled for sm_90a) of bundle 2a28b9fb505b4939`; the manifest has a companion."""
    companion = manifest.companion or {}
    targets = "/".join(sorted(target.name for target in manifest.targets))
    return f"a companion ({targets} re-assembled for {companion['arch']}) of bundle {companion['of'][:16]}"


def _field_faults(item: Any, fields: dict[str, Check], where: str) -> list[Fault]:
    if type(item) is not dict:
        return [Fault(where, type(item).__name__, "a map")]
    return [
        Fault(f"{where}: {name}", "is missing" if name not in item else repr(item[name])[:80], allowed)
        for name, (test, allowed) in fields.items()
        if not test(item.get(name))
    ]
