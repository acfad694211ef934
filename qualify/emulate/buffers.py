"""Buffers as `--arg` describes them, and what a kernel changed in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.bundle import Fault
from assay.qualify.verification import file_fault

from .arguments import INTEGERS, BufferArgument, ScalarArgument
from .formats import CODED, decode, encode, storage


class BufferFault(Exception):
    """A buffer that cannot be made; `fault` says why."""

    def __init__(self, fault: Fault):
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """One buffer.  elements: in memory, codes for bf16 and fp8; the kernel works on them.  before: a copy of them."""

    name: str
    dtype: str
    elements: NDArray[Any]
    before: NDArray[Any]
    writable: bool

    @property
    def values(self) -> NDArray[Any]:
        return decode(self.dtype, self.elements)


@dataclass(frozen=True, slots=True)
class Change:
    """What a kernel left in a buffer.  first: flat index of a change.  smallest, largest: of finite values, or None."""

    elements: int
    changed: int
    first: int | None
    nans: int
    smallest: int | float | None
    largest: int | float | None


def make_buffer(argument: BufferArgument, *, writable: bool) -> Buffer:
    """The buffer with its first contents.  Raises BufferFault."""
    try:
        elements = _from_file(argument) if argument.file else _filled(argument)
        return Buffer(argument.name, argument.dtype, elements, elements.copy(), writable)
    except MemoryError:
        raise BufferFault(Fault(f"--arg {argument.name}", "more memory than this machine has")) from None


def scalar_bits(argument: ScalarArgument) -> int:
    """The argument's bytes as an unsigned integer, little endian."""
    wide = np.uint64 if argument.dtype == "u64" else np.int64 if argument.dtype in INTEGERS else np.float64
    return int.from_bytes(encode(argument.dtype, np.array([argument.value], wide)).tobytes(), "little")


def load_array(path: Path, where: str) -> NDArray[Any]:
    """A .npy of numbers, C-contiguous; nothing in it is executed.  Raises BufferFault."""
    if fault := file_fault(path):
        raise BufferFault(fault)
    try:
        found = np.load(path, allow_pickle=False)
    except Exception as error:  # The header of a .npy is Python text: what numpy trips over in it has no end.
        raise BufferFault(Fault(where, f"{path}: {str(error) or type(error).__name__}", "a .npy file")) from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiu" or found.dtype.itemsize > 8:
        given = getattr(found, "dtype", "an archive")
        raise BufferFault(Fault(where, f"{path}: {given}", "a .npy file of integers or floating-point numbers"))
    return np.ascontiguousarray(found, found.dtype.newbyteorder("="))


def change_of(buffer: Buffer) -> Change:
    """Compared as bytes, since NaN is not equal to itself."""
    width = buffer.elements.itemsize
    pairs = (array.reshape(-1).view(np.uint8).reshape(-1, width) for array in (buffer.elements, buffer.before))
    changed = np.not_equal(*pairs).any(axis=1)
    values = buffer.values.reshape(-1)
    finite = values[np.isfinite(values)]
    count = int(changed.sum())
    return Change(
        elements=values.size,
        changed=count,
        first=int(np.argmax(changed)) if count else None,
        nans=int(np.isnan(values).sum()),
        smallest=finite.min().item() if finite.size else None,
        largest=finite.max().item() if finite.size else None,
    )


def _from_file(argument: BufferArgument) -> NDArray[Any]:
    where = f"--arg {argument.name}"
    found = load_array(Path(argument.file or ""), where)
    wanted = storage(argument.dtype)
    rounded = argument.dtype in CODED and found.dtype.kind == "f"
    if found.dtype != wanted and not rounded:
        also = ", or floating-point numbers, which are rounded to it" if argument.dtype in CODED else ""
        raise BufferFault(Fault(where, f"{argument.file} holds {found.dtype}", f"{wanted} for {argument.dtype}{also}"))
    if argument.shape is not None and found.size != math.prod(argument.shape):
        given = f"{argument.file} has {found.size} elements, shape {list(found.shape)}"
        raise BufferFault(Fault(where, given, f"{math.prod(argument.shape)} for {list(argument.shape)}"))
    if not found.size:
        raise BufferFault(Fault(where, f"{argument.file} is empty", "at least one element"))
    elements = encode(argument.dtype, found) if rounded else found
    return np.ascontiguousarray(elements.reshape(argument.shape or found.shape or (1,)))


def _filled(argument: BufferArgument) -> NDArray[Any]:
    shape, dtype, fill = argument.shape or (1,), argument.dtype, argument.content
    if fill == "zeros":
        return np.zeros(shape, storage(dtype))
    if fill == "uniform" and dtype in INTEGERS:
        limits = np.iinfo(storage(dtype))
        random = np.random.default_rng(argument.seed)
        return random.integers(limits.min, limits.max, shape, storage(dtype), endpoint=True)
    if fill == "arange":
        count = np.arange(math.prod(shape)).reshape(shape)
        return count.astype(storage(dtype)) if dtype in INTEGERS else encode(dtype, count.astype(np.float64))
    if fill in ("normal", "uniform"):
        random = np.random.default_rng(argument.seed)
        return encode(dtype, random.standard_normal(shape) if fill == "normal" else random.random(shape))
    number = {"ones": 1, "nan": np.nan}.get(fill, fill) if isinstance(fill, str) else fill
    if dtype in INTEGERS:
        return np.full(shape, number, storage(dtype))
    return np.full(shape, encode(dtype, np.array([number], np.float64))[0], storage(dtype))
