"""From a side's report.json (`assay.qualify/1`) to what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .records import Chosen, Form, Problem, Side


def side_of(version: str, target: str, report: Mapping[str, Any]) -> Side:
    """The figures of one build."""
    return Side(
        version,
        target,
        toolchain=report["toolchain"],
        build=report["build"],
        problems=tuple(_problem(problem) for problem in report["problems"]),
        workarounds=tuple(report["workarounds"] or ()),
    )


def _problem(problem: Mapping[str, Any]) -> Problem:
    rejected, chosen = problem["rejected"], problem["chosen"]
    forms = tuple(_form(item, item["variant"]) for item in rejected)
    if chosen is None:
        return Problem(problem["family"], problem["problem"], None, forms, _reasons(rejected))
    form = _form(chosen, chosen["id"])
    executed = (chosen["emulation"] or {}).get("executed_instructions")
    errors = [(chosen[level] or {}).get("largest_error") for level in ("emulation", "interpretation")]
    found = Chosen(
        form,
        len(rejected),
        (chosen["occupancy"] or {}).get("waves"),
        sum(chosen["instructions"].values()) or None,
        sum(executed.values()) if executed else None,
        next((error for error in errors if error is not None), None),
    )
    return Problem(problem["family"], problem["problem"], found, (*forms, form))


def _form(item: Mapping[str, Any], variant: str) -> Form:
    return Form(variant, item["launch"], item["resources"], item["ir_sha256"], item["machine_code_sha256"])


def _reasons(rejected: list[Mapping[str, Any]]) -> str:
    """Why the first candidate, the preferred one, did not qualify."""
    if not rejected:
        return "no candidate applies"
    return "; ".join(_reason(reason) for reason in rejected[0]["reasons"])


def _reason(reason: Mapping[str, Any]) -> str:
    if isinstance(reason["actual"], int) and isinstance(reason["limit"], int):
        return f"{reason['budget']} {reason['actual']:,} > {reason['limit']:,}"
    detail = next((line.strip() for line in reversed(reason["detail"].splitlines()) if line.strip()), "")
    said = f"{reason['budget']}: {'unknown' if reason['actual'] is None else reason['actual']}"
    return f"{said} ({detail})" if detail else said
