"""From specs to problems and their candidates: deterministic, lazy, and able to say what was left out and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.bundle.faults import Fault, did_you_mean

from .predicates import holds
from .records import AxisItems, Candidate, Exclusion, Problem, spell
from .spec_checks import target_facts
from .spec_models import FamilyFile, TargetFile
from .specs import SpecError, SpecSet


@dataclass(frozen=True)
class Selection:
    """A part of the expansion: `only` maps `family` or an axis to the spelled values that stay."""

    profile: str
    only: Mapping[str, tuple[str, ...]]


def expand(specs: SpecSet, target: str, selection: Selection) -> Iterator[Problem | Exclusion]:
    """Every problem of the profile on the target, in spec order, with each excluded combination where it would stand.

    Raises SpecError for an unknown target or profile, and for an `only` that names nothing.
    """
    target_file = specs.target(target)
    profile = specs.profile(selection.profile)
    _check_only(specs, list(profile.families), selection.only)
    for name, narrowed in profile.families.items():
        if name in selection.only.get("family", (name,)):
            yield from _expand_family(specs.families[name].model, target_file, narrowed, selection.only)


def _expand_family(
    family: FamilyFile, target: TargetFile, narrowed: Mapping[str, list[Any]], only: Mapping[str, tuple[str, ...]]
) -> Iterator[Problem | Exclusion]:
    choices = [
        [value for value in narrowed.get(name, axis.values) if spell(value) in only.get(name, (spell(value),))]
        for name, axis in family.axes.items()
    ]
    facts = target_facts(target)
    for values in itertools.product(*choices):
        axes: AxisItems = tuple(zip(family.axes, values, strict=True))
        known = {**facts, **dict(axes)}
        reason = next(
            (c.reason for c in family.constraints if holds(c.when, known) and not holds(c.require, known)), None
        )
        yield Exclusion(family.family, axes, reason) if reason else Problem(family.family, target.target, axes)


def candidates(family: FamilyFile, target: TargetFile, problem: Problem) -> list[Candidate]:
    """The launches to try for a problem, each once, in the order of the family file."""
    known = {**target_facts(target), **dict(problem.axes)}
    names = [*family.launch, "num_stages", "num_warps"]
    decided = {name: field.feature in target.features for name, field in family.launch.items() if field.feature}
    found: dict[Candidate, None] = {}
    for group in family.candidates:
        if holds(group.when, known):
            for launch in group.launches:
                given = {**launch.model_dump(), **decided}
                found[Candidate(problem, tuple((name, given[name]) for name in names))] = None
    return list(found)


def _check_only(specs: SpecSet, families: list[str], only: Mapping[str, tuple[str, ...]]) -> None:
    models = [specs.families[name].model for name in families]
    known: dict[str, set[str]] = {"family": set(families)}
    for model in models:
        for name, axis in model.axes.items():
            known.setdefault(name, set()).update(spell(value) for value in axis.values)
    faults = []
    for name, values in only.items():
        if name not in known:
            allowed = ", ".join(sorted(known))
            faults.append(Fault(f"--only {name}", "neither family nor an axis", allowed, did_you_mean(name, known)))
            continue
        for value in values:
            if value not in known[name]:
                allowed = ", ".join(sorted(known[name], key=_numbers_first))
                hint = did_you_mean(value, known[name])
                faults.append(Fault(f"--only {name}={value}", "no such value", allowed, hint))
    if faults:
        raise SpecError(faults)


def _numbers_first(spelled: str) -> tuple[bool, int, str]:
    """The order in which people list values: 64 before 128, texts by their letters."""
    is_number = spelled.removeprefix("-").isdecimal()
    return not is_number, int(spelled) if is_number else 0, spelled
