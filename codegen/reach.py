"""Whether every rule of a family is of any use: found by expanding every axis on every target.

A `when` that never matches is a rule that somebody believes in and that does nothing; a problem without a candidate is
one that can never qualify.  Both are mistakes in the spec, so they are faults before anything is compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.bundle.faults import Fault

from .predicates import holds
from .records import spell
from .spec_checks import target_facts
from .spec_models import FamilyFile, TargetFile
from .spec_parse import Parsed
from .yaml_source import KeyPath

_SHOWN_PROBLEMS = 5


def check_reach(parsed: Parsed[FamilyFile], targets: Iterable[TargetFile]) -> list[Fault]:
    """Rules of one family that match no problem on any target, constraints that exclude all, problems left untried."""
    family, source = parsed.model, parsed.source
    unused = dict(_rules(family))
    untried: list[str] = []
    constrained = {index: ("constraints", index, "when") for index in range(len(family.constraints))}
    admitted = False
    for target in targets:
        facts = target_facts(target)
        for axes in _combinations(family):
            known = {**facts, **axes}
            excluding = [c for c in family.constraints if holds(c.when, known) and not holds(c.require, known)]
            for index in [i for i in constrained if family.constraints[i] in excluding]:
                del constrained[index]
            if excluding:
                continue
            admitted = True
            for path in [path for path, when in unused.items() if holds(when, known)]:
                del unused[path]
            if not any(holds(group.when, known) for group in family.candidates):
                untried.append(f"{target.target}: " + " ".join(f"{name}={spell(v)}" for name, v in axes.items()))
    if not admitted:
        where = source.where(("constraints",), key=True)
        return [Fault(where, "constraints that exclude every combination", "at least one problem on some target")]
    faults = [
        Fault(source.where(path), "a `when` that never matches", "one that holds for some problem on some target")
        for path in unused
    ]
    faults += [
        Fault(source.where(path), "a constraint that excludes nothing", "one that some combination breaks")
        for path in constrained.values()
    ]
    if untried:
        given = f"{len(untried)} problems without a candidate, such as {'; '.join(untried[:_SHOWN_PROBLEMS])}"
        faults.append(Fault(source.where(("candidates",), key=True), given, "at least one launch for every problem"))
    return faults


def _rules(family: FamilyFile) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Every `when` that is judged by a problem alone.  An instruction rule may also ask about the launch."""
    for index, group in enumerate(family.candidates):
        yield ("candidates", index, "when"), group.when
    for index, preference in enumerate(family.preferences):
        yield ("preferences", index, "when"), preference.when
    for index, condition in enumerate(family.conditions):
        yield ("conditions", index, "when"), condition.when
    for index, argument in enumerate(family.arguments):
        yield ("arguments", index, "when"), argument.when
        if argument.within_2gib is not None:
            yield ("arguments", index, "within_2gib"), argument.within_2gib
    launch = {*family.launch, "num_stages", "num_warps"}
    for index, rule in enumerate(family.instructions):
        yield ("instructions", index, "when"), {name: test for name, test in rule.when.items() if name not in launch}


def _combinations(family: FamilyFile) -> Iterator[dict[str, Any]]:
    names = list(family.axes)
    for values in itertools.product(*(axis.values for axis in family.axes.values())):
        yield dict(zip(names, values, strict=True))
