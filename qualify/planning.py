"""`assay plan`: the expansion of a profile on targets, with what the constraints exclude; nothing is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Exclusion, spell
from assay.codegen.specs import SpecSet

SCHEMA = "assay.plan/1"


def make_plan(
    specs: SpecSet, targets: Sequence[str], profile: str, only: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Problems with their candidates, and exclusions with their reasons, by target.  Raises SpecError."""
    return {
        "schema": SCHEMA,
        "profile": profile,
        "targets": {name: _plan_target(specs, name, Selection(profile, only)) for name in targets},
    }


def _plan_target(specs: SpecSet, target: str, selection: Selection) -> dict[str, Any]:
    problems, excluded = [], []
    for item in expand(specs, target, selection):
        entry = {"family": item.family, "problem": dict(item.axes)}
        if isinstance(item, Exclusion):
            excluded.append({**entry, "reason": item.reason})
        else:
            found = candidates(specs.families[item.family].model, specs.target(target), item)
            problems.append({**entry, "candidates": [dict(candidate.launch) for candidate in found]})
    return {"problems": problems, "excluded": excluded}


def print_plan(out: Console, plan: dict[str, Any]) -> None:
    """The plan as tables: a line a problem, then what is excluded, counted by reason."""
    for target, content in plan["targets"].items():
        table = Table(title=f"{target}, profile {plan['profile']}", title_justify="left", header_style="bold")
        table.add_column("family")
        table.add_column("problem")
        table.add_column("candidates", justify="right")
        for entry in content["problems"]:
            table.add_row(entry["family"], _label(entry["problem"]), str(len(entry["candidates"])))
        out.print(table)
        tried = sum(len(entry["candidates"]) for entry in content["problems"])
        out.print(f"{len(content['problems'])} problems, at most {tried} candidates to compile")
        for (family, reason), count in Counter((e["family"], e["reason"]) for e in content["excluded"]).items():
            out.print(f"excluded: {count} of {family}: {reason}", markup=False)


def _label(problem: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={spell(value)}" for name, value in problem.items())
