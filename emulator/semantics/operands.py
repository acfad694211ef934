"""How a step reads its sources: one small function a source, made once, that takes the group and returns an array."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..instruction import NULL, SCC, VGPR, Instruction
from ..registry import Refused
from ..state import LANES, Group
from .constants import DTYPES, constant, is_constant, width

Reader = Callable[[Group], np.ndarray]

_ZERO_COLUMN = {kind: np.zeros((1, 1), dtype) for kind, dtype in DTYPES.items()}


def scalar_reader(instruction: Instruction, number: int, kind: str) -> Reader:
    """A scalar source: `[waves]`, or a numpy scalar where it is a constant."""
    if is_constant(number):
        value = constant(number, instruction.literal, kind)
        return lambda _g: value
    if number == NULL:
        zero = DTYPES[kind](0)
        return lambda _g: zero
    if number == SCC:
        dtype = DTYPES[kind]
        return lambda g: g.scc.astype(dtype)
    if number >= 128:
        raise Refused(f"scalar source {number}")
    if kind == "u32":
        return lambda g: g.s[number]
    if kind == "i32":
        return lambda g: g.si[number]
    if kind == "f32":
        return lambda g: g.sf[number]
    dtype = DTYPES[kind]
    if width(kind) == 64:
        if number % 2:
            raise Refused(f"64-bit scalar source at odd register {number}")
        return lambda g: g.s64[number].view(dtype)
    return lambda g: (g.s[number] & np.uint32(0xFFFF)).astype(np.uint16).view(dtype)


def vector_reader(instruction: Instruction, number: int, kind: str, *, half: int = 0) -> Reader:
    """A source of a vector instruction: `[waves, 32]`, or `[waves, 1]` or a numpy scalar where all lanes share it.

    `half` selects the upper 16 bits of a 16-bit source (RDNA4 ISA, 'OPSEL').
    """
    if number >= VGPR:
        return _vgpr_reader(number - VGPR, kind, half)
    if is_constant(number):
        value = constant(number, instruction.literal, kind)
        if half and width(kind) == 16:
            value = constant(number, (instruction.literal or 0) >> 16, kind) if number == 255 else DTYPES[kind](0)
        return lambda _g: value
    if number == NULL:
        zero = _ZERO_COLUMN[kind]
        return lambda _g: zero
    if number == SCC:
        dtype = DTYPES[kind]
        return lambda g: g.scc.astype(dtype)[:, None]
    if number >= 128:
        raise Refused(f"vector source {number}")
    if kind == "u32":
        return lambda g: g.c[number]
    if kind == "i32":
        return lambda g: g.ci[number]
    if kind == "f32":
        return lambda g: g.cf[number]
    dtype = DTYPES[kind]
    if width(kind) == 64:
        return lambda g: g.s64[number].view(dtype)[:, None]
    shift = np.uint32(16 * half)
    return lambda g: ((g.c[number] >> shift) & np.uint32(0xFFFF)).astype(np.uint16).view(dtype)


def _vgpr_reader(register: int, kind: str, half: int) -> Reader:
    if kind == "u32":
        return lambda g: g.u[register]
    if kind == "i32":
        return lambda g: g.i[register]
    if kind == "f32":
        return lambda g: g.f[register]
    slot = 2 * register + half
    if kind == "u16":
        return lambda g: g.w[slot]
    if kind == "i16":
        return lambda g: g.wi[slot]
    if kind == "f16":
        return lambda g: g.h[slot]
    dtype = DTYPES[kind]
    return lambda g: read_pair(g, register).view(dtype)


def read_pair(g: Group, register: int) -> np.ndarray:
    """Two consecutive VGPRs as one 64-bit number, the lower register holding the lower half: uint64 `[waves, 32]`."""
    both = np.empty((g.count, LANES, 2), np.uint32)
    both[..., 0] = g.u[register]
    both[..., 1] = g.u[register + 1]
    return both.view(np.uint64)[..., 0]


def write_pair(g: Group, register: int, value: np.ndarray, where: bool | np.ndarray) -> None:
    """The inverse of `read_pair` for the lanes in `where`."""
    if value.shape != (g.count, LANES):
        value = np.broadcast_to(value, (g.count, LANES))
    both = np.ascontiguousarray(value).view(np.uint32).reshape(g.count, LANES, 2)
    np.copyto(g.u[register], both[..., 0], where=where)
    np.copyto(g.u[register + 1], both[..., 1], where=where)


def negated(read: Reader, *, negative: bool, absolute: bool) -> Reader:
    """A float source with its `neg` and `abs` modifiers: sign bits only, so that NaNs keep their payload."""
    if absolute and negative:
        return lambda g: np.negative(np.abs(read(g)))
    if absolute:
        return lambda g: np.abs(read(g))
    if negative:
        return lambda g: np.negative(read(g))
    return read
