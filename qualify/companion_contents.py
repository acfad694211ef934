"""From re-assembled variants to what a companion holds."""

from __future__ import annotations

from collections.abc import Sequence

from assay.bundle import Bundle, Contents, VariantRecord
from assay.bundle.records import COMPANION_SCHEMA
from assay.codegen.spec_models import TargetFile

from .bundle_contents import target_record
from .reassembling import Retargeted


def companion_contents(bundle: Bundle, other: TargetFile, items: Sequence[Retargeted]) -> Contents:
    """The bundle's rows with other code objects, under the same ids and names of targets.

    A target's record says for which GPU its code now is.  All items must have been found good.
    """
    rows = [item.moved_row() for item in items]
    targets = sorted({row.target for row in rows})
    companion = {
        "of": bundle.identity,
        "target": other.target,
        "arch": other.arch,
        "variants": {
            item.record.id: {"code_sha256": item.record.code_sha256, "rewritten": dict(item.rewritten)}
            for item in items
        },
    }
    families = {row.family for row in rows}
    manifest = bundle.manifest._replace(
        targets=tuple(target_record(other)._replace(name=name) for name in targets),
        families={name: contract for name, contract in bundle.manifest.families.items() if name in families},
        counts={},
        bytes={},
        schema=COMPANION_SCHEMA,
        companion=companion,
    )
    objects = {row.object: item.code for row, item in zip(rows, items, strict=True)}
    return Contents(manifest, tuple(rows), tuple(map(_record, items)), objects)


def _record(item: Retargeted) -> VariantRecord:
    assert item.kernel is not None, "only what was found good is put into a companion"
    resources = item.kernel.resources.to_dict()
    dynamic, static = item.row.lds_bytes, resources["lds_static_bytes"]
    total = None if static is None else static + dynamic
    return item.record._replace(
        code_sha256=item.moved_row().object,
        resources=resources | {"lds_dynamic_bytes": dynamic, "lds_total_bytes": total},
        instructions=None,
    )
