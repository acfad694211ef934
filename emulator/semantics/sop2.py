"""Scalar ALU with two sources: SOP2 (RDNA4 ISA, 'Scalar ALU Operations').

Each function is the pseudocode's body on arrays `[waves]`.
"""

from __future__ import annotations

import numpy as np

from ..instruction import Instruction
from ..registry import Step, add, semantics
from ..state import Group
from .float_math import exact_fma, maximum, maximum_num, minimum, minimum_num, to_float16_toward_zero
from .integer_math import (
    bit_field_mask,
    extract_signed,
    extract_unsigned,
    multiply_high_signed,
    multiply_high_unsigned,
)
from .operands import scalar_reader
from .scalar_results import scalar_step

U32, U64 = np.uint32, np.uint64


def _add_co_u32(a, b, _g):
    total = a + b
    return total, total < a


def _sub_co_u32(a, b, _g):
    return a - b, b > a


def add_co_i32(a, b, _g):
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_co_i32(a, b, _g):
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)) < 0


def _add_co_ci_u32(a, b, g):
    total = np.asarray(a, U64) + np.asarray(b, U64) + g.scc
    return total.astype(U32), total >> U64(32) != 0


def _sub_co_ci_u32(a, b, g):
    borrow = g.scc.astype(U64)
    return (a - b - borrow.astype(U32)).astype(U32), np.asarray(b, U64) + borrow > np.asarray(a, U64)


def _shift_add(amount: int):
    def run(a, b, _g):
        total = (np.asarray(a, U64) << U64(amount)) + np.asarray(b, U64)
        return total.astype(U32), total >> U64(32) != 0

    return run


def _select(better, pick):
    """s_min and s_max: SCC says whether the first source was taken."""

    def run(a, b, _g):
        return pick(a, b), better(a, b)

    return run


def _absdiff(a, b, _g):
    difference = np.abs(a - b)
    return difference, difference != 0


def _shift(operator, bits: int, dtype):
    return lambda a, b, _g: operator(a, (b & U32(bits - 1)).astype(dtype))


def _plain(function):
    """A function of the sources alone."""
    return lambda a, b, _g: function(a, b)


def _pack(low_half: int, high_half: int):
    def run(a, b, _g):
        low = (a >> U32(16 * low_half)) & U32(0xFFFF)
        return low | ((b >> U32(16 * high_half)) << U32(16))

    return run


def _bfe_u32(a, b, _g):
    return extract_unsigned(a, b & U32(31), (b >> U32(16)) & U32(0x7F))


def _bfe_i32(a, b, _g):
    return extract_signed(a, b & U32(31), (b >> U32(16)) & U32(0x7F))


def _bfe_u64(a, b, _g):
    return extract_unsigned(a, (b & U32(63)).astype(U64), ((b >> U32(16)) & U32(0x7F)).astype(U64))


def _bfe_i64(a, b, _g):
    return extract_signed(a, (b & U32(63)).astype(U64), ((b >> U32(16)) & U32(0x7F)).astype(U64))


def _cvt_pk_rtz(a, b, _g):
    low, high = (np.atleast_1d(to_float16_toward_zero(x)).view(np.uint16).astype(U32) for x in (a, b))
    return low | high << U32(16)


def _logic(name: str, function) -> dict:
    return {f"s_{name}_b{bits}": (_plain(function), f"u{bits}", f"u{bits}", "nonzero") for bits in (32, 64)}


# opcode -> (function of (a, b, group), kind of the result and first source, kind of the second source, rule for SCC)
_SOP2 = {
    "s_add_co_u32": (_add_co_u32, "u32", "u32", "given"),
    "s_sub_co_u32": (_sub_co_u32, "u32", "u32", "given"),
    "s_add_co_i32": (add_co_i32, "i32", "i32", "given"),
    "s_sub_co_i32": (_sub_co_i32, "i32", "i32", "given"),
    "s_add_co_ci_u32": (_add_co_ci_u32, "u32", "u32", "given"),
    "s_sub_co_ci_u32": (_sub_co_ci_u32, "u32", "u32", "given"),
    "s_absdiff_i32": (_absdiff, "i32", "i32", "given"),
    "s_lshl_b32": (_shift(np.left_shift, 32, U32), "u32", "u32", "nonzero"),
    "s_lshl_b64": (_shift(np.left_shift, 64, U64), "u64", "u32", "nonzero"),
    "s_lshr_b32": (_shift(np.right_shift, 32, U32), "u32", "u32", "nonzero"),
    "s_lshr_b64": (_shift(np.right_shift, 64, U64), "u64", "u32", "nonzero"),
    "s_ashr_i32": (_shift(np.right_shift, 32, np.int32), "i32", "u32", "nonzero"),
    "s_ashr_i64": (_shift(np.right_shift, 64, np.int64), "i64", "u32", "nonzero"),
    **{f"s_lshl{n}_add_u32": (_shift_add(n), "u32", "u32", "given") for n in (1, 2, 3, 4)},
    "s_min_i32": (_select(np.less, np.minimum), "i32", "i32", "given"),
    "s_min_u32": (_select(np.less, np.minimum), "u32", "u32", "given"),
    "s_max_i32": (_select(np.greater_equal, np.maximum), "i32", "i32", "given"),
    "s_max_u32": (_select(np.greater_equal, np.maximum), "u32", "u32", "given"),
    **_logic("and", np.bitwise_and),
    **_logic("or", np.bitwise_or),
    **_logic("xor", np.bitwise_xor),
    **_logic("nand", lambda a, b: ~(a & b)),
    **_logic("nor", lambda a, b: ~(a | b)),
    **_logic("xnor", lambda a, b: ~(a ^ b)),
    **_logic("and_not1", lambda a, b: a & ~b),
    **_logic("or_not1", lambda a, b: a | ~b),
    "s_bfe_u32": (_bfe_u32, "u32", "u32", "nonzero"),
    "s_bfe_i32": (_bfe_i32, "i32", "u32", "nonzero"),
    "s_bfe_u64": (_bfe_u64, "u64", "u32", "nonzero"),
    "s_bfe_i64": (_bfe_i64, "i64", "u32", "nonzero"),
    "s_bfm_b32": (_plain(bit_field_mask), "u32", "u32", "kept"),
    "s_mul_i32": (_plain(np.multiply), "i32", "i32", "kept"),
    "s_mul_hi_u32": (_plain(multiply_high_unsigned), "u32", "u32", "kept"),
    "s_mul_hi_i32": (_plain(multiply_high_signed), "i32", "i32", "kept"),
    "s_add_nc_u64": (_plain(np.add), "u64", "u64", "kept"),
    "s_sub_nc_u64": (_plain(np.subtract), "u64", "u64", "kept"),
    "s_mul_u64": (_plain(np.multiply), "u64", "u64", "kept"),
    "s_cselect_b32": (lambda a, b, g: np.where(g.scc, a, b), "u32", "u32", "kept"),
    "s_cselect_b64": (lambda a, b, g: np.where(g.scc, a, b), "u64", "u64", "kept"),
    "s_pack_ll_b32_b16": (_pack(0, 0), "u32", "u32", "kept"),
    "s_pack_lh_b32_b16": (_pack(0, 1), "u32", "u32", "kept"),
    "s_pack_hh_b32_b16": (_pack(1, 1), "u32", "u32", "kept"),
    "s_pack_hl_b32_b16": (_pack(1, 0), "u32", "u32", "kept"),
    **{
        f"s_{name}_{kind}": (_plain(function), kind, kind, "kept")
        for kind in ("f32", "f16")
        for name, function in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("min_num", minimum_num),
            ("max_num", maximum_num),
            ("minimum", minimum),
            ("maximum", maximum),
        )
    },
}


def _make_sop2(instruction: Instruction) -> Step:
    function, kind, second, rule = _SOP2[instruction.opcode]
    a = scalar_reader(instruction, instruction["ssrc0"], kind)
    b = scalar_reader(instruction, instruction["ssrc1"], second)
    return scalar_step(lambda g: function(a(g), b(g), g), kind, instruction["sdst"], rule)


add("SOP2", _SOP2, _make_sop2)


@semantics("SOP2", "s_bfm_b64")
def _bfm_b64(instruction: Instruction) -> Step:
    a = scalar_reader(instruction, instruction["ssrc0"], "u32")
    b = scalar_reader(instruction, instruction["ssrc1"], "u32")
    one = U64(1)

    def compute(g: Group) -> np.ndarray:
        size, shift = np.asarray(a(g), U64) & U64(63), np.asarray(b(g), U64) & U64(63)
        return ((one << size) - one) << shift

    return scalar_step(compute, "u64", instruction["sdst"], "kept")


@semantics("SOP2", "s_cvt_pk_rtz_f16_f32")
def _cvt_pk_rtz_f16_f32(instruction: Instruction) -> Step:
    a = scalar_reader(instruction, instruction["ssrc0"], "f32")
    b = scalar_reader(instruction, instruction["ssrc1"], "f32")
    return scalar_step(lambda g: _cvt_pk_rtz(a(g), b(g), g), "u32", instruction["sdst"], "kept")


@semantics("SOP2", "s_fmac_f32", "s_fmac_f16", "s_fmaak_f32", "s_fmamk_f32")
def _fused(instruction: Instruction) -> Step:
    """D0 = fma(S0, S1, D0), fma(S0, S1, literal) or fma(S0, literal, S1)."""
    kind = instruction.opcode[-3:]
    register = instruction["sdst"]
    a = scalar_reader(instruction, instruction["ssrc0"], kind)
    b = scalar_reader(instruction, instruction["ssrc1"], kind)
    if "fmac" in instruction.opcode:
        c = scalar_reader(instruction, register, kind)
    else:
        c = scalar_reader(instruction, 255, kind)
    if "fmamk" in instruction.opcode:
        b, c = c, b
    return scalar_step(lambda g: exact_fma(a(g), b(g), c(g)), kind, register, "kept")
