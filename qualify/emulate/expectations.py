"""`--expect`: what a buffer must hold after the launch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.bundle import Fault

from .buffers import Buffer, BufferFault, load_array
from .formats import CODED, decode, storage


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """A buffer's values, in its shape, next to the file they come from."""

    name: str
    file: Path
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One expectation met or not.  first: index, what is there, what was expected.

    largest_error: absolute, over elements where both are finite; None where there is no such element.
    """

    name: str
    file: str
    elements: int
    wrong: int
    first: tuple[tuple[int, ...], int | float, int | float] | None
    largest_error: float | None

    @property
    def passed(self) -> bool:
        return not self.wrong


def read_expectation(buffer: Buffer, file: Path) -> Expectation:
    """For a bf16 or fp8 buffer the file holds codes, if its dtype is that of codes, or values.  Raises BufferFault."""
    where = f"--expect {buffer.name}"
    found = load_array(file, where)
    if found.size != buffer.elements.size:
        given = f"{file} has {found.size} elements, shape {list(found.shape)}"
        raise BufferFault(Fault(where, given, f"{buffer.elements.size}, shape {list(buffer.elements.shape)}"))
    coded = buffer.dtype in CODED and found.dtype == storage(buffer.dtype)
    values = decode(buffer.dtype, found) if coded else found
    return Expectation(buffer.name, file, values.reshape(buffer.elements.shape))


def compare(buffer: Buffer, expected: Expectation, atol: float, rtol: float) -> Comparison:
    """Equal, both NaN, or |actual - expected| <= atol + rtol * |expected| in float64 where both are finite."""
    actual, wanted = buffer.values, expected.values
    with np.errstate(all="ignore"):
        wide, target = actual.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(target)
        error = np.abs(wide - target)
        # Zero tolerance means equality: beyond 2^53 different integers are one float64.
        close = finite & (error <= atol + rtol * np.abs(target)) if atol or rtol else False
        right = (actual == wanted) | close | (np.isnan(wide) & np.isnan(target))
    wrong = int((~right).sum())
    first = None
    if wrong:
        where = tuple(int(index) for index in np.argwhere(~right)[0])
        first = (where, actual[where].item(), wanted[where].item())
    largest = float(error[finite].max()) if finite.any() else None
    return Comparison(buffer.name, str(expected.file), right.size, wrong, first, largest)
