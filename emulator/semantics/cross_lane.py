"""Lanes of one wave exchanging values through registers: readlane, writelane, permlane, swap."""

from __future__ import annotations

import numpy as np

from ..instruction import EXEC, VGPR, Instruction
from ..registry import Refused, Step, semantics
from ..state import LANES, Group
from .constants import is_constant
from .operands import scalar_reader, vector_reader
from .scalar_results import write_scalar
from .vop import destination, result_row, source_half

U32 = np.uint32
_LANE = np.arange(LANES)


@semantics("VOP1 VOP3", "v_readfirstlane_b32")
def _readfirstlane(instruction: Instruction) -> Step:
    """D0 = the value of the lowest active lane, of lane 0 if none is."""
    number, register = instruction["src0"], instruction["vdst"]
    if number < VGPR:
        read = scalar_reader(instruction, number, "u32")
        return lambda g: write_scalar(g, register, "u32", read(g))
    source = number - VGPR

    def run(g: Group) -> None:
        lane = 0 if g.mask is True else g.mask.argmax(axis=1)
        write_scalar(g, register, "u32", g.u[source][np.arange(g.count), lane])

    return run


def _lane_selector(instruction: Instruction):
    """The lane named by the second source, one a wave; a plain number where it is a constant."""
    number = instruction["src1"]
    read = scalar_reader(instruction, number, "u32")
    if is_constant(number):
        return int(read(None)) & 31, None
    return None, lambda g: (read(g) & U32(31)).astype(np.intp)


@semantics("VOP3", "v_readlane_b32")
def _readlane(instruction: Instruction) -> Step:
    source, register = instruction["src0"] - VGPR, instruction["vdst"]
    fixed, lane = _lane_selector(instruction)
    if fixed is not None:
        return lambda g: write_scalar(g, register, "u32", g.u[source][:, fixed])
    return lambda g: write_scalar(g, register, "u32", g.u[source][np.arange(g.count), lane(g)])


@semantics("VOP3", "v_writelane_b32")
def _writelane(instruction: Instruction) -> Step:
    """VGPR[lane][D0] = S0, whatever EXEC says."""
    register = instruction["vdst"] - VGPR
    value = scalar_reader(instruction, instruction["src0"], "u32")
    fixed, lane = _lane_selector(instruction)

    def run(g: Group) -> None:
        if fixed is not None:
            g.u[register][:, fixed] = value(g)
        else:
            g.u[register][np.arange(g.count), lane(g)] = value(g)

    return run


@semantics("VOP3", "v_permlane16_b32", "v_permlanex16_b32")
def _permlane16(instruction: Instruction) -> Step:
    """Any permutation within rows of 16, of the other row for `x`; 4 bits a lane in {S2, S1}."""
    source, register = instruction["src0"] - VGPR, instruction["vdst"] - VGPR
    numbers = [instruction["src1"], instruction["src2"]]
    row = (_LANE & 16) ^ (16 if "permlanex" in instruction.opcode else 0)
    low, high = (scalar_reader(instruction, number, "u32") for number in numbers)
    fetch_inactive = bool(instruction.get("opsel") & 1)

    def plan(words: np.ndarray) -> np.ndarray:
        picks = words[..., _LANE // 8 % 2] >> (4 * (_LANE % 8)).astype(U32) & U32(15)
        return row + picks.astype(np.intp)

    constant_plan = None
    if all(is_constant(number) for number in numbers):
        constant_plan = plan(np.array([low(None), high(None)], U32))

    def run(g: Group) -> None:
        if constant_plan is not None:
            moved = g.u[source].take(constant_plan, axis=1)
            readable = True if g.mask is True else g.mask[:, constant_plan]
        else:
            words = np.empty((g.count, 2), U32)
            words[:, 0], words[:, 1] = low(g), high(g)
            picks = plan(words)
            moved = np.take_along_axis(g.u[source], picks, axis=1)
            readable = True if g.mask is True else np.take_along_axis(g.mask, picks, axis=1)
        where = g.mask
        if where is not True and not fetch_inactive:
            where = where & readable
        np.copyto(g.u[register], moved, where=where)

    return run


@semantics("VOP3", "v_permlane16_var_b32", "v_permlanex16_var_b32")
def _permlane16_var(instruction: Instruction) -> Step:
    """The same with each lane's own selector in S1."""
    source, register = instruction["src0"] - VGPR, instruction["vdst"] - VGPR
    selector = vector_reader(instruction, instruction["src1"], "u32")
    row = (_LANE & 16) ^ (16 if "permlanex" in instruction.opcode else 0)

    def run(g: Group) -> None:
        picks = row + (selector(g) & U32(15)).astype(np.intp)
        np.copyto(g.u[register], np.take_along_axis(g.u[source], picks, axis=1), where=g.mask)

    return run


@semantics("VOP1", "v_swap_b32", "v_swap_b16")
def _swap(instruction: Instruction) -> Step:
    kind = "u" + instruction.opcode[-2:]
    target = result_row(kind, *destination(instruction, kind))
    number = instruction["src0"]
    half = source_half(instruction, 0, number) if kind == "u16" else 0
    other = result_row(kind, number - VGPR & (0x7F if kind == "u16" else 0xFF), half)

    def run(g: Group) -> None:
        first, second = target(g), other(g)
        before = first.copy()
        np.copyto(first, second, where=g.mask)
        np.copyto(second, before, where=g.mask)

    return run


@semantics("VOP1", "v_movrels_b32", "v_movreld_b32")
def _relative(_instruction: Instruction) -> Step:
    raise Refused("registers addressed through M0")


__all__ = ["EXEC"]
