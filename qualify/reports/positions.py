"""Where in the specs something stands that a report is about: the line that a person would edit."""

from __future__ import annotations

from dataclasses import dataclass

from assay.codegen.predicates import holds
from assay.codegen.records import Candidate
from assay.codegen.spec_checks import target_facts
from assay.codegen.spec_models import TargetFile
from assay.codegen.specs import SpecSet


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; line and column start at 1, columns count characters."""

    path: str
    line: int
    column: int


def candidate_position(specs: SpecSet, target: TargetFile, candidate: Candidate) -> Position:
    """The launch that a candidate was made from: the first that fits, in a group whose `when` holds for its problem."""
    family = specs.families[candidate.problem.family]
    facts = {**target_facts(target), **dict(candidate.problem.axes)}
    # What the target decides does not stand there.
    given = [name for name, _ in candidate.launch if not getattr(family.model.launch.get(name), "feature", None)]
    wanted = {name: value for name, value in candidate.launch if name in given}
    for index, group in enumerate(family.model.candidates):
        if not holds(group.when, facts):
            continue
        for number, launch in enumerate(group.launches):
            if launch.model_dump() == wanted:
                return _position(family.source.where(("candidates", index, "launches", number)))
    return family_position(specs, candidate.problem.family, "candidates")


def family_position(specs: SpecSet, family: str, key: str = "family") -> Position:
    """A key of a family's file; the profile's first line where there is no such family any more."""
    if family in specs.families:
        return _position(specs.families[family].source.where((key,), key=True))
    profile = next(iter(specs.profiles.values()))
    return _position(profile.source.where(()))


def _position(where: str) -> Position:
    path, line, column = where.rsplit(":", 2)
    return Position(path, int(line), int(column))
