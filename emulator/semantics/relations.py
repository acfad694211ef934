"""Comparisons by name, shared by scalar and vector comparisons (RDNA4 ISA, 'VOPC' and 'SOPC')."""

from __future__ import annotations

import numpy as np

INTEGER_RELATIONS = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def float_relation(name: str):
    """One of the sixteen float comparisons (RDNA4 ISA, 'VOPC'): `n…` is the negation, true for NaN; `lg` is false."""
    if name == "o":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "u":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name == "lg":
        return lambda a, b: (a < b) | (a > b)
    if name == "nlg":
        return lambda a, b: ~((a < b) | (a > b))
    if name == "neq":
        return np.not_equal
    if name in INTEGER_RELATIONS:
        return INTEGER_RELATIONS[name]
    positive = INTEGER_RELATIONS[name.removeprefix("n")]
    return lambda a, b: ~positive(a, b)


FLOAT_RELATIONS = ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt")
