"""`assay plan`: the expansion of a profile on targets, with what the constraints exclude; nothing is compiled.

Written piece by piece, so that a plan takes the same memory whatever its length.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Candidate, Exclusion, Problem
from assay.codegen.specs import SpecSet

SCHEMA = "assay.plan/1"


def plan_json(specs: SpecSet, targets: Sequence[str], selection: Selection) -> Iterator[str]:
    """The pieces of one JSON document: by target, problems with their candidates, and exclusions with their reasons.

    Raises SpecError, and then before the first piece.
    """
    _check(specs, targets, selection)
    yield f'{{"schema": {json.dumps(SCHEMA)}, "profile": {_spelled(selection.profile)}, "targets": {{'
    for number, target in enumerate(targets):
        yield f'{", " if number else ""}{_spelled(target)}: {{"problems": ['
        # Twice through the expansion: kept instead, one of the two lists would be as long as the plan.
        yield from _separated(_problem(problem, tried) for problem, tried in _problems(specs, target, selection))
        yield '], "excluded": ['
        yield from _separated(
            {"family": item.family, "problem": dict(item.axes), "reason": item.reason}
            for item in expand(specs, target, selection)
            if isinstance(item, Exclusion)
        )
        yield "]}"
    yield "}}\n"


def plan_lines(specs: SpecSet, targets: Sequence[str], selection: Selection) -> Iterator[str]:
    """The plan for a person: a line a problem, then what is excluded, counted by reason.  Raises SpecError."""
    _check(specs, targets, selection)
    for target in targets:
        yield f"{target}, profile {selection.profile}"
        excluded: Counter[tuple[str, str]] = Counter()
        problems = to_compile = 0
        for item in expand(specs, target, selection):
            if isinstance(item, Exclusion):
                excluded[item.family, item.reason] += 1
                continue
            tried = len(candidates(specs.families[item.family].model, specs.target(target), item))
            problems, to_compile = problems + 1, to_compile + tried
            yield f"  {item.family} {item.label}: {tried} candidate{'s' if tried != 1 else ''}"
        yield f"{problems} problems, at most {to_compile} candidates to compile"
        for (family, reason), count in excluded.items():
            yield f"excluded: {count} of {family}: {reason}"


def _check(specs: SpecSet, targets: Sequence[str], selection: Selection) -> None:
    """Everything that can be wrong with what was asked for shows at the first step of an expansion."""
    for target in targets:
        next(expand(specs, target, selection), None)


def _problems(specs: SpecSet, target: str, selection: Selection) -> Iterator[tuple[Problem, list[Candidate]]]:
    for item in expand(specs, target, selection):
        if isinstance(item, Problem):
            yield item, candidates(specs.families[item.family].model, specs.target(target), item)


def _problem(problem: Problem, tried: list[Candidate]) -> dict[str, Any]:
    return {
        "family": problem.family,
        "problem": dict(problem.axes),
        "candidates": [dict(candidate.launch) for candidate in tried],
    }


def _separated(entries: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        yield f"{', ' if number else ''}{_spelled(entry)}"


def _spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
