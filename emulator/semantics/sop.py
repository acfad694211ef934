"""Scalar ALU: SOP1, SOP2, SOPC, SOPK (RDNA4 ISA, 'Scalar ALU Operations').

Each function is the pseudocode's body on arrays `[waves]`.  `SCC = D0 != 0` is the rule `nonzero`; other rules are
given by a function that returns both the result and the new SCC.
"""

from __future__ import annotations

import numpy as np

from ..instruction import EXEC, NULL, Instruction
from ..registry import Refused, Step, add, semantics
from ..state import Group
from .constants import width
from .float_math import (
    exact_fma,
    float_to_int,
    maximum,
    maximum_num,
    minimum,
    minimum_num,
    to_float16_toward_zero,
)
from .integer_math import (
    bit_count,
    bit_field_mask,
    extract_signed,
    extract_unsigned,
    leading_sign_bits,
    leading_zeros,
    multiply_high_signed,
    multiply_high_unsigned,
    reverse_bits,
    trailing_zeros,
)
from .operands import Reader, scalar_reader

U32, U64 = np.uint32, np.uint64


def write_scalar(g: Group, register: int, kind: str, value: np.ndarray) -> None:
    """Write a scalar register or an aligned pair; NULL swallows it, EXEC takes effect at once."""
    if register == NULL:
        return
    if width(kind) == 64:
        g.s64[register][...] = value.view(U64)
    elif kind == "i32":
        g.si[register][...] = value
    elif kind == "f32":
        g.sf[register][...] = value
    elif width(kind) == 16:
        # A 16-bit scalar result fills the register (RDNA4 ISA: 'D0[31:16] = 0' for scalar half floats).
        g.s[register][...] = value.view(np.uint16)
    else:
        g.s[register][...] = value
    if register == EXEC:
        g.refresh_exec()


def _add_co_u32(a, b, g):
    total = a + b
    return total, total < a


def _sub_co_u32(a, b, g):
    return a - b, b > a


def _add_co_i32(a, b, g):
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_co_i32(a, b, g):
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)) < 0


def _add_co_ci_u32(a, b, g):
    total = np.asarray(a, U64) + np.asarray(b, U64) + g.scc
    return total.astype(U32), total >> U64(32) != 0


def _sub_co_ci_u32(a, b, g):
    borrow = g.scc.astype(U64)
    return (a - b - borrow.astype(U32)).astype(U32), np.asarray(b, U64) + borrow > np.asarray(a, U64)


def _shift_add(amount: int):
    def run(a, b, g):
        total = (np.asarray(a, U64) << U64(amount)) + np.asarray(b, U64)
        return total.astype(U32), total >> U64(32) != 0

    return run


def _select(better, pick):
    """s_min and s_max: SCC says whether the first source was taken."""

    def run(a, b, g):
        return pick(a, b), better(a, b)

    return run


def _absdiff(a, b, g):
    difference = np.abs(a - b)
    return difference, difference != 0


def _shift(operator, bits: int, dtype):
    return lambda a, b, g: operator(a, (b & U32(bits - 1)).astype(dtype))


def _plain(function):
    """A function of the sources alone."""
    return lambda a, b, g: function(a, b)


def _pack(low_half: int, high_half: int):
    def run(a, b, g):
        low = (a >> U32(16 * low_half)) & U32(0xFFFF)
        return low | ((b >> U32(16 * high_half)) << U32(16))

    return run


def _bfe_u32(a, b, g):
    return extract_unsigned(a, b & U32(31), (b >> U32(16)) & U32(0x7F))


def _bfe_i32(a, b, g):
    return extract_signed(a, b & U32(31), (b >> U32(16)) & U32(0x7F))


def _bfe_u64(a, b, g):
    return extract_unsigned(a, (b & U32(63)).astype(U64), ((b >> U32(16)) & U32(0x7F)).astype(U64))


def _bfe_i64(a, b, g):
    return extract_signed(a, (b & U32(63)).astype(U64), ((b >> U32(16)) & U32(0x7F)).astype(U64))


def _cvt_pk_rtz(a, b, g):
    low, high = (np.atleast_1d(to_float16_toward_zero(x)).view(np.uint16).astype(U32) for x in (a, b))
    return low | high << U32(16)


def _logic(name: str, function) -> dict:
    return {f"s_{name}_b{bits}": (_plain(function), f"u{bits}", f"u{bits}", "nonzero") for bits in (32, 64)}


# opcode -> (function of (a, b, group), kind of the result and first source, kind of the second source, rule for SCC)
_SOP2 = {
    "s_add_co_u32": (_add_co_u32, "u32", "u32", "given"),
    "s_sub_co_u32": (_sub_co_u32, "u32", "u32", "given"),
    "s_add_co_i32": (_add_co_i32, "i32", "i32", "given"),
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
    return _scalar_step(lambda g: function(a(g), b(g), g), kind, instruction["sdst"], rule)


def _scalar_step(compute, kind: str, register: int, rule: str) -> Step:
    if rule == "given":

        def run(g: Group) -> None:
            value, condition = compute(g)
            write_scalar(g, register, kind, value)
            g.scc[...] = condition

    elif rule == "nonzero":

        def run(g: Group) -> None:
            value = compute(g)
            g.scc[...] = value != 0
            write_scalar(g, register, kind, value)

    else:

        def run(g: Group) -> None:
            write_scalar(g, register, kind, compute(g))

    return run


add("SOP2", _SOP2, _make_sop2)


@semantics("SOP2", "s_bfm_b64")
def _bfm_b64(instruction: Instruction) -> Step:
    a = scalar_reader(instruction, instruction["ssrc0"], "u32")
    b = scalar_reader(instruction, instruction["ssrc1"], "u32")
    one = U64(1)

    def compute(g: Group) -> np.ndarray:
        size, shift = np.asarray(a(g), U64) & U64(63), np.asarray(b(g), U64) & U64(63)
        return ((one << size) - one) << shift

    return _scalar_step(compute, "u64", instruction["sdst"], "kept")


@semantics("SOP2", "s_cvt_pk_rtz_f16_f32")
def _cvt_pk_rtz_f16_f32(instruction: Instruction) -> Step:
    a = scalar_reader(instruction, instruction["ssrc0"], "f32")
    b = scalar_reader(instruction, instruction["ssrc1"], "f32")
    return _scalar_step(lambda g: _cvt_pk_rtz(a(g), b(g), g), "u32", instruction["sdst"], "kept")


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
    return _scalar_step(lambda g: exact_fma(a(g), b(g), c(g)), kind, register, "kept")


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
    return _scalar_step(lambda g: function(a(g)), kind, instruction["sdst"], rule)


add("SOP1", _SOP1, _make_sop1)


@semantics("SOP1", "s_cmov_b32", "s_cmov_b64")
def _cmov(instruction: Instruction) -> Step:
    kind = "u" + instruction.opcode[-2:]
    a = scalar_reader(instruction, instruction["ssrc0"], kind)
    old = scalar_reader(instruction, instruction["sdst"], kind)
    return _scalar_step(lambda g: np.where(g.scc, a(g), old(g)), kind, instruction["sdst"], "kept")


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

    return _scalar_step(compute, kind, instruction["sdst"], "kept")


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


_COMPARE = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def float_relation(name: str):
    """One of the sixteen float comparisons (RDNA4 ISA, 'VOPC'): `n…` is the negation, true for NaN; `lg` is false."""
    if name == "o":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "u":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name == "lg":
        return lambda a, b: (a < b) | (a > b)
    if name == "nlg":
        return lambda a, b: ~((a < b) | (a > b))
    if name == "neq":
        return np.not_equal
    if name in _COMPARE:
        return _COMPARE[name]
    positive = _COMPARE[name.removeprefix("n")]
    return lambda a, b: ~positive(a, b)


FLOAT_RELATIONS = ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt")


def _compare_step(function, a: Reader, b: Reader) -> Step:
    def run(g: Group) -> None:
        g.scc[...] = function(a(g), b(g))

    return run


@semantics(
    "SOPC",
    *(f"s_cmp_{name}_{kind}" for name in _COMPARE for kind in ("i32", "u32")),
    *(f"s_cmp_{name}_{kind}" for name in FLOAT_RELATIONS for kind in ("f32", "f16")),
    "s_cmp_eq_u64",
    "s_cmp_lg_u64",
)
def _compare(instruction: Instruction) -> Step:
    name, kind = instruction.opcode.removeprefix("s_cmp_").rsplit("_", 1)
    function = float_relation(name) if kind.startswith("f") else _COMPARE[name]
    a, b = (scalar_reader(instruction, instruction[role], kind) for role in ("ssrc0", "ssrc1"))
    return _compare_step(function, a, b)


@semantics("SOPC", "s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def _bitcmp(instruction: Instruction) -> Step:
    bits, wanted = int(instruction.opcode[-2:]), int(instruction.opcode[len("s_bitcmp")])
    dtype = np.dtype(f"u{bits // 8}").type
    a = scalar_reader(instruction, instruction["ssrc0"], f"u{bits}")
    b = scalar_reader(instruction, instruction["ssrc1"], "u32")
    return _compare_step(lambda x, y: (x >> np.asarray(y & U32(bits - 1), dtype)) & dtype(1) == wanted, a, b)


def _immediate(instruction: Instruction) -> np.int32:
    return np.uint16(instruction["simm16"]).astype(np.uint16).view(np.int16).astype(np.int32)


@semantics("SOPK", "s_movk_i32", "s_cmovk_i32", "s_mulk_i32", "s_addk_co_i32")
def _sopk(instruction: Instruction) -> Step:
    value, register = _immediate(instruction), instruction["sdst"]
    old = scalar_reader(instruction, register, "i32")
    match instruction.opcode:
        case "s_movk_i32":
            return _scalar_step(lambda g: value, "i32", register, "kept")
        case "s_cmovk_i32":
            return _scalar_step(lambda g: np.where(g.scc, value, old(g)), "i32", register, "kept")
        case "s_mulk_i32":
            return _scalar_step(lambda g: old(g) * value, "i32", register, "kept")
    return _scalar_step(lambda g: _add_co_i32(old(g), value, g), "i32", register, "given")


@semantics("SOPK", "s_version")
def _nothing(instruction: Instruction) -> Step:
    return lambda g: None


@semantics("SOPK", "s_setreg_imm32_b32", "s_setreg_b32")
def _setreg(instruction: Instruction) -> Step:
    """Only the mode register's bits that the emulator does not model (exceptions, scheduling) may be written."""
    register = instruction["simm16"] & 63
    if register == 1 and (instruction["simm16"] >> 6 & 31) < 8:
        raise Refused("changes the rounding or denormal mode")
    return lambda g: None
