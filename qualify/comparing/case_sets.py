"""Which calls both sides of a comparison are run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay import reference
from assay.reference import Case

# chosen: those that qualification takes; every: all of them; isolation: fewer, and larger ones.
CHOSEN, EVERY, ISOLATION = "chosen", "every", "isolation"
CASE_SETS = (CHOSEN, EVERY, ISOLATION)


def made_cases(family: str, axes: Mapping[str, Any], case_set: str) -> Iterator[Case]:
    """One case after the other, of the same seeds on every side.

    Raises NoReference, also for the problem of another version, which lacks an axis that the cases are made by.
    """
    try:
        if case_set == ISOLATION:
            yield from (make() for _, make in reference.isolation(family, axes))
        else:
            yield from reference.cases(family, axes, every=case_set == EVERY)
    except KeyError as error:
        raise reference.NoReference(f"no cases of {family} without {error}") from None


def isolation_names(family: str, axes: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the isolation set's calls that a problem answers, none of them made; empty without a reference."""
    try:
        return tuple(name for name, _ in reference.isolation(family, axes))
    except (reference.NoReference, KeyError):
        return ()
