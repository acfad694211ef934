"""Scalar ALU with a 16-bit immediate: SOPK (RDNA4 ISA, 'Scalar ALU Operations')."""

from __future__ import annotations

import numpy as np

from ..instruction import Instruction
from ..registry import Refused, Step, semantics
from .operands import scalar_reader
from .scalar_results import scalar_step
from .sop2 import add_co_i32


def _immediate(instruction: Instruction) -> np.int32:
    return np.uint16(instruction["simm16"]).astype(np.uint16).view(np.int16).astype(np.int32)


@semantics("SOPK", "s_movk_i32", "s_cmovk_i32", "s_mulk_i32", "s_addk_co_i32")
def _sopk(instruction: Instruction) -> Step:
    value, register = _immediate(instruction), instruction["sdst"]
    old = scalar_reader(instruction, register, "i32")
    match instruction.opcode:
        case "s_movk_i32":
            return scalar_step(lambda _g: value, "i32", register, "kept")
        case "s_cmovk_i32":
            return scalar_step(lambda g: np.where(g.scc, value, old(g)), "i32", register, "kept")
        case "s_mulk_i32":
            return scalar_step(lambda g: old(g) * value, "i32", register, "kept")
    return scalar_step(lambda g: add_co_i32(old(g), value, g), "i32", register, "given")


@semantics("SOPK", "s_version")
def _nothing(_instruction: Instruction) -> Step:
    return lambda _g: None


@semantics("SOPK", "s_setreg_imm32_b32", "s_setreg_b32")
def _setreg(instruction: Instruction) -> Step:
    """Only the mode register's bits that the emulator does not model (exceptions, scheduling) may be written."""
    register = instruction["simm16"] & 63
    if register == 1 and (instruction["simm16"] >> 6 & 31) < 8:
        raise Refused("changes the rounding or denormal mode")
    return lambda _g: None
