"""Reading and marking shadows: which lanes of an operand are undefined, and what a result leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import UndefinedValueError
from .instruction import Instruction, Operand
from .masks import SCALAR_BIT, SCC_MASK, VECTOR_MASK, operand_mask, register_names, scalar_mask
from .state import Group

Rule = Callable[[Group], None]
ONES = np.uint32(0xFFFFFFFF)


def define(g: Group, instruction: Instruction, written: int) -> None:
    """All sources are defined: so is the result, in the lanes and the half that are written."""
    if instruction.parts:
        for part in instruction.parts:
            define(g, part, sum(operand_mask(item) for item in part.operands if item.written))
        return
    half = written_half(instruction)
    where = True if instruction.opcode.startswith("v_wmma") else g.mask
    for register in vector_numbers(written & g.undefined):
        row = g.shadow.u[register] if half is None else g.shadow.w[2 * register + half]
        if where is True:
            row[...] = 0
        else:
            row[where] = 0
    scalars = written & g.undefined & ~VECTOR_MASK
    for register in scalar_numbers(scalars):
        g.shadow.s[register][...] = 0
    if scalars & SCC_MASK:
        g.shadow.scc[...] = False
    refresh(g, written)


def written_half(instruction: Instruction) -> int | None:
    """Which half of its destination an instruction writes; `None` for all of it."""
    for operand in instruction.operands:
        if operand.written and operand.half:
            return 1 if operand.half == "h" else 0
    if instruction.opcode in ("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32"):
        return instruction["opsel"] >> 3 & 1
    return None


def refresh(g: Group, mask: int) -> None:
    """Notes of registers whether any of their bits is still undefined."""
    undefined = 0
    for register in vector_numbers(mask):
        if g.shadow.u[register].any():
            undefined |= 1 << register
    for register in scalar_numbers(mask):
        if g.shadow.s[register].any():
            undefined |= scalar_mask(register)
    if mask & SCC_MASK and g.shadow.scc.any():
        undefined |= SCC_MASK
    g.undefined = g.undefined & ~mask | undefined
    g.attention = g.in_flight | g.undefined


def vector_numbers(mask: int):
    mask &= VECTOR_MASK
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def scalar_numbers(mask: int):
    mask = (mask & ~SCC_MASK) >> SCALAR_BIT
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def bad_lanes(g: Group, operand: Operand) -> np.ndarray | None:
    """Lanes in which an operand has an undefined bit; `None` for a constant."""
    shadow = g.shadow
    if operand.kind == "vgpr":
        if operand.half:
            return shadow.w[2 * operand.index + (operand.half == "h")] != 0
        bad = shadow.u[operand.index] != 0
        for offset in range(1, operand.registers):
            bad = bad | (shadow.u[operand.index + offset] != 0)
        return bad
    if operand.kind == "sgpr":
        return (shadow.scalar[:, operand.index : operand.index + operand.registers] != 0).any(axis=1)[:, None]
    return shadow.scc[:, None] if operand.kind == "scc" else None


def require(g: Group, operand: Operand, purpose: str) -> None:
    """Raises UndefinedValueError if an active lane's operand has an undefined bit."""
    bad = bad_lanes(g, operand)
    if bad is None:
        return
    if operand.kind == "vgpr" and g.mask is not True:
        bad = bad & g.mask
    require_none(g, bad, register_names(operand_mask(operand)), purpose)


def require_none(g: Group, bad: np.ndarray, name: str, purpose: str) -> None:
    if bad.any():
        wave, lane = np.argwhere(bad)[0]
        where = f"wave {int(g.wave_numbers[wave])}" + (f", lane {lane}" if bad.shape[1] > 1 else "")
        raise UndefinedValueError(f"{name} holds a value that nobody wrote, and it {purpose} ({where})")


def source_operands(instruction: Instruction) -> list[Operand]:
    return [item for item in instruction.operands if not item.written]
