"""Float operations of the pseudocode: fused multiply-add with one rounding, minimum and maximum, division steps.

Transcendental functions are computed in float64 and rounded once; the hardware's last bit may differ (RDNA4 ISA states
1 ulp for them).
"""

from __future__ import annotations

import numpy as np

from ..float_formats import f32_to_f16_toward_zero

F32, F64, U64 = np.float32, np.float64, np.uint64
_TIE = U64(1 << 28)
_BELOW_F32 = U64((1 << 29) - 1)
_FLOAT_BITS = {2: (np.uint16, 10, 0x1F), 4: (np.uint32, 23, 0xFF), 8: (np.uint64, 52, 0x7FF)}

to_float16_toward_zero = f32_to_f16_toward_zero


def exact_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """fma(a, b, c), rounded once to nearest even, in the dtype of the sources.

    A product of two float32 is exact in float64; the sum is not, and rounding it to float32 rounds twice. That can
    only matter where the sum lies on a tie, so only then is it taken to the odd neighbour (Boldo and Melquiond,
    'Emulation of a FMA and correctly rounded sums', 2008). Subnormal results on a tie are not treated so.
    """
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    if a.dtype == F64 or c.dtype == F64:
        return fma_f64(a, b, c)
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = np.asarray(product + addend)
    if a.dtype == np.float16:
        return _to_odd(total, product, addend).astype(np.float16)
    if ((total.view(U64) & _BELOW_F32) == _TIE).any():
        total = _to_odd(total, product, addend)
    return total.astype(F32)


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """a + b - total, exactly (Knuth's TwoSum)."""
    other = total - a
    return (a - (total - other)) + (b - other)


def _to_odd(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b rounded to odd, given its rounding to nearest."""
    error = _sum_error(a, b, total)
    bits = total.view(U64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & U64(1)) == 0)
    # Towards the exact sum: up in magnitude if the error has the sum's sign.
    away = (error > 0) == (total > 0)
    step = np.where(away, U64(1), ~U64(0))
    return np.where(inexact, bits + step, bits).view(F64)


def fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """fma in float64 from error-free transformations; exact unless a product's error term underflows or overflows."""
    a, b, c = (np.asarray(x, F64) for x in (a, b, c))
    product = a * b
    error = _product_error(a, b, product)
    low_total = error + c
    low_error = _sum_error(error, c, low_total)
    total = np.asarray(product + low_total)
    rest = _sum_error(product, low_total, total)
    tail = np.asarray(rest + low_error)
    result = total + _to_odd(tail, rest, low_error)
    plain = product + c
    return np.where(np.isfinite(result) & np.isfinite(error), result, plain)


def _product_error(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """a * b - product, exactly (Dekker's TwoProduct with Veltkamp's split)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _signed_zeros(result: np.ndarray, a: np.ndarray, b: np.ndarray, *, prefer_negative: bool) -> np.ndarray:
    """numpy leaves open which zero it takes of -0 and +0; the ISA orders them."""
    if result.all():
        return result
    bits = np.dtype(f"u{result.dtype.itemsize}")
    both = (a == 0) & (b == 0)
    a_bits, b_bits = (np.broadcast_to(x, result.shape).astype(result.dtype).view(bits) for x in (a, b))
    zero = a_bits | b_bits if prefer_negative else a_bits & b_bits
    return np.where(both, zero, result.view(bits)).view(result.dtype)


def minimum_num(a, b):
    """minNum of IEEE 754-2019: a number where one source is NaN; -0 < +0."""
    return _signed_zeros(np.asarray(np.fmin(a, b)), a, b, prefer_negative=True)


def maximum_num(a, b):
    """maxNum: a number where one source is NaN; -0 < +0."""
    return _signed_zeros(np.asarray(np.fmax(a, b)), a, b, prefer_negative=False)


def minimum(a, b):
    """minimum of IEEE 754-2019: NaN where either source is."""
    return _signed_zeros(np.asarray(np.minimum(a, b)), a, b, prefer_negative=True)


def maximum(a, b):
    """maximum: NaN where either source is."""
    return _signed_zeros(np.asarray(np.maximum(a, b)), a, b, prefer_negative=False)


def median_num(a, b, c):
    """v_med3_num: the smallest number where one is NaN, else the middle one."""
    smallest = minimum_num(minimum_num(a, b), c)
    middle = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), smallest, middle).astype(smallest.dtype)


def float_to_int(a: np.ndarray, dtype: type) -> np.ndarray:
    """Truncation with saturation; NaN gives 0 (RDNA4 ISA, f32_to_i32 and its like)."""
    wide = np.asarray(a).astype(F64)
    limits = np.iinfo(dtype)
    clipped = np.clip(np.trunc(np.where(np.isnan(wide), 0.0, wide)), limits.min, limits.max)
    return clipped.astype(np.int64).astype(dtype)


def rounded(function):
    """A function of float64 as one of any float dtype, rounded once."""

    def run(a):
        a = np.asarray(a)
        return function(a.astype(F64)).astype(a.dtype)

    return run


exp2 = rounded(np.exp2)
log2 = rounded(np.log2)
reciprocal = rounded(lambda a: 1.0 / a)
reciprocal_root = rounded(lambda a: 1.0 / np.sqrt(a))
sine = rounded(lambda a: np.sin(a * (2 * np.pi)))
cosine = rounded(lambda a: np.cos(a * (2 * np.pi)))


def load_exponent(a: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """a · 2^exponent, rounded once. The C library's ldexp rounds correctly into the subnormal range."""
    return np.ldexp(a, np.clip(exponent, -4096, 4096).astype(np.int32)).astype(np.asarray(a).dtype)


def biased_exponent(a: np.ndarray) -> np.ndarray:
    """The exponent field, int64."""
    a = np.asarray(a)
    bits, mantissa, mask = _FLOAT_BITS[a.dtype.itemsize]
    return (a.view(bits) >> bits(mantissa)).astype(np.int64) & mask


def _is_subnormal(a: np.ndarray) -> np.ndarray:
    return (a != 0) & (biased_exponent(a) == 0)


def divide_scale(value, denominator, numerator):
    """v_div_scale: `value` (one of the other two) scaled so that the division's steps neither over- nor underflow, and
    the lanes that v_div_fmas must scale back. The conditions are the pseudocode's, in its order.
    """
    value, denominator, numerator = np.broadcast_arrays(value, denominator, numerator)
    single = value.dtype == F32
    far, shift, tiny = (96, 64, 23) if single else (768, 128, 53)
    inverse = (1.0 / denominator.astype(F64)).astype(value.dtype)
    quotient = (numerator.astype(F64) / denominator.astype(F64)).astype(value.dtype)
    gap = biased_exponent(numerator) - biased_exponent(denominator)
    up, down = load_exponent(value, np.array(shift)), load_exponent(value, np.array(-shift))
    is_denominator, is_numerator = value == denominator, value == numerator
    zero = (numerator == 0) | (denominator == 0)
    inverse_small, quotient_small = _is_subnormal(inverse), _is_subnormal(quotient)
    cases = [
        (zero, np.full_like(value, np.nan), False),
        (gap >= far, np.where(is_denominator, up, value), True),
        (_is_subnormal(denominator), up, False),
        (inverse_small & quotient_small, np.where(is_denominator, up, value), True),
        (inverse_small, down, False),
        (quotient_small, np.where(is_numerator, up, value), True),
        (biased_exponent(numerator) <= tiny, up, False),
    ]
    conditions = [case[0] for case in cases]
    result = np.select(conditions, [case[1] for case in cases], value).astype(value.dtype)
    flags = np.select(conditions, [np.full(value.shape, case[2]) for case in cases], False)
    return result, flags


def divide_fmas(a, b, c, flags):
    """v_div_fmas: fma(a, b, c), times 2^32 (2^64 in float64) where v_div_scale said so."""
    result = exact_fma(a, b, c)
    shift = 32 if result.dtype == F32 else 64
    return np.where(flags, load_exponent(result, np.array(shift)), result)


def divide_fixup(quotient, denominator, numerator):
    """v_div_fixup: the special cases of numerator / denominator; else the quotient with the right sign."""
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    dtype = quotient.dtype
    sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), -1, 1).astype(dtype)
    infinite_d, infinite_n = np.isinf(denominator), np.isinf(numerator)
    nan = np.copysign(np.array(np.nan, dtype), np.array(-1, dtype))
    largest_gap = {2: None, 4: -150, 8: -1075}[dtype.itemsize]
    conditions = [
        np.isnan(numerator),
        np.isnan(denominator),
        ((denominator == 0) & (numerator == 0)) | (infinite_d & infinite_n),
        (denominator == 0) | infinite_n,
        infinite_d | (numerator == 0),
    ]
    infinity, zero = sign * np.array(np.inf, dtype), sign * np.array(0, dtype)
    choices = [numerator, denominator, np.full_like(quotient, nan), infinity, zero]
    if largest_gap is not None:
        conditions.append(biased_exponent(numerator) - biased_exponent(denominator) < largest_gap)
        choices.append(zero)
    return np.select(conditions, choices, sign * np.abs(quotient)).astype(dtype)
