"""The machine-readable report of a run: `report.json`, schema assay.qualify/1."""

from __future__ import annotations

import json
from typing import Any

from assay.codegen.toolchain import Toolchain, python_build
from assay.qualify.bundle_contents import code_sha256
from assay.qualify.gates import Judgement, Reason
from assay.qualify.lock import LockChange
from assay.qualify.selection import ProblemResult

SCHEMA = "assay.qualify/1"


def report(
    *,
    target: str,
    profile: str,
    toolchain: Toolchain,
    results: list[ProblemResult],
    lock_changes: list[LockChange],
    verdict: str,
    warnings: list[str],
) -> dict[str, Any]:
    """The whole run as plain data.  verdict: `qualified` or `failed`."""
    return {
        "schema": SCHEMA,
        "target": target,
        "profile": profile,
        "verdict": verdict,
        "toolchain": {**toolchain.to_dict(), "python": python_build()},
        "warnings": warnings,
        "problems": [_problem(result) for result in results],
        "lock_changes": [
            {"kind": change.kind, "problem": change.key, "details": [list(item) for item in change.details]}
            for change in lock_changes
        ],
    }


def as_text(document: dict[str, Any]) -> str:
    """The one spelling of a report: indented, in the order built, newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _problem(result: ProblemResult) -> dict[str, Any]:
    return {
        "family": result.problem.family,
        "problem": dict(result.problem.axes),
        "verdict": "qualified" if result.qualified else "failed",
        "chosen": _variant(result.chosen) if result.chosen else None,
        "rejected": [
            {
                "variant": judgement.variant.id,
                "launch": dict(judgement.variant.candidate.launch),
                "resources": judgement.resources.to_dict() if judgement.resources else None,
                "reasons": [_reason(reason) for reason in judgement.reasons],
            }
            for judgement in result.rejected
        ],
    }


def _variant(judgement: Judgement) -> dict[str, Any]:
    assert judgement.resources is not None, "a chosen variant has been read"
    return {
        "id": judgement.variant.id,
        "launch": dict(judgement.variant.candidate.launch),
        "specialisation": judgement.variant.specialisation,
        "resources": judgement.resources.to_dict(),
        "evidence": {"static": judgement.static_evidence},
        "code_sha256": code_sha256(judgement),
        "instructions": dict(sorted((judgement.outcome.instructions or {}).items())),
        "compiler_messages": judgement.outcome.messages,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"budget": reason.budget, "limit": reason.limit, "actual": reason.actual, "detail": reason.detail}
