"""A variant by its id or a prefix of it: rendered one after the other, lazily, until it is found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.bundle import VariantRecord
from assay.bundle.faults import Fault, FaultsError
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem, Variant, canonical_json
from assay.codegen.render import Renderer
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.variants import ID_DIGITS, make_variant

from .selection import problems_only

MIN_DIGITS = 4
_LISTED = 12

_WHERE_IDS_ARE = (
    "report.json and `assay inspect BUNDLE` list them; an id changes with the rendered source, so look an older one up "
    "by its problem in a newer report"
)


class NotFound(FaultsError):
    """No variant, or more than one, has that id; exit status 2."""


@dataclass(frozen=True)
class Found:
    """A variant with what it is judged by.  number: its place among the `of` candidates of its problem, from 1.
    profile: the first of those searched that has its problem."""

    variant: Variant
    profile: str
    target: TargetFile
    family: FamilyFile
    number: int
    of: int

    def __str__(self) -> str:
        candidate = self.variant.candidate
        return f"{candidate.problem.target} {candidate.problem.family} {candidate.problem.label} | {candidate.label}"


def find_variant(specs: SpecSet, wanted: str, targets: Sequence[str], profiles: Sequence[str]) -> Found:
    """The only variant whose id is, or begins with, `wanted`; a whole id ends the search as soon as it is met.

    Raises NotFound with where ids stand, or with all that match; SpecError for an unknown target or profile;
    TemplateError for a template that cannot be rendered.
    """
    prefix = wanted.lower()
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_DIGITS},{ID_DIGITS}}}", prefix):
        given = "not the id of a variant"
        raise NotFound(Fault(repr(wanted), given, f"{MIN_DIGITS} to {ID_DIGITS} hexadecimal digits"))
    matches: dict[str, Found] = {}
    seen: set[str] = set()
    for found in _variants(specs, targets, profiles):
        id = found.variant.id
        seen.add(id)
        if id == prefix:
            return found
        if id.startswith(prefix):
            matches[id] = found
    if len(matches) == 1:
        return next(iter(matches.values()))
    raise _ambiguous(prefix, matches) if matches else _unknown(prefix, seen, targets)


def find_built(specs: SpecSet, records: Iterable[VariantRecord], profile: str) -> dict[str, Found]:
    """Variants of a bundle as the specs make them, by id; one that they make otherwise, or not at all, is left out.

    Raises SpecError for a target or profile that the specs do not have; TemplateError.
    """
    wanted = {_built_as(item.target, item.family, item.problem, item.launch): item.id for item in records}
    renderer = Renderer(specs.templates)
    found = {}
    for name in sorted({target for target, *_ in wanted}):
        target = specs.target(name)
        for problem in problems_only(expand(specs, name, Selection(profile, {}))):
            family = specs.families[problem.family].model
            tried = candidates(family, target, problem)
            for number, candidate in enumerate(tried, 1):
                key = _built_as(name, problem.family, dict(problem.axes), dict(candidate.launch))
                if key not in wanted:
                    continue
                variant = make_variant(family, target, candidate, renderer)
                if variant.id == wanted[key]:
                    found[variant.id] = Found(variant, profile, target, family, number, len(tried))
    return found


def _built_as(target: str, family: str, problem: Mapping[str, Any], launch: Mapping[str, Any]) -> tuple[str, ...]:
    return target, family, canonical_json(problem), canonical_json(launch)


def _variants(specs: SpecSet, targets: Sequence[str], profiles: Sequence[str]) -> Iterator[Found]:
    """Every candidate of every problem.  A problem of several profiles comes once."""
    renderer = Renderer(specs.templates)
    for name in targets:
        target = specs.target(name)
        seen: set[Problem] = set()
        for profile in profiles:
            for item in expand(specs, name, Selection(profile, {})):
                if not isinstance(item, Problem) or item in seen:
                    continue
                seen.add(item)
                family = specs.families[item.family].model
                tried = candidates(family, target, item)
                for number, candidate in enumerate(tried, 1):
                    variant = make_variant(family, target, candidate, renderer)
                    yield Found(variant, profile, target, family, number, len(tried))


def _ambiguous(prefix: str, matches: dict[str, Found]) -> NotFound:
    shown = list(matches.items())[:_LISTED]
    more = f", {len(shown)} of them below" if len(matches) > len(shown) else ""
    head = Fault(prefix, f"begins {len(matches)} ids{more}", "one variant", "give more digits, or narrow with --target")
    return NotFound([head, *(Fault(id, str(found)) for id, found in shown)])


def _unknown(prefix: str, seen: set[str], targets: Sequence[str]) -> NotFound:
    """No nearest name: ids are hashes, so a similar one is no hint."""
    given = f"no variant among {len(seen):,} of {', '.join(targets)}"
    return NotFound(Fault(prefix, given, "an id of these", _WHERE_IDS_ARE))
