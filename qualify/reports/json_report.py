"""The machine-readable report of a run: `report.json`, schema assay.qualify/1."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from assay.codegen.toolchain import python_build
from assay.qualify.bundle_contents import code_sha256
from assay.qualify.emulating import EMULATED
from assay.qualify.gates import Judgement, Reason
from assay.qualify.interpreting import INTERPRETED
from assay.qualify.selection import ProblemResult
from assay.qualify.workaround_verdicts import document

from .record import RunRecord

SCHEMA = "assay.qualify/1"


def report(run: RunRecord) -> dict[str, Any]:
    """The whole run as plain data."""
    return {
        "schema": SCHEMA,
        "target": run.target.target,
        "profile": run.profile,
        "verdict": run.verdict,
        "outcome": run.outcome,
        "only": {name: list(values) for name, values in run.only.items()} or None,
        "evidence": list(run.evidence),
        "lock": {"path": _spelled(run.lock_path), "state": run.lock_state},
        "bundle": {"path": _spelled(run.bundle_path), "identity": run.identity} if run.identity else None,
        "toolchain": {**run.toolchain.to_dict(), "python": python_build()},
        "build": _build(run),
        "warnings": list(run.warnings),
        "problems": [_problem(run, result) for result in run.results],
        "workarounds": None if run.watched is None else [document(watched) for watched in run.watched],
        "lock_changes": [
            {"kind": change.kind, "problem": change.key, "details": [list(item) for item in change.details]}
            for change in run.changes
        ],
    }


def render(run: RunRecord) -> str:
    """report.json."""
    return as_text(report(run))


def as_text(document: dict[str, Any]) -> str:
    """The one spelling of a report: indented, in the order built, newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _spelled(path: Path) -> str:
    """A path as text that any output can hold, also where its name is not UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _problem(run: RunRecord, result: ProblemResult) -> dict[str, Any]:
    return {
        "family": result.problem.family,
        "problem": dict(result.problem.axes),
        "verdict": "qualified" if result.qualified else "failed",
        "chosen": _variant(run, result, result.chosen) if result.chosen else None,
        "rejected": [
            {
                "variant": judgement.variant.id,
                "launch": dict(judgement.variant.candidate.launch),
                "resources": judgement.resources.to_dict() if judgement.resources else None,
                "reasons": [_reason(reason) for reason in judgement.reasons],
                "machine_code_sha256": _machine_code(judgement),
                "ir_sha256": judgement.outcome.ir_sha256,
                "compile_cpu_seconds": round(judgement.outcome.cpu_seconds, 3),
            }
            for judgement in result.rejected
        ],
    }


def _variant(run: RunRecord, result: ProblemResult, judgement: Judgement) -> dict[str, Any]:
    assert judgement.resources is not None, "a chosen variant has been read"
    occupancy = run.occupancy_of(judgement)
    return {
        "id": judgement.variant.id,
        "launch": dict(judgement.variant.candidate.launch),
        "specialisation": judgement.variant.specialisation,
        "resources": judgement.resources.to_dict(),
        "occupancy": occupancy.to_dict() if occupancy else None,
        "near_limits": [limit.to_dict() for limit in run.near_limits_of(result)],
        "evidence": judgement.evidence,
        "interpretation": _execution(judgement, INTERPRETED.name),
        "emulation": _execution(judgement, EMULATED.name),
        "code_sha256": code_sha256(judgement),
        "machine_code_sha256": _machine_code(judgement),
        "ir_sha256": judgement.outcome.ir_sha256,
        "compile_cpu_seconds": round(judgement.outcome.cpu_seconds, 3),
        "instructions": dict(sorted((judgement.outcome.instructions or {}).items())),
        "compiler_messages": judgement.outcome.messages,
    }


def _build(run: RunRecord) -> dict[str, Any]:
    """What compiling took, each candidate once, when it was compiled; those from the cache bring the seconds from then.

    cpu_seconds: of processors; compile_seconds: of the clock, in workers.
    """
    outcomes = {id(judgement.outcome): judgement.outcome for result in run.results for judgement in result.judged}
    return {
        "candidates": len(outcomes),
        "from_cache": sum(outcome.cached for outcome in outcomes.values()),
        "compile_seconds": round(sum(outcome.seconds for outcome in outcomes.values()), 3),
        "cpu_seconds": round(sum(outcome.cpu_seconds for outcome in outcomes.values()), 3),
    }


def _machine_code(judgement: Judgement) -> str | None:
    """Hash of the kernel's instructions alone, without what else the file holds, such as the compiler's name."""
    return hashlib.sha256(judgement.kernel.code).hexdigest() if judgement.kernel else None


def _execution(judgement: Judgement, level: str) -> dict[str, Any] | None:
    execution = judgement.execution(level)
    return execution.figures() if execution else None


def _reason(reason: Reason) -> dict[str, Any]:
    return {"budget": reason.budget, "limit": reason.limit, "actual": reason.actual, "detail": reason.detail}
