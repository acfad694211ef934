"""The short way to see that a call keeps its family's contract: yes, or no more than that it is not plain.

`Terms` says what `contract.Contract` does, of the manifest as decoded; where it says no, the contract tells what is
wrong, if anything is.  So nothing may be let through here that is refused there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .limits import LARGEST_ALIGNMENT

_PLUS_1 = "_plus_1"
# What a caller may hold in place of the type that a kernel names.
_SAME_BITS = {("e4m3fn", "u8")}


class Seen:
    """A strided tensor on the kernels' device, as `tensors.TensorView` has it."""

    __slots__ = ("address", "dtype", "item_bytes", "shape", "strides")

    def __init__(self, address: int, dtype: str, item_bytes: int, shape: tuple[int, ...], strides: tuple[int, ...]):
        self.address = address
        self.dtype = dtype
        self.item_bytes = item_bytes
        self.shape = shape
        self.strides = strides

    @property
    def extent_bytes(self) -> int:
        """Bytes from the first element to behind the last; no size is 0 and no stride below 0."""
        steps = sum([(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)])
        return (steps + 1) * self.item_bytes

    @property
    def is_plain(self) -> bool:
        """Whether it has memory, elements in places of their own, and an address that its elements can have."""
        reach = 0
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size < 1 or (size > 1 and stride <= reach):
                return False
            reach += stride * (size - 1)
        return self.address > 0 and self.address % self.item_bytes == 0


class Terms:
    """What a family's calls must bring.  document: the manifest's `families` entry."""

    __slots__ = ("_axes", "_extents", "_of", "_products", "pointers", "scalars")

    def __init__(self, document: Mapping[str, Any]):
        arguments = document["arguments"]
        self.pointers = {a["name"]: a for a in arguments if a["kind"] == "pointer"}
        self.scalars = {a["name"] for a in arguments if a["kind"] == "scalar"}
        # Of strides and sizes: kind, tensor, dimension.
        self._of = {a["name"]: (a["kind"], a["of"], a["dim"]) for a in arguments if a["kind"] in ("stride", "size")}
        strided = {(tensor, dim) for kind, tensor, dim in self._of.values() if kind == "stride"}
        # Of each tensor: which of its dimensions have a stride argument.
        self._axes = {name: [(name, dim) in strided for dim in a["shape"]] for name, a in self.pointers.items()}
        self._products = document.get("products", {})
        self._extents = document.get("extents", {})

    def shapes_hold(self, views: Mapping[str, Seen], dims: dict[str, int]) -> bool:
        """Whether ranks, sizes, strides and fixed alignments are as the kernels take them.  Fills `dims` in."""
        for name, view in views.items():
            pointer = self.pointers[name]
            if len(view.shape) != len(pointer["shape"]) or not self._strides_hold(name, view):
                return False
            for dim, size in zip(pointer["shape"], view.shape, strict=True):
                base, size = (dim.removesuffix(_PLUS_1), size - 1) if dim.endswith(_PLUS_1) else (dim, size)
                if dims.setdefault(base, size) != size:
                    return False
            divisor = pointer.get("alignment", {}).get("bytes")
            if divisor and any(number % divisor for number in self._placing(name, view)):
                return False
        return True

    def facts(self, views: Mapping[str, Seen], dims: Mapping[str, int]) -> dict[str, int]:
        """What the tensors tell dispatch: dimensions, their products, alignments and extents in bytes."""
        found = dict(dims)
        for field, factors in self._products.items():
            found[field] = math.prod([dims[dim] for dim in factors])
        for name, pointer in self.pointers.items():
            if axis := pointer.get("alignment", {}).get("axis"):
                numbers = self._placing(name, views[name]) if name in views else ()
                found[axis] = math.gcd(found.get(axis, LARGEST_ALIGNMENT), *numbers)
        for field, names in self._extents.items():
            found[field] = max([views[name].extent_bytes for name in names if name in views], default=0)
        return found

    def types_hold(self, views: Mapping[str, Seen], facts: Mapping[str, Any]) -> bool:
        """Whether element types are those that a row with these axis values reads."""
        for name, view in views.items():
            wanted = self.pointers[name].get("dtype")
            if by := self.pointers[name].get("dtype_by"):
                ((axis, types),) = by.items()
                wanted = types.get(facts.get(axis)) if type(facts.get(axis)) is str else None
            if view.dtype != wanted and (view.dtype, wanted) not in _SAME_BITS:
                return False
        return True

    def number_of(self, name: str, views: Mapping[str, Seen]) -> int:
        """What to pass as a size, or as a stride in elements; 0 for one that is never used."""
        kind, tensor, dim = self._of[name]
        axis = self.pointers[tensor]["shape"].index(dim)
        return views[tensor].shape[axis] if kind == "size" else self._stride(tensor, views[tensor], axis)

    def _placing(self, name: str, view: Seen) -> Iterator[int]:
        """The address, and the strides that are passed and used, in bytes."""
        yield view.address
        for axis, strided in enumerate(self._axes[name]):
            if strided:
                yield self._stride(name, view, axis) * view.item_bytes

    def _stride(self, name: str, view: Seen, axis: int) -> int:
        """As `Contract._stride` has it, which says why."""
        while view.shape[axis] == 1 and axis and not self._axes[name][axis - 1]:
            axis -= 1
        return view.strides[axis] if view.shape[axis] > 1 else 0

    def _strides_hold(self, name: str, view: Seen) -> bool:
        """A dimension without a stride argument must be dense: as `Contract._stride_faults` has it."""
        dense: int | None = 1
        for strided, size, stride in reversed(list(zip(self._axes[name], view.shape, view.strides, strict=True))):
            if not strided and size > 1 and dense is None:
                dense = stride
            elif not strided and size > 1 and stride != dense:
                return False
            if stride < 0:
                return False
            if strided:
                dense = stride * size if size > 1 else None
            elif dense is not None:
                dense *= size
        return True


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a dense row-major tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
