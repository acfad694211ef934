"""What `assay coverage --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .judging import Answer, JudgedCall
from .running import Coverage, CoveredRow, DeviceCoverage

SCHEMA = "assay.coverage/1"


def document(coverage: Coverage) -> dict[str, Any]:
    """One entry for each device of each bundle.  A call names its answers by their index, as calls share them."""
    return {
        "schema": SCHEMA,
        "verdict": "covered" if coverage.covered else "missing",
        "models": list(coverage.models),
        "kv_formats": list(coverage.formats),
        "families": list(coverage.families),
        "allowed_missing": sorted(coverage.waived),
        "devices": [_device(device) for device in coverage.devices],
    }


def _device(device: DeviceCoverage) -> dict[str, Any]:
    index = {id(answer): position for position, answer in enumerate(device.answers)}
    return {
        "bundle": str(device.bundle),
        "target": device.target,
        "identity": device.identity,
        "families_not_judged": list(device.not_judged),
        "calls": [_call(judged, index) for judged in device.calls],
        "answers": [_answer(answer) for answer in device.answers],
        "rows": [_row(row) for row in device.rows],
    }


def _call(judged: JudgedCall, index: Mapping[int, int]) -> dict[str, Any]:
    return {
        "model": judged.call.model,
        "layers": judged.call.layers,
        "facts": dict(judged.call.facts),
        "verdict": judged.verdict,
        "unknown_facts": list(judged.unknown),
        "answers": [index[id(answer)] for answer in judged.answers],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    failed = answer.nearest.failed if answer.nearest else ()
    return {
        "family": answer.family,
        "request": dict(answer.request),
        "row": answer.row.id if answer.row else None,
        "specialised": answer.specialised,
        "behind": list(answer.behind),
        "nearest": answer.nearest.row.id if answer.nearest else None,
        "failed": [{"field": f.field, "requested": f.requested, "required": f.required} for f in failed],
        "covers": list(answer.covers),
        "reason": answer.reason,
    }


def _row(covered: CoveredRow) -> dict[str, Any]:
    return {
        "row": covered.row.id,
        "family": covered.row.family,
        "target": covered.row.target,
        "problem": dict(covered.problem),
        "reach": covered.reach,
        "shadowed_by": covered.shadowed_by,
        "code_bytes": covered.code_bytes,
    }
