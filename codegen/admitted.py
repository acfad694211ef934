"""The problems that a family's constraints admit on one target, found axis by axis.

Trying every combination costs the product of all axes, which each further axis multiplies; nearly all combinations are
excluded by what few of their values say.  So predicates are folded over the target and asked of the places of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .predicates import test_holds
from .spec_models import Constraint

Axes = Mapping[str, Sequence[Any]]
# Of each axis, in their order, the place of a value among those that the family lists.
Places = tuple[int, ...]
# What is left of a predicate on one target: of some axes, for which of their values it holds.
Tests = tuple[tuple[int, tuple[bool, ...]], ...]


def fold(when: Mapping[str, Any], facts: Mapping[str, Any], axes: Axes) -> Tests | None:
    """The predicate on a target with these facts; None where the target alone decides against it."""
    tests = []
    for name, test in when.items():
        if name not in axes:
            if not test_holds(test, facts[name]):
                return None
        else:
            tests.append((list(axes).index(name), tuple(test_holds(test, value) for value in axes[name])))
    return tuple(tests)


def holds_at(tests: Tests | None, places: Places) -> bool:
    """Whether a folded predicate holds for a problem, or for the first values of one that it does not ask beyond."""
    return tests is not None and all(truth[places[axis]] for axis, truth in tests)


def excludes_any(constraint: Constraint, facts: Mapping[str, Any], axes: Axes) -> bool:
    """Whether some combination breaks the constraint, others aside."""
    when, require = (fold(predicate, facts, axes) for predicate in (constraint.when, constraint.require))
    if when is None or not all(any(truth) for _, truth in when):
        return False
    asked = dict(when)
    return require is None or any(
        not required and (axis not in asked or asked[axis][place])
        for axis, truth in require
        for place, required in enumerate(truth)
    )


def admitted(constraints: Iterable[Constraint], facts: Mapping[str, Any], axes: Axes) -> list[Places]:
    """Every problem that no constraint excludes, in the order of the axes and of their values."""
    deciding: list[list[tuple[Tests, Tests | None]]] = [[] for _ in axes]
    for constraint in constraints:
        when, require = (fold(predicate, facts, axes) for predicate in (constraint.when, constraint.require))
        if when is None or require == ():
            continue
        asked = [axis for axis, _ in (*when, *(require or ()))]
        if not asked:
            return []
        deciding[max(asked)].append((when, require))
    found: list[Places] = [()]
    for values, decided in zip(axes.values(), deciding, strict=True):
        found = [
            places
            for first in found
            for places in [(*first, place) for place in range(len(values))]
            if not any(holds_at(when, places) and not holds_at(require, places) for when, require in decided)
        ]
    return found
