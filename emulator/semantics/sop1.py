"""Scalar ALU with one source: SOP1 (RDNA4 ISA, 'Scalar ALU Operations')."""

from __future__ import annotations

import numpy as np

from ..instruction import EXEC, NULL, Instruction
from ..registry import Step, add, semantics
from ..state import Group
from .float_math import float_to_int
from .integer_math import bit_count, leading_sign_bits, leading_zeros, reverse_bits, trailing_zeros
from .operands import scalar_reader
from .scalar_results import scalar_step, write_scalar

U32, U64 = np.uint32, np.uint64


def _sext(bits: int):
    shift = np.int32(32 - bits)
    return lambda a: (a << shift) >> shift


def _quad_masks(a: np.ndarray) -> np.ndarray:
    """One bit for each group of four bits, set where the group is not zero."""
    result = np.zeros_like(a)
    for quad in range(8):
        result |= ((a >> U32(4 * quad) & U32(15)) != 0).astype(U32) << U32(quad)
    return result


def _whole_quads(a: np.ndarray) -> np.ndarray:
    result = np.zeros_like(a)
    for quad in range(8):
        result |= np.where((a >> U32(4 * quad) & U32(15)) != 0, U32(15), U32(0)) << U32(4 * quad)
    return result


def _replicate(a: np.ndarray) -> np.ndarray:
    """s_bitreplicate_b64_b32: each bit twice."""
    result = np.zeros(np.shape(a), U64)
    for bit in range(32):
        result |= ((np.asarray(a, U64) >> U64(bit)) & U64(1)) * U64(3) << U64(2 * bit)
    return result


# opcode -> (function, kind of the source, kind of the result, rule for SCC)
_SOP1 = {
    "s_mov_b32": (lambda a: a, "u32", "u32", "kept"),
    "s_mov_b64": (lambda a: a, "u64", "u64", "kept"),
    "s_brev_b32": (reverse_bits, "u32", "u32", "kept"),
    "s_brev_b64": (reverse_bits, "u64", "u64", "kept"),
    "s_ctz_i32_b32": (trailing_zeros, "u32", "i32", "kept"),
    "s_ctz_i32_b64": (trailing_zeros, "u64", "i32", "kept"),
    "s_clz_i32_u32": (leading_zeros, "u32", "i32", "kept"),
    "s_clz_i32_u64": (leading_zeros, "u64", "i32", "kept"),
    "s_cls_i32": (leading_sign_bits, "u32", "i32", "kept"),
    "s_cls_i32_i64": (leading_sign_bits, "u64", "i32", "kept"),
    "s_sext_i32_i8": (_sext(8), "i32", "i32", "kept"),
    "s_sext_i32_i16": (_sext(16), "i32", "i32", "kept"),
    "s_abs_i32": (np.abs, "i32", "i32", "nonzero"),
    "s_bcnt0_i32_b32": (lambda a: np.int32(32) - bit_count(a), "u32", "i32", "nonzero"),
    "s_bcnt0_i32_b64": (lambda a: np.int32(64) - bit_count(a), "u64", "i32", "nonzero"),
    "s_bcnt1_i32_b32": (bit_count, "u32", "i32", "nonzero"),
    "s_bcnt1_i32_b64": (bit_count, "u64", "i32", "nonzero"),
    "s_quadmask_b32": (_quad_masks, "u32", "u32", "nonzero"),
    "s_wqm_b32": (_whole_quads, "u32", "u32", "nonzero"),
    "s_not_b32": (np.invert, "u32", "u32", "nonzero"),
    "s_not_b64": (np.invert, "u64", "u64", "nonzero"),
    "s_bitreplicate_b64_b32": (_replicate, "u32", "u64", "kept"),
    "s_ceil_f32": (np.ceil, "f32", "f32", "kept"),
    "s_floor_f32": (np.floor, "f32", "f32", "kept"),
    "s_trunc_f32": (np.trunc, "f32", "f32", "kept"),
    "s_rndne_f32": (np.rint, "f32", "f32", "kept"),
    "s_ceil_f16": (np.ceil, "f16", "f16", "kept"),
    "s_floor_f16": (np.floor, "f16", "f16", "kept"),
    "s_trunc_f16": (np.trunc, "f16", "f16", "kept"),
    "s_rndne_f16": (np.rint, "f16", "f16", "kept"),
    "s_cvt_f32_i32": (lambda a: np.float32(a), "i32", "f32", "kept"),
    "s_cvt_f32_u32": (lambda a: np.float32(a), "u32", "f32", "kept"),
    "s_cvt_i32_f32": (lambda a: float_to_int(a, np.int32), "f32", "i32", "kept"),
    "s_cvt_u32_f32": (lambda a: float_to_int(a, U32), "f32", "u32", "kept"),
    "s_cvt_f16_f32": (lambda a: np.float16(a), "f32", "f16", "kept"),
    "s_cvt_f32_f16": (lambda a: np.float32(a), "f16", "f32", "kept"),
    "s_cvt_hi_f32_f16": (
        lambda a: np.float32(np.asarray(a >> U32(16), np.uint16).view(np.float16)),
        "u32",
        "f32",
        "kept",
    ),
}


def _make_sop1(instruction: Instruction) -> Step:
    function, source, kind, rule = _SOP1[instruction.opcode]
    a = scalar_reader(instruction, instruction["ssrc0"], source)
    return scalar_step(lambda g: function(a(g)), kind, instruction["sdst"], rule)


add("SOP1", _SOP1, _make_sop1)


@semantics("SOP1", "s_cmov_b32", "s_cmov_b64")
def _cmov(instruction: Instruction) -> Step:
    kind = "u" + instruction.opcode[-2:]
    a = scalar_reader(instruction, instruction["ssrc0"], kind)
    old = scalar_reader(instruction, instruction["sdst"], kind)
    return scalar_step(lambda g: np.where(g.scc, a(g), old(g)), kind, instruction["sdst"], "kept")


@semantics("SOP1", "s_bitset0_b32", "s_bitset1_b32", "s_bitset0_b64", "s_bitset1_b64")
def _bitset(instruction: Instruction) -> Step:
    bits = int(instruction.opcode[-2:])
    kind, dtype = f"u{bits}", np.dtype(f"u{bits // 8}").type
    a = scalar_reader(instruction, instruction["ssrc0"], "u32")
    old = scalar_reader(instruction, instruction["sdst"], kind)
    ones = "bitset1" in instruction.opcode

    def compute(g: Group) -> np.ndarray:
        bit = dtype(1) << np.asarray(a(g) & U32(bits - 1), dtype)
        return old(g) | bit if ones else old(g) & ~bit

    return scalar_step(compute, kind, instruction["sdst"], "kept")


_SAVE_EXEC = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "and_not0": lambda s, e: ~s & e,
    "or_not0": lambda s, e: ~s | e,
    "and_not1": lambda s, e: s & ~e,
    "or_not1": lambda s, e: s | ~e,
}


@semantics("SOP1", *(f"s_{name}_saveexec_b32" for name in _SAVE_EXEC))
def _saveexec(instruction: Instruction) -> Step:
    """saveexec = EXEC; EXEC = op(S0, EXEC); D0 = saveexec; SCC = EXEC != 0."""
    function = _SAVE_EXEC[instruction.opcode.removeprefix("s_").removesuffix("_saveexec_b32")]
    a = scalar_reader(instruction, instruction["ssrc0"], "u32")
    register = instruction["sdst"]

    def run(g: Group) -> None:
        new = function(a(g), g.s[EXEC])
        if register != NULL:
            g.s[register][...] = g.s[EXEC]
        g.s[EXEC][...] = new
        np.not_equal(new, 0, out=g.scc)
        g.refresh_exec()

    return run


@semantics("SOP1", "s_and_not0_wrexec_b32", "s_and_not1_wrexec_b32")
def _wrexec(instruction: Instruction) -> Step:
    """EXEC = op(S0, EXEC); D0 = EXEC; SCC = EXEC != 0."""
    function = _SAVE_EXEC["and_not0" if "not0" in instruction.opcode else "and_not1"]
    a = scalar_reader(instruction, instruction["ssrc0"], "u32")
    register = instruction["sdst"]

    def run(g: Group) -> None:
        new = function(a(g), g.s[EXEC])
        g.s[EXEC][...] = new
        write_scalar(g, register, "u32", new)
        np.not_equal(new, 0, out=g.scc)
        g.refresh_exec()

    return run
