"""Inputs as a caller holds them: a block of memory, and a strided view into it.

What lies between and behind the elements is part of a case: it is filled with values that would be seen if they leaked
in, and compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# (absolute, relative) of a log-sum-exp.  It is a logarithm: what a family allows of an output, relative to it, would be
# any weight at all.
LSE_LIMITS = (0.002, 1e-4)


@dataclass(frozen=True, eq=False)
class Strided:
    """`storage` is one-dimensional; the tensor starts at element `offset`.  shape and strides in elements."""

    storage: NDArray[Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def view(self) -> NDArray[Any]:
        """The tensor itself; writing to it writes to the storage."""
        start = self.storage[self.offset :]
        strides = tuple(stride * self.storage.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(start, self.shape, strides)

    def written_mask(self) -> NDArray[np.bool_]:
        """Which elements of the storage belong to the tensor."""
        mask = np.zeros(self.storage.shape, bool)
        Strided(mask, self.offset, self.shape, self.strides).view[...] = True
        return mask


@dataclass(frozen=True, eq=False)
class Case:
    """One call.  tensors and scalars by argument name; dims: sizes by the names that a family's grid uses.

    outputs: names of the tensors that the kernel must write, every element, and nothing around them.
    facts: what `expected` needs and no argument holds.
    limits: (absolute, relative) of outputs that must come closer than the family's tolerance asks; it never loosens.
    """

    name: str
    tensors: Mapping[str, Strided]
    scalars: Mapping[str, int | float]
    dims: Mapping[str, int]
    outputs: tuple[str, ...]
    facts: Mapping[str, Any]
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def dense(values: NDArray[Any]) -> Strided:
    """A contiguous tensor with nothing around it."""
    return spaced(values, values.dtype.type(0), tail=0)


def spaced(values: NDArray[Any], filler: Any, *, lead: int = 0, gaps: tuple[int, ...] = (), tail: int) -> Strided:
    """A tensor `lead` elements into its storage, with filler after each index of an axis and `tail` elements behind.

    gaps: elements after what one index of an axis spans, by axis; axes not given have none.
    """
    gaps = (*gaps, *(0,) * (values.ndim - len(gaps)))
    strides, span = [], 1
    for size, gap in zip(reversed(values.shape), reversed(gaps), strict=True):
        strides.append(span + gap)
        span = (span + gap) * size
    storage = np.full(lead + span + tail, filler, values.dtype)
    tensor = Strided(storage, lead, values.shape, tuple(reversed(strides)))
    tensor.view[...] = values
    return tensor
