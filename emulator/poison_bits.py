"""Operations whose undefined bits can be followed exactly: moves, logic, shifts and permutations of bits.

Vector functions take lists of values and of shadows, as unsigned arrays of the operation's kinds, and return the shadow
of the result.  Scalar ones take the same as `[waves, registers]` and the group.
"""

from __future__ import annotations

import numpy as np

from .semantics import integer_math as im

U32 = np.uint32


def _move(_values, shadows):
    return shadows[0]


def _union(_values, shadows):
    result = shadows[0]
    for other in shadows[1:]:
        result = result | other
    return result


def _and_bits(a, b, x, y):
    """A bit of a & b is undefined if one source's is and the other does not force it to 0."""
    return (x | y) & (a | x) & (b | y)


def _or_bits(a, b, x, y):
    return (x | y) & (~a | x) & (~b | y)


def _and(values, shadows):
    return _and_bits(*values, *shadows)


def _or(values, shadows):
    return _or_bits(*values, *shadows)


def _and_or(values, shadows):
    a, b, c = values
    x, y, z = shadows
    return _or_bits(a & b, c, _and_bits(a, b, x, y), z)


def _or3(values, shadows):
    a, b, c = values
    x, y, z = shadows
    return _or_bits(a | b, c, _or_bits(a, b, x, y), z)


def _bfi(values, shadows):
    mask, a, b = values
    m, x, y = shadows
    return mask & x | ~mask & y | m & (a ^ b | x | y)


def _leftward(shadow):
    """Sums and products: bits below the lowest undefined one of any source are what they are."""
    return shadow | (~shadow + shadow.dtype.type(1))


def _sum(values, shadows):
    return _leftward(np.asarray(_union(values, shadows)))


def _lshl_add(values, shadows):
    by = values[1] & U32(31)
    return _spoiled(shadows[1], _leftward(np.asarray(shadows[0] << by | shadows[2])))


def _add_lshl(values, shadows):
    return _spoiled(shadows[2], _leftward(np.asarray(shadows[0] | shadows[1])) << (values[2] & U32(31)))


def wide_product_bits(a_shadow, b_shadow, c_shadow):
    """v_mad_co_u64_u32: shadows of two 32-bit factors and a 64-bit addend to that of the sum."""
    narrow = np.asarray(a_shadow, np.uint64) | np.asarray(b_shadow, np.uint64)
    return _leftward(narrow | np.asarray(c_shadow, np.uint64))


def _spoiled(amount_shadow, result):
    """An undefined amount makes everything undefined."""
    return np.where(amount_shadow != 0, ~result.dtype.type(0), result)


def _shift(operator, *, signed: bool = False):
    def run(values, shadows):
        amount, shadow = values[0], np.asarray(shadows[1])
        bits = shadow.dtype.itemsize * 8
        by = np.asarray(amount & amount.dtype.type(bits - 1)).astype(shadow.dtype)
        if signed:
            kind = np.dtype(f"i{shadow.dtype.itemsize}")
            moved = operator(shadow.view(kind), by.astype(kind)).view(shadow.dtype)
        else:
            moved = operator(shadow, by)
        return _spoiled(shadows[0], moved)

    return run


def _lshl_or(values, shadows):
    a, b, c = values
    by = b & U32(31)
    return _spoiled(shadows[1], _or_bits(a << by, c, shadows[0] << by, shadows[2]))


def _bfe(extract, *, signed: bool):
    def run(values, shadows):
        offset, size = values[1] & U32(31), values[2] & U32(31)
        source = np.asarray(shadows[0])
        moved = extract(source.view(np.int32) if signed else source, offset, size)
        return _spoiled(shadows[1] | shadows[2], np.asarray(moved).view(U32))

    return run


def _perm(values, shadows):
    selector = np.asarray(values[2])
    bytes_of = np.ascontiguousarray(selector)[..., None].view(np.uint8)
    # Selectors from 12 up give constants, which are defined.
    safe = np.ascontiguousarray(np.minimum(bytes_of, 12)).view(U32)[..., 0]
    moved = im.permute_bytes(*np.broadcast_arrays(shadows[0], shadows[1], safe))
    return _spoiled(shadows[2], moved)


def _align(step: int, mask: int):
    def run(values, shadows):
        both = np.asarray(shadows[0], np.uint64) << np.uint64(32) | np.asarray(shadows[1], np.uint64)
        by = (np.asarray(values[2], np.uint64) & np.uint64(mask)) * np.uint64(step)
        return _spoiled(shadows[2], (both >> by).astype(U32))

    return run


def _byte(number: int):
    def run(_values, shadows):
        return np.where(shadows[0] >> U32(8 * number) & U32(0xFF), U32(0xFFFFFFFF), U32(0))

    return run


def _pack(_values, shadows):
    return im.join_halves(*np.broadcast_arrays(*shadows))


def _widen(_values, shadows):
    return np.asarray(shadows[0]).astype(U32)


def _sign_extend(_values, shadows):
    return np.asarray(shadows[0]).view(np.int16).astype(np.int32).view(U32)


EXACT_VECTOR = {
    "v_mov_b32": _move,
    "v_mov_b16": _move,
    "v_not_b32": _move,
    "v_not_b16": _move,
    "v_bfrev_b32": lambda _values, shadows: im.reverse_bits(shadows[0]),
    "v_and_b32": _and,
    "v_and_b16": _and,
    "v_or_b32": _or,
    "v_or_b16": _or,
    "v_xor_b32": _union,
    "v_xor_b16": _union,
    "v_xnor_b32": _union,
    "v_xor3_b32": _union,
    "v_and_or_b32": _and_or,
    "v_or3_b32": _or3,
    "v_bfi_b32": _bfi,
    "v_lshl_or_b32": _lshl_or,
    "v_bfe_u32": _bfe(im.extract_unsigned, signed=False),
    "v_bfe_i32": _bfe(im.extract_signed, signed=True),
    "v_perm_b32": _perm,
    "v_alignbit_b32": _align(1, 31),
    "v_alignbyte_b32": _align(8, 3),
    "v_pack_b32_f16": _pack,
    **{
        f"v_{name}": _sum
        for name in (
            *(f"{op}_nc_{kind}" for op in ("add", "sub") for kind in ("u32", "i32", "u16", "i16")),
            *("subrev_nc_u32", "mul_lo_u32", "mul_lo_u16", "add3_u32", "xad_u32", "mad_u16", "mad_i16"),
        )
    },
    "v_lshl_add_u32": _lshl_add,
    "v_add_lshl_u32": _add_lshl,
    "v_cvt_u32_u16": _widen,
    "v_cvt_i32_i16": _sign_extend,
    **{f"v_lshlrev_b{bits}": _shift(np.left_shift) for bits in (16, 32, 64)},
    **{f"v_lshrrev_b{bits}": _shift(np.right_shift) for bits in (16, 32, 64)},
    **{f"v_ashrrev_i{bits}": _shift(np.right_shift, signed=True) for bits in (16, 32, 64)},
    **{f"v_cvt_f32_ubyte{number}": _byte(number) for number in range(4)},
}


def _scalar_logic(rule):
    return lambda values, shadows, _g: rule(*values, *shadows)


def _scalar_select(_values, shadows, g):
    chosen = np.where(g.scc[:, None], shadows[0], shadows[1])
    return np.where(g.shadow.scc[:, None], U32(0xFFFFFFFF), chosen)


def _scalar_bfe(values, shadows, _g):
    offset, size = values[1] & U32(31), values[1] >> U32(16) & U32(0x7F)
    return _spoiled(shadows[1], im.extract_unsigned(shadows[0], offset, size))


def _scalar_shift(operator):
    def run(values, shadows, _g):
        return _spoiled(shadows[1], operator(shadows[0], values[1] & U32(31)))

    return run


def _scalar_sum(_values, shadows, _g):
    both = np.ascontiguousarray(shadows[0] | shadows[1])
    if both.shape[1] == 2:
        return _leftward(both.view(np.uint64)).view(U32)
    return _leftward(both)


EXACT_SCALAR = {
    **{f"s_{name}": _scalar_sum for name in ("add_co_u32", "add_co_i32", "sub_co_u32", "sub_co_i32", "mul_i32")},
    **{f"s_{name}_u64": _scalar_sum for name in ("add_nc", "sub_nc", "mul")},
    **{f"s_mov_b{bits}": (lambda _values, shadows, _g: shadows[0].copy()) for bits in (32, 64)},
    **{f"s_not_b{bits}": (lambda _values, shadows, _g: shadows[0].copy()) for bits in (32, 64)},
    **{f"s_and_b{bits}": _scalar_logic(_and_bits) for bits in (32, 64)},
    **{f"s_or_b{bits}": _scalar_logic(_or_bits) for bits in (32, 64)},
    **{f"s_xor_b{bits}": (lambda _values, shadows, _g: shadows[0] | shadows[1]) for bits in (32, 64)},
    **{
        f"s_and_not1_b{bits}": (lambda values, shadows, _g: _and_bits(values[0], ~values[1], *shadows))
        for bits in (32, 64)
    },
    **{f"s_cselect_b{bits}": _scalar_select for bits in (32, 64)},
    "s_bfe_u32": _scalar_bfe,
    "s_lshl_b32": _scalar_shift(np.left_shift),
    "s_lshr_b32": _scalar_shift(np.right_shift),
}
