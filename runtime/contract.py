"""A family's contract with its callers, as the bundle states it, and whether a call keeps it.

Nothing here knows a family by name: which tensors there are, of which types and shapes, what must divide their
addresses and strides, and which facts of a call decide the dispatch, all comes from the bundle's manifest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from assay.bundle.faults import Fault, did_you_mean
from assay.bundle.record import Record

from .limits import LARGEST_ALIGNMENT, LARGEST_F32
from .tensors import TensorView

_INTEGERS = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1)}
# What a caller may hold in place of the type that a kernel names: the same bits.  A numpy array has no BF16 of its own.
_SAME_BITS = {"u8": ("u8", "e4m3fn"), "bf16": ("bf16", "u16"), "f16": ("f16", "u16")}
_PLUS_1 = "_plus_1"


class Pointer(Record):
    """A tensor of the contract.  alignment_axis or alignment_bytes may be None; shape in words."""

    __slots__ = ()

    name: str
    shape: tuple[str, ...]
    written: bool
    dtype: str | None
    dtype_by: tuple[str, Mapping[str, str]] | None
    alignment_axis: str | None
    alignment_bytes: int | None

    def dtype_for(self, facts: Mapping[str, Any]) -> str | None:
        """The element type for a call with these axis values; None where the contract has none."""
        if self.dtype_by is None:
            return self.dtype
        axis, by_value = self.dtype_by
        return by_value.get(_spelled(facts.get(axis)))


class Contract:
    """What a family's calls must bring.

    By the argument's name: pointers; scalars, as f32, i32 or i64; strides and sizes, as the tensor and the dimension of
    it that they belong to.  dimensions: sizes that a caller gives and no tensor has.  By the field of a dispatch
    condition: extents, the tensors of whose extents it is the largest, in bytes; products, the dimensions that it is
    the product of.
    """

    __slots__ = (
        "_strided", "dimensions", "extents", "family", "pointers", "products", "scalars", "sizes", "strides"
    )  # fmt: skip

    def __init__(self, family: str, document: Mapping[str, Any]):
        """document: the manifest's `families` entry."""
        arguments = document["arguments"]
        self.family = family
        self.pointers = {a["name"]: _pointer(a) for a in arguments if a["kind"] == "pointer"}
        self.scalars = {a["name"]: a["dtype"] for a in arguments if a["kind"] == "scalar"}
        self.strides = {a["name"]: (a["of"], a["dim"]) for a in arguments if a["kind"] == "stride"}
        self.sizes = {a["name"]: (a["of"], a["dim"]) for a in arguments if a["kind"] == "size"}
        self.products = {field: tuple(dims) for field, dims in document.get("products", {}).items()}
        self.dimensions = tuple(document.get("dimensions", ()))
        self.extents = {field: tuple(names) for field, names in document.get("extents", {}).items()}
        # Dimensions that have a stride argument.
        self._strided = set(self.strides.values())

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors that the kernel writes."""
        return tuple(name for name, pointer in self.pointers.items() if pointer.written)

    def shape_faults(self, views: Mapping[str, TensorView], dims: dict[str, int]) -> list[Fault]:
        """Ranks, sizes that contradict each other, and strides that no argument can tell.  Fills `dims` in."""
        faults: list[Fault] = []
        origin = dict.fromkeys(dims, "the call")
        for name, view in views.items():
            pointer = self.pointers[name]
            if len(view.shape) != len(pointer.shape):
                faults.append(Fault(name, f"{len(view.shape)} dimensions", f"{len(pointer.shape)}: {_words(pointer)}"))
                continue
            for word, size in zip(pointer.shape, view.shape, strict=True):
                faults += _unify(name, word, size, dims, origin)
            faults += self._stride_faults(pointer, view)
        return faults

    def _stride_faults(self, pointer: Pointer, view: TensorView) -> list[Fault]:
        """A dimension without a stride argument must be dense: the kernel takes it for granted."""
        if 0 in view.shape:
            return []
        # None: any stride will do, as the kernel steps by that of the dimension itself (`_stride`).
        faults: list[Fault] = []
        dense: int | None = 1
        for word, size, stride in reversed(list(zip(pointer.shape, view.shape, view.strides, strict=True))):
            told = (pointer.name, word) in self._strided
            if not told and size > 1 and dense is None:
                dense = stride
            elif not told and size > 1 and stride != dense:
                hint = "pass a contiguous tensor" if word == pointer.shape[-1] else ""
                faults.append(Fault(f"{pointer.name}, dimension {word}", f"stride {stride}", f"{dense}", hint))
            if told and size > 1 and stride < 0:
                faults.append(Fault(f"{pointer.name}, dimension {word}", f"stride {stride}", "at least 0"))
            if told:
                dense = stride * size if size > 1 else None
            elif dense is not None:
                dense *= size
        return faults

    def type_faults(self, views: Mapping[str, TensorView], facts: Mapping[str, Any]) -> list[Fault]:
        """Element types that differ from what the chosen row reads."""
        faults = []
        for name, view in views.items():
            wanted = self.pointers[name].dtype_for(facts)
            if wanted is None:
                continue
            allowed = _SAME_BITS.get(wanted, (wanted,))
            if view.dtype not in allowed:
                faults.append(
                    Fault(
                        name, f"elements of {view.dtype}", " or ".join(dict.fromkeys(allowed)), _type_hint(view, wanted)
                    )
                )
        return faults

    def own_type_faults(self, views: Mapping[str, TensorView]) -> list[Fault]:
        """Element types of outputs and of integers that no row has.

        Those are the caller's own doing; a cache or a query of another type may be what a fallback is for.
        """
        faults = []
        for name, view in views.items():
            pointer = self.pointers[name]
            known = [pointer.dtype] if pointer.dtype_by is None else list(pointer.dtype_by[1].values())
            allowed = [same for dtype in known if dtype for same in _SAME_BITS.get(dtype, (dtype,))]
            if (pointer.written or known[0] in _INTEGERS) and view.dtype not in allowed:
                hint = next(filter(None, (_type_hint(view, dtype or "") for dtype in known)), "")
                faults.append(Fault(name, f"elements of {view.dtype}", " or ".join(dict.fromkeys(allowed)), hint))
        return faults

    def fixed_alignment_faults(self, views: Mapping[str, TensorView]) -> list[Fault]:
        """What every row of the family takes for granted of addresses and strides."""
        faults = []
        for name, view in views.items():
            bytes_ = self.pointers[name].alignment_bytes
            if bytes_ is None or 0 in view.shape or len(view.shape) != len(self.pointers[name].shape):
                continue
            if view.address % bytes_:
                faults.append(Fault(name, f"address {view.address:#x}", f"a multiple of {bytes_} bytes"))
            for word, stride in self._used_strides(name, view):
                if stride * view.item_bytes % bytes_:
                    given = f"stride of {stride * view.item_bytes} bytes"
                    faults.append(Fault(f"{name}, dimension {word}", given, f"a multiple of {bytes_} bytes"))
        return faults

    def null_faults(self, views: Mapping[str, TensorView]) -> list[Fault]:
        """Tensors without memory that have elements all the same."""
        return [
            Fault(name, "address 0", "memory")
            for name, view in views.items()
            if not view.address and 0 not in view.shape
        ]

    def element_faults(self, views: Mapping[str, TensorView]) -> list[Fault]:
        """Addresses that are no multiple of the element's size: no kernel can read those."""
        return [
            Fault(name, f"address {view.address:#x}", f"a multiple of {view.item_bytes}, the size of one element")
            for name, view in views.items()
            if view.address % view.item_bytes
        ]

    def scalar_faults(self, scalars: Mapping[str, Any]) -> list[Fault]:
        """Numbers of the wrong kind or out of range."""
        unknown = [
            Fault(name, "not an argument", ", ".join(self.scalars)) for name in scalars if name not in self.scalars
        ]
        known = {name: value for name, value in scalars.items() if name in self.scalars}
        return unknown + [fault for name, v in known.items() if (fault := _scalar_fault(name, self.scalars[name], v))]

    def dimension_faults(self, dims: Mapping[str, Any]) -> list[Fault]:
        """Sizes that the caller must give, and those that are none."""
        allowed = ", ".join(self.dimensions) or "none"
        faults = [Fault(f"dims, {name}", "not given", "a size") for name in self.dimensions if name not in dims]
        faults += [
            Fault(f"dims, {name}", "not a size that callers give", allowed) for name in dims.keys() - {*self.dimensions}
        ]
        return faults + [
            Fault(f"dims, {name}", repr(size), "an integer from 0 to 2147483647")
            for name, size in dims.items()
            if name in self.dimensions and (type(size) is not int or not 0 <= size < 2**31)
        ]

    def facts(self, views: Mapping[str, TensorView]) -> dict[str, int]:
        """What dispatch asks of any call: the alignment that each alignment axis speaks of, and extents in bytes."""
        found: dict[str, int] = {}
        for name, view in views.items():
            axis = self.pointers[name].alignment_axis
            if axis is None or 0 in view.shape:
                continue
            steps = [stride * view.item_bytes for _, stride in self._used_strides(name, view)]
            found[axis] = math.gcd(found.get(axis, LARGEST_ALIGNMENT), view.address, *steps)
        for field, names in self.extents.items():
            found[field] = max((views[name].extent_bytes for name in names if name in views), default=0)
        for pointer in self.pointers.values():
            if pointer.alignment_axis is not None:
                found.setdefault(pointer.alignment_axis, LARGEST_ALIGNMENT)
        return found

    def _used_strides(self, name: str, view: TensorView) -> Iterable[tuple[str, int]]:
        """Strides that are passed and mean something."""
        for axis, word in enumerate(self.pointers[name].shape):
            if (name, word) in self._strided and (stride := self._stride(name, view, axis)):
                yield word, stride

    def _stride(self, name: str, view: TensorView, axis: int) -> int:
        """The stride to pass of a dimension that has a stride argument.

        Frameworks leave the stride of one element open. Where the dimension around it has no argument of its own
        (query heads by the KV head that they share), the kernel takes it for dense, and steps by this one.
        """
        words = self.pointers[name].shape
        while view.shape[axis] == 1 and axis and (name, words[axis - 1]) not in self._strided:
            axis -= 1
        return view.strides[axis] if view.shape[axis] > 1 else 0

    def number_of(self, name: str, views: Mapping[str, TensorView]) -> int:
        """What to pass as a size, or as a stride in elements; 0 for one that is never used."""
        tensor, dimension = self.sizes.get(name) or self.strides[name]
        view, axis = views[tensor], self.pointers[tensor].shape.index(dimension)
        if name in self.sizes:
            return view.shape[axis]
        return self._stride(tensor, view, axis)

    def name_faults(self, given: Iterable[str], wanted: Iterable[str], row: str) -> list[Fault]:
        """Arguments missing for the chosen row, and such that it has no use for."""
        given, wanted = set(given), set(wanted)
        missing = [Fault(name, "not given", f"row {row} needs it") for name in sorted(wanted - given)]
        extra = [
            Fault(name, "given", f"row {row} takes no such argument", did_you_mean(name, wanted - given))
            for name in sorted(given - wanted)
        ]
        return missing + extra


def _pointer(argument: Mapping[str, Any]) -> Pointer:
    by = argument.get("dtype_by")
    alignment = argument.get("alignment") or {}
    return Pointer(
        name=argument["name"],
        shape=tuple(argument["shape"]),
        written=argument["role"] != "input",
        dtype=argument.get("dtype"),
        dtype_by=next(iter(by.items())) if by else None,
        alignment_axis=alignment.get("axis"),
        alignment_bytes=alignment.get("bytes"),
    )


def _words(pointer: Pointer) -> str:
    return f"[{', '.join(pointer.shape)}]"


def _unify(name: str, word: str, size: int, dims: dict[str, int], origin: dict[str, str]) -> list[Fault]:
    """One dimension of one tensor against what is known of that word."""
    base, size_of_base = (word.removesuffix(_PLUS_1), size - 1) if word.endswith(_PLUS_1) else (word, size)
    if base not in dims:
        if size_of_base < 0:
            return [Fault(f"{name}, dimension {word}", f"{size} elements", "at least 1")]
        dims[base], origin[base] = size_of_base, name
        return []
    if dims[base] == size_of_base:
        return []
    wanted = dims[base] + (word != base)
    return [Fault(f"{name}, dimension {word}", f"{size} elements", f"{wanted}, as {origin[base]} has it")]


def _scalar_fault(name: str, dtype: str, value: Any) -> Fault | None:
    if dtype == "f32":
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Fault(name, f"{value!r}", "a number")
        # Comparisons take integers of any size, and are false for NaN.
        finite = -LARGEST_F32 <= value <= LARGEST_F32
        return None if finite else Fault(name, "a number out of range", "a finite number that FP32 can hold")
    low, high = _INTEGERS[dtype]
    if isinstance(value, bool) or not isinstance(value, int):
        return Fault(name, f"{value!r}", "an integer")
    return None if low <= value <= high else Fault(name, f"{value}", f"{low} to {high}")


def _type_hint(view: TensorView, wanted: str) -> str:
    if wanted == "u8" and view.dtype in ("i8", "e4m3fnuz", "e5m2", "e5m2fnuz"):
        return "the cache holds OCP E4M3FN codes: pass uint8, or float8_e4m3fn through .view()"
    if wanted == "i8" and view.dtype in ("u8", "e4m3fn"):
        return "pass int8, or the same bits through .view()"
    if wanted == "i32" and view.dtype == "i64":
        return "convert it, with .to(torch.int32) or numpy's .astype('int32')"
    if wanted == "i64" and view.dtype == "i32":
        return "convert it, with .to(torch.int64) or numpy's .astype('int64')"
    return ""


def _spelled(value: Any) -> str:
    """An axis value as the contract's keys spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
