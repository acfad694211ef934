"""Judging what a kernel computed: every output element written and close, and nothing else touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import from_bf16
from .tensors import Case


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case.  largest_error: of finite outputs, absolute; None where nothing was compared.  fault: '' if passed."""

    case: str
    largest_error: float | None
    fault: str = ""

    @property
    def passed(self) -> bool:
        return not self.fault


def compare(
    case: Case,
    dtypes: Mapping[str, str],
    expected: Mapping[str, NDArray[Any]],
    before: Mapping[str, NDArray[Any]],
    absolute: float,
    relative: float,
) -> CaseResult:
    """The outputs of a case that ran in place, |actual - expected| <= absolute + relative * |expected|.

    The case's own limits count where they are tighter.  What is expected as unsigned integers are bits: all the same.
    dtypes: element type of each output as the spec names it.  before: a copy of every storage from before the run.
    """
    faults, largest = [], 0.0
    for name in case.outputs:
        actual = case.tensors[name].view
        if expected[name].dtype.kind == "u":
            fault, error = _compare_bits(actual.view(expected[name].dtype), expected[name]), 0.0
        else:
            limits = limits_of(case, name, (absolute, relative))
            fault, error = _compare_output(_values(actual, dtypes[name]), expected[name], *limits)
        largest = max(largest, error)
        if fault:
            faults.append(f"{name}: {fault}")
    faults += [fault for name in case.tensors if (fault := _touched(case, name, before[name]))]
    return CaseResult(case.name, largest, "; ".join(faults))


def limits_of(case: Case, name: str, tolerance: tuple[float, float]) -> tuple[float, float]:
    """A case may ask for more than the family does, never for less."""
    asked = case.limits.get(name, tolerance)
    return min(asked[0], tolerance[0]), min(asked[1], tolerance[1])


def _values(elements: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    return from_bf16(elements) if dtype == "bf16" else elements.astype(np.float64)


def _compare_output(
    actual: NDArray[np.float64], expected: NDArray[np.float64], absolute: float, relative: float
) -> tuple[str, float]:
    finite = np.isfinite(expected)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(actual - expected), 0.0)
        # Infinities must be the same; NaN stands for every NaN.
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        wrong = np.where(finite, ~(error <= absolute + relative * np.abs(expected)), ~same)
    largest = float(np.nanmax(error, initial=0.0))
    if not wrong.any():
        return "", largest
    where = tuple(int(index) for index in np.argwhere(wrong)[0])
    said = f"{int(wrong.sum())} of {wrong.size} elements wrong, first at {list(where)}"
    return f"{said}: {actual[where]:.6g}, expected {expected[where]:.6g}", largest


def _compare_bits(actual: NDArray[np.unsignedinteger], expected: NDArray[np.unsignedinteger]) -> str:
    wrong = actual != expected
    if not wrong.any():
        return ""
    where = tuple(int(index) for index in np.argwhere(wrong)[0])
    said = f"{int(wrong.sum())} of {wrong.size} elements wrong, first at {list(where)}"
    return f"{said}: {int(actual[where]):#x}, expected {int(expected[where]):#x}"


def _touched(case: Case, name: str, before: NDArray[Any]) -> str:
    """Whether an input changed, or anything around an output did.  Compared as bytes: NaN is not equal to itself."""
    storage = case.tensors[name].storage
    width = storage.itemsize
    changed = (storage.view(np.uint8) != before.view(np.uint8)).reshape(-1, width).any(1)
    if name in case.outputs:
        changed &= ~case.tensors[name].written_mask()
    if not changed.any():
        return ""
    what = "around the output was written" if name in case.outputs else "of the input was written"
    return f"{name}: element {int(np.argmax(changed))} {what}"
