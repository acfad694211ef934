"""Inputs as a caller holds them: a block of memory, and a strided view into it.

What lies between and behind the elements is part of a case: it is filled with values that would be seen if they leaked
in, and compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    """

    name: str
    tensors: Mapping[str, Strided]
    scalars: Mapping[str, int | float]
    dims: Mapping[str, int]
    outputs: tuple[str, ...]
    facts: Mapping[str, Any]


def dense(values: NDArray[Any]) -> Strided:
    """A contiguous tensor with nothing around it."""
    flat = np.ascontiguousarray(values).reshape(-1).copy()
    strides = tuple(int(np.prod(values.shape[axis + 1 :], dtype=np.int64)) for axis in range(values.ndim))
    return Strided(flat, 0, values.shape, strides)


def padded(values: NDArray[Any], *, lead: int, row: int, plane: int, filler: Any) -> Strided:
    """A [planes, rows, columns] tensor `lead` elements into its storage, with filler after each row and each plane."""
    planes, rows, columns = values.shape
    row_stride = columns + row
    plane_stride = rows * row_stride + plane
    storage = np.full(lead + planes * plane_stride + 1, filler, values.dtype)
    tensor = Strided(storage, lead, values.shape, (plane_stride, row_stride, 1))
    tensor.view[...] = values
    return tensor


def poisoned(shape: tuple[int, ...], dtype: Any, filler: Any, *, tail: int = 0) -> Strided:
    """An output that holds a poison value everywhere, with `tail` elements of it behind."""
    tensor = dense(np.full(shape, filler, dtype))
    storage = np.concatenate([tensor.storage, np.full(tail, filler, dtype)])
    return Strided(storage, 0, tensor.shape, tensor.strides)
