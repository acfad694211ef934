"""Whether every rule of a family is of any use: found by expanding every axis on every target.

A `when` that never matches is a rule that somebody believes in and that does nothing; a problem without a candidate is
one that can never qualify.  Both are mistakes in the spec, so they are faults before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.bundle.faults import Fault

from .admitted import Axes, Places, admitted, excludes_any, fold, holds_at
from .predicates import test_holds
from .records import spell
from .spec_checks import target_facts
from .spec_models import FamilyFile, TargetFile
from .spec_parse import Parsed
from .yaml_source import KeyPath

_SHOWN_PROBLEMS = 5


def check_reach(parsed: Parsed[FamilyFile], targets: Iterable[TargetFile]) -> list[Fault]:
    """Rules of one family that match no problem on any target, constraints that exclude all, problems left untried."""
    family, source = parsed.model, parsed.source
    axes = {name: axis.values for name, axis in family.axes.items()}
    targets = list(targets)
    unused = {path: when for path, when in _rules(family) if _concerns(when, targets)}
    untried: list[str] = []
    constrained = {
        ("constraints", index, "when"): constraint
        for index, constraint in enumerate(family.constraints)
        if _concerns(constraint.when, targets)
    }
    some_admitted = False
    for target in targets:
        facts = target_facts(target)
        for path in [path for path, constraint in constrained.items() if excludes_any(constraint, facts, axes)]:
            del constrained[path]
        here = {path: tests for path, when in unused.items() if (tests := fold(when, facts, axes)) is not None}
        groups = [tests for group in family.candidates if (tests := fold(group.when, facts, axes)) is not None]
        for places in admitted(family.constraints, facts, axes):
            some_admitted = True
            for path in [path for path, tests in here.items() if holds_at(tests, places)]:
                del unused[path], here[path]
            if not any(holds_at(tests, places) for tests in groups):
                untried.append(f"{target.target}: {_spelled(axes, places)}")
    if not some_admitted:
        where = source.where(("constraints",), key=True)
        return [Fault(where, "constraints that exclude every combination", "at least one problem on some target")]
    faults = [
        Fault(source.where(path), "a `when` that never matches", "one that holds for some problem on some target")
        for path in unused
    ]
    faults += [
        Fault(source.where(path), "a constraint that excludes nothing", "one that some combination breaks")
        for path in constrained
    ]
    if untried:
        given = f"{len(untried)} problems without a candidate, such as {'; '.join(untried[:_SHOWN_PROBLEMS])}"
        faults.append(Fault(source.where(("candidates",), key=True), given, "at least one launch for every problem"))
    return faults


def _concerns(when: Mapping[str, Any], targets: Iterable[TargetFile]) -> bool:
    """Whether it is about targets that there are: a family may be shared, and speak of a backend without any."""
    test = when.get("target.backend")
    return test is None or any(test_holds(test, target.backend) for target in targets)


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


def _spelled(axes: Axes, places: Places) -> str:
    return " ".join(f"{name}={spell(axes[name][place])}" for name, place in zip(axes, places, strict=True))
