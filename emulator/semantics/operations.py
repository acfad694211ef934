"""What the vector ALU computes: one line an operation, shared by VOP1, VOP2, VOP3, VOPD and their DPP forms.

`sources` and `result` are kinds: `f32` a float in one register, `u16` an integer in half of one, `u64` a pair of
registers.  Functions take arrays of these dtypes and return one that fits the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..float_formats import (
    E4M3_TO_F32,
    E5M2_TO_F32,
    f32_to_f16_toward_zero,
)
from . import division
from . import float_math as fm
from . import integer_math as im

U16, U32, U64, I16, I32, I64 = np.uint16, np.uint32, np.uint64, np.int16, np.int32, np.int64


@dataclass(frozen=True, slots=True)
class Operation:
    """`in_place`: `function` is a ufunc, so it can write its result where it belongs.  `clamp` names what the clamp
    modifier does: nothing known, `float` (to 0…1) or the function that saturates.
    """

    function: Callable
    sources: tuple[str, ...]
    result: str
    in_place: bool = False
    saturating: Callable | None = None


def _op(function, kinds: str, saturating=None) -> Operation:
    """`kinds` as in `f32 f32 > f32`."""
    sources, result = kinds.split(">")
    return Operation(function, tuple(sources.split()), result.strip(), isinstance(function, np.ufunc), saturating)


def _reversed(function):
    return lambda a, b: function(b, a)


def _shift(operator, bits: int):
    """Shifts of the `rev` kind: S0 is the amount, of which the low bits count."""

    def run(amount, value):
        amount = amount & amount.dtype.type(bits - 1)
        return operator(value, amount.astype(value.dtype))

    return run


def _saturate(operator, wide: type):
    """Integer addition or subtraction that stays at the limits of the type: CLMP of integer operations."""

    def run(a, b):
        dtype = np.asarray(a).dtype
        limits = np.iinfo(dtype)
        return np.clip(operator(np.asarray(a, wide), np.asarray(b, wide)), limits.min, limits.max).astype(dtype)

    return run


def _wide(operator):
    return _saturate(operator, I64)


def _fold(function):
    return lambda a, b, c: function(function(a, b), c)


def _chain(first, second):
    return lambda a, b, c: second(first(a, b), c)


def _byte(number: int):
    return lambda a: (a >> U32(8 * number) & U32(0xFF)).astype(np.float32)


def _lane_count(half: int):
    """v_mbcnt: how many bits of S0 stand for lanes below one's own, plus S1. Lanes 32 and up do not exist here."""
    below = (U64(1) << np.arange(32, dtype=U64)) - U64(1)
    mask = below.astype(U32) if half == 0 else np.zeros(32, U32)
    return lambda a, b: np.bitwise_count(a & mask).astype(U32) + b


def _fp8_pair(table):
    """v_cvt_pk_f32_fp8: the two codes of one half of a register to two floats, as one 64-bit number."""

    def run(codes):
        pair = np.empty((*codes.shape, 2), np.float32)
        pair[..., 0] = table.take(codes & U16(0xFF))
        pair[..., 1] = table.take(codes >> U16(8))
        return pair.view(U64)[..., 0]

    return run


def _alignbit(step: int, mask: int):
    def run(high, low, amount):
        both = np.asarray(high, U64) << U64(32) | np.asarray(low, U64)
        return (both >> ((np.asarray(amount, U64) & U64(mask)) * U64(step))).astype(U32)

    return run


def _bfi(mask, a, b):
    return (mask & a) | (~mask & b)


def _narrow_pair(dtype):
    """v_cvt_pk_i16_i32 and its like: both sources saturated to 16 bits, the first in the lower half."""

    def run(a, b):
        limits = np.iinfo(dtype)
        low, high = (np.clip(np.asarray(x), limits.min, limits.max).astype(dtype) for x in (a, b))
        return im.join_halves(low, high)

    return run


def _float_pair(dtype):
    return lambda a, b: im.join_halves(fm.float_to_int(a, dtype), fm.float_to_int(b, dtype))


def _half_pair_toward_zero(a, b):
    low, high = (np.asarray(f32_to_f16_toward_zero(x)) for x in (a, b))
    return im.join_halves(low, high)


def _u24(a):
    return np.asarray(a & U32(0xFFFFFF), U64)


def _i24(a):
    return np.asarray((a << I32(8)) >> I32(8), I64)


def _saturated_bytes(a):
    """v_sat_pk_u8_i16: two signed 16-bit numbers to two bytes."""
    low, high = ((a << U32(16 * (1 - half))).view(I32) >> I32(16) for half in (0, 1))
    return (np.clip(low, 0, 255) | np.clip(high, 0, 255) << 8).astype(U16)


def _normalised(dtype):
    """f16_to_snorm and its like: -1…1 or 0…1 to the whole range of 16 bits, to nearest even."""
    largest = np.iinfo(dtype).max
    low = -1.0 if dtype is I16 else 0.0

    def run(a):
        wide = np.nan_to_num(np.asarray(a, np.float64), nan=0.0)
        return np.rint(np.clip(wide, low, 1.0) * largest).astype(dtype)

    return run


_MINMAX_NUM = {"min": fm.minimum_num, "max": fm.maximum_num}
_MINMAX_INT = {"min": np.minimum, "max": np.maximum}

OPERATIONS: dict[str, Operation] = {
    # Moves and bits
    "v_mov_b32": _op(np.positive, "u32 > u32"),
    "v_mov_b16": _op(np.positive, "u16 > u16"),
    "v_not_b32": _op(np.invert, "u32 > u32"),
    "v_not_b16": _op(np.invert, "u16 > u16"),
    "v_bfrev_b32": _op(im.reverse_bits, "u32 > u32"),
    "v_clz_i32_u32": _op(im.leading_zeros, "u32 > i32"),
    "v_ctz_i32_b32": _op(im.trailing_zeros, "u32 > i32"),
    "v_cls_i32": _op(im.leading_sign_bits, "u32 > i32"),
    **{
        f"v_{name}_b{bits}": _op(function, f"u{bits} u{bits} > u{bits}")
        for bits in (32, 16)
        for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor))
    },
    "v_xnor_b32": _op(lambda a, b: ~(a ^ b), "u32 u32 > u32"),
    "v_lshlrev_b32": _op(_shift(np.left_shift, 32), "u32 u32 > u32"),
    "v_lshrrev_b32": _op(_shift(np.right_shift, 32), "u32 u32 > u32"),
    "v_ashrrev_i32": _op(_shift(np.right_shift, 32), "u32 i32 > i32"),
    "v_lshlrev_b16": _op(_shift(np.left_shift, 16), "u16 u16 > u16"),
    "v_lshrrev_b16": _op(_shift(np.right_shift, 16), "u16 u16 > u16"),
    "v_ashrrev_i16": _op(_shift(np.right_shift, 16), "u16 i16 > i16"),
    "v_lshlrev_b64": _op(_shift(np.left_shift, 64), "u32 u64 > u64"),
    "v_lshrrev_b64": _op(_shift(np.right_shift, 64), "u32 u64 > u64"),
    "v_ashrrev_i64": _op(_shift(np.right_shift, 64), "u32 i64 > i64"),
    "v_bfe_u32": _op(lambda a, b, c: im.extract_unsigned(a, b & U32(31), c & U32(31)), "u32 u32 u32 > u32"),
    "v_bfe_i32": _op(lambda a, b, c: im.extract_signed(a, b & U32(31), c & U32(31)), "i32 u32 u32 > i32"),
    "v_bfi_b32": _op(_bfi, "u32 u32 u32 > u32"),
    "v_bfm_b32": _op(im.bit_field_mask, "u32 u32 > u32"),
    "v_bcnt_u32_b32": _op(lambda a, b: np.bitwise_count(a).astype(U32) + b, "u32 u32 > u32"),
    "v_mbcnt_lo_u32_b32": _op(_lane_count(0), "u32 u32 > u32"),
    "v_mbcnt_hi_u32_b32": _op(_lane_count(1), "u32 u32 > u32"),
    "v_perm_b32": _op(im.permute_bytes, "u32 u32 u32 > u32"),
    "v_alignbit_b32": _op(_alignbit(1, 31), "u32 u32 u32 > u32"),
    "v_alignbyte_b32": _op(_alignbit(8, 3), "u32 u32 u32 > u32"),
    "v_and_or_b32": _op(lambda a, b, c: a & b | c, "u32 u32 u32 > u32"),
    "v_or3_b32": _op(lambda a, b, c: a | b | c, "u32 u32 u32 > u32"),
    "v_xor3_b32": _op(lambda a, b, c: a ^ b ^ c, "u32 u32 u32 > u32"),
    "v_xad_u32": _op(lambda a, b, c: (a ^ b) + c, "u32 u32 u32 > u32"),
    "v_lshl_add_u32": _op(lambda a, b, c: (a << (b & U32(31))) + c, "u32 u32 u32 > u32"),
    "v_lshl_or_b32": _op(lambda a, b, c: a << (b & U32(31)) | c, "u32 u32 u32 > u32"),
    "v_add_lshl_u32": _op(lambda a, b, c: (a + b) << (c & U32(31)), "u32 u32 u32 > u32"),
    "v_add3_u32": _op(lambda a, b, c: a + b + c, "u32 u32 u32 > u32"),
    "v_pack_b32_f16": _op(im.join_halves, "f16 f16 > u32"),
    "v_sat_pk_u8_i16": _op(_saturated_bytes, "u32 > u16"),
    # Integer arithmetic
    "v_add_nc_u32": _op(np.add, "u32 u32 > u32", _wide(np.add)),
    "v_sub_nc_u32": _op(np.subtract, "u32 u32 > u32", _wide(np.subtract)),
    "v_subrev_nc_u32": _op(_reversed(np.subtract), "u32 u32 > u32", _reversed(_wide(np.subtract))),
    "v_add_nc_i32": _op(np.add, "i32 i32 > i32", _wide(np.add)),
    "v_sub_nc_i32": _op(np.subtract, "i32 i32 > i32", _wide(np.subtract)),
    "v_add_nc_u16": _op(np.add, "u16 u16 > u16", _wide(np.add)),
    "v_sub_nc_u16": _op(np.subtract, "u16 u16 > u16", _wide(np.subtract)),
    "v_add_nc_i16": _op(np.add, "i16 i16 > i16", _wide(np.add)),
    "v_sub_nc_i16": _op(np.subtract, "i16 i16 > i16", _wide(np.subtract)),
    "v_mul_lo_u32": _op(np.multiply, "u32 u32 > u32"),
    "v_mul_lo_u16": _op(np.multiply, "u16 u16 > u16"),
    "v_mul_hi_u32": _op(im.multiply_high_unsigned, "u32 u32 > u32"),
    "v_mul_hi_i32": _op(im.multiply_high_signed, "i32 i32 > i32"),
    "v_mul_u32_u24": _op(lambda a, b: (_u24(a) * _u24(b)).astype(U32), "u32 u32 > u32"),
    "v_mul_hi_u32_u24": _op(lambda a, b: (_u24(a) * _u24(b) >> U64(32)).astype(U32), "u32 u32 > u32"),
    "v_mul_i32_i24": _op(lambda a, b: (_i24(a) * _i24(b)).astype(I32), "i32 i32 > i32"),
    "v_mul_hi_i32_i24": _op(lambda a, b: (_i24(a) * _i24(b) >> I64(32)).astype(I32), "i32 i32 > i32"),
    "v_mad_u32_u24": _op(lambda a, b, c: (_u24(a) * _u24(b)).astype(U32) + c, "u32 u32 u32 > u32"),
    "v_mad_i32_i24": _op(lambda a, b, c: (_i24(a) * _i24(b)).astype(I32) + c, "i32 i32 i32 > i32"),
    "v_mad_u16": _op(lambda a, b, c: a * b + c, "u16 u16 u16 > u16"),
    "v_mad_i16": _op(lambda a, b, c: a * b + c, "i16 i16 i16 > i16"),
    "v_mad_u32_u16": _op(lambda a, b, c: np.asarray(a, U32) * np.asarray(b, U32) + c, "u16 u16 u32 > u32"),
    "v_mad_i32_i16": _op(lambda a, b, c: np.asarray(a, I32) * np.asarray(b, I32) + c, "i16 i16 i32 > i32"),
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} {kind} > {kind}")
        for name, function in _MINMAX_INT.items()
        for kind in ("i32", "u32", "i16", "u16")
    },
    **{
        f"v_{name}3_{kind}": _op(_fold(function), f"{kind} {kind} {kind} > {kind}")
        for name, function in _MINMAX_INT.items()
        for kind in ("i32", "u32", "i16", "u16")
    },
    **{f"v_med3_{kind}": _op(im.median, f"{kind} {kind} {kind} > {kind}") for kind in ("i32", "u32", "i16", "u16")},
    **{
        f"v_{a}{b}_{kind}": _op(_chain(_MINMAX_INT[a], _MINMAX_INT[b]), f"{kind} {kind} {kind} > {kind}")
        for a, b in (("max", "min"), ("min", "max"))
        for kind in ("i32", "u32")
    },
    # Float arithmetic
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} {kind} > {kind}")
        for kind in ("f32", "f16", "f64")
        for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply))
        if not (kind == "f64" and name == "sub")
    },
    "v_subrev_f32": _op(_reversed(np.subtract), "f32 f32 > f32"),
    "v_subrev_f16": _op(_reversed(np.subtract), "f16 f16 > f16"),
    **{f"v_fma_{kind}": _op(fm.exact_fma, f"{kind} {kind} {kind} > {kind}") for kind in ("f32", "f16", "f64")},
    **{
        f"v_{name}_num_{kind}": _op(function, f"{kind} {kind} > {kind}")
        for name, function in _MINMAX_NUM.items()
        for kind in ("f32", "f16", "f64")
    },
    **{
        f"v_{name}3_num_{kind}": _op(_fold(function), f"{kind} {kind} {kind} > {kind}")
        for name, function in _MINMAX_NUM.items()
        for kind in ("f32", "f16")
    },
    **{
        f"v_{a}{b}_num_{kind}": _op(_chain(_MINMAX_NUM[a], _MINMAX_NUM[b]), f"{kind} {kind} {kind} > {kind}")
        for a, b in (("max", "min"), ("min", "max"))
        for kind in ("f32", "f16")
    },
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} {kind} > {kind}")
        for name, function in (("minimum", fm.minimum), ("maximum", fm.maximum))
        for kind in ("f32", "f16", "f64")
    },
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} {kind} {kind} > {kind}")
        for name, function in (
            ("minimum3", _fold(fm.minimum)),
            ("maximum3", _fold(fm.maximum)),
            ("minimummaximum", _chain(fm.minimum, fm.maximum)),
            ("maximumminimum", _chain(fm.maximum, fm.minimum)),
            ("med3_num", fm.median_num),
        )
        for kind in ("f32", "f16")
    },
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} > {kind}")
        for kind in ("f32", "f16", "f64")
        for name, function in (
            ("trunc", np.trunc),
            ("ceil", np.ceil),
            ("floor", np.floor),
            ("rndne", np.rint),
            ("fract", lambda a: a - np.floor(a)),
            ("sqrt", np.sqrt),
            ("rcp", fm.reciprocal),
            ("rsq", fm.reciprocal_root),
        )
    },
    **{
        f"v_{name}_{kind}": _op(function, f"{kind} > {kind}")
        for kind in ("f32", "f16")
        for name, function in (("exp", fm.exp2), ("log", fm.log2), ("sin", fm.sine), ("cos", fm.cosine))
    },
    "v_rcp_iflag_f32": _op(fm.reciprocal, "f32 > f32"),
    "v_ldexp_f32": _op(fm.load_exponent, "f32 i32 > f32"),
    "v_ldexp_f16": _op(fm.load_exponent, "f16 i16 > f16"),
    "v_ldexp_f64": _op(fm.load_exponent, "f64 i32 > f64"),
    **{
        f"v_div_fixup_{kind}": _op(division.divide_fixup, f"{kind} {kind} {kind} > {kind}")
        for kind in ("f32", "f16", "f64")
    },
    **{
        f"v_frexp_exp_i32_{kind}": _op(
            lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(I32), f"{kind} > i32"
        )
        for kind in ("f32", "f64")
    },
    "v_frexp_exp_i16_f16": _op(lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(I16), "f16 > i16"),
    **{f"v_frexp_mant_{kind}": _op(lambda a: np.frexp(a)[0], f"{kind} > {kind}") for kind in ("f32", "f64", "f16")},
    # Conversions
    "v_cvt_f32_i32": _op(lambda a: a.astype(np.float32), "i32 > f32"),
    "v_cvt_f32_u32": _op(lambda a: a.astype(np.float32), "u32 > f32"),
    "v_cvt_i32_f32": _op(lambda a: fm.float_to_int(a, I32), "f32 > i32"),
    "v_cvt_u32_f32": _op(lambda a: fm.float_to_int(a, U32), "f32 > u32"),
    "v_cvt_f16_f32": _op(lambda a: a.astype(np.float16), "f32 > f16"),
    "v_cvt_f32_f16": _op(lambda a: a.astype(np.float32), "f16 > f32"),
    "v_cvt_nearest_i32_f32": _op(lambda a: fm.float_to_int(np.floor(a.astype(np.float64) + 0.5), I32), "f32 > i32"),
    "v_cvt_floor_i32_f32": _op(lambda a: fm.float_to_int(np.floor(a), I32), "f32 > i32"),
    "v_cvt_f32_f64": _op(lambda a: a.astype(np.float32), "f64 > f32"),
    "v_cvt_f64_f32": _op(lambda a: a.astype(np.float64), "f32 > f64"),
    "v_cvt_i32_f64": _op(lambda a: fm.float_to_int(a, I32), "f64 > i32"),
    "v_cvt_u32_f64": _op(lambda a: fm.float_to_int(a, U32), "f64 > u32"),
    "v_cvt_f64_i32": _op(lambda a: a.astype(np.float64), "i32 > f64"),
    "v_cvt_f64_u32": _op(lambda a: a.astype(np.float64), "u32 > f64"),
    **{f"v_cvt_f32_ubyte{n}": _op(_byte(n), "u32 > f32") for n in range(4)},
    "v_cvt_f16_u16": _op(lambda a: a.astype(np.float16), "u16 > f16"),
    "v_cvt_f16_i16": _op(lambda a: a.astype(np.float16), "i16 > f16"),
    "v_cvt_u16_f16": _op(lambda a: fm.float_to_int(a, U16), "f16 > u16"),
    "v_cvt_i16_f16": _op(lambda a: fm.float_to_int(a, I16), "f16 > i16"),
    "v_cvt_i32_i16": _op(lambda a: a.astype(I32), "i16 > i32"),
    "v_cvt_u32_u16": _op(lambda a: a.astype(U32), "u16 > u32"),
    "v_cvt_pk_f32_fp8": _op(_fp8_pair(E4M3_TO_F32), "u16 > u64"),
    "v_cvt_pk_f32_bf8": _op(_fp8_pair(E5M2_TO_F32), "u16 > u64"),
    "v_cvt_pk_rtz_f16_f32": _op(_half_pair_toward_zero, "f32 f32 > u32"),
    "v_cvt_pk_i16_f32": _op(_float_pair(I16), "f32 f32 > u32"),
    "v_cvt_pk_u16_f32": _op(_float_pair(U16), "f32 f32 > u32"),
    "v_cvt_pk_i16_i32": _op(_narrow_pair(I16), "i32 i32 > u32"),
    "v_cvt_pk_u16_u32": _op(_narrow_pair(U16), "u32 u32 > u32"),
    "v_cvt_norm_i16_f16": _op(_normalised(I16), "f16 > i16"),
    "v_cvt_norm_u16_f16": _op(_normalised(U16), "f16 > u16"),
    "v_sad_u32": _op(lambda a, b, c: np.where(a > b, a - b, b - a) + c, "u32 u32 u32 > u32"),
}
