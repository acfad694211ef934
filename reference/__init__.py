"""Qualification cases and float64 references, one module a family.  numpy and the standard library only.

A family's module has

    cases(axes, every) -> list[Case]    inputs for a problem with these axis values; `every`: all, not the chosen ones
    expected(case) -> {argument: array}    what each output must be, from an independently decoded input: float64, or
                                           unsigned integers where its bits must be these

and, where larger calls are compared between builds,

    isolation(axes) -> list[(name, function)]    each function makes one more case

References share no code with templates, emulator or runtime.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from .tensors import Case, Strided

__all__ = ["Case", "NoReference", "Strided", "cases", "expected", "isolation"]


class NoReference(LookupError):
    """No module says what this family computes."""


def cases(family: str, axes: Mapping[str, Any], *, every: bool = False) -> list[Case]:
    """Inputs for a problem of `family`.  Raises NoReference."""
    return _module(family).cases(axes, every)


def isolation(family: str, axes: Mapping[str, Any]) -> list[tuple[str, Callable[[], Case]]]:
    """The larger calls on which two builds of a kernel are held against each other: (name, what makes the case).

    Empty for a family that has none. Raises NoReference.
    """
    module = _module(family)
    return module.isolation(axes) if hasattr(module, "isolation") else []


def expected(family: str, case: Case) -> dict[str, Any]:
    """What each output of the case must be, in float64 or as bits.  Raises NoReference."""
    return _module(family).expected(case)


def _module(family: str) -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.{family}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{family}":
            raise
        raise NoReference(f"no reference for family {family!r}: add reference/{family}.py") from None
