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
        return to_odd(total, product, addend).astype(np.float16)
    if ((total.view(U64) & _BELOW_F32) == _TIE).any():
        total = to_odd(total, product, addend)
    return total.astype(F32)


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """a + b - total, exactly (Knuth's TwoSum)."""
    other = total - a
    return (a - (total - other)) + (b - other)


def to_odd(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
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
    result, _ = fma_f64_with_rest(a, b, c)
    return result


def fma_f64_with_rest(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """fma in float64, and what it leaves out: the exact result minus the rounded one, of which the sign is exact."""
    a, b, c = (np.asarray(x, F64) for x in (a, b, c))
    product = a * b
    error = _product_error(a, b, product)
    low_total = error + c
    low_error = _sum_error(error, c, low_total)
    total = np.asarray(product + low_total)
    tail_of_total = _sum_error(product, low_total, total)
    tail = to_odd(np.asarray(tail_of_total + low_error), tail_of_total, low_error)
    result = np.asarray(total + tail)
    sound = np.isfinite(result) & np.isfinite(error)
    return np.where(sound, result, product + c), np.where(sound, _sum_error(total, tail, result), 0.0)


def _product_error(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """a * b - product, exactly (Dekker's TwoProduct with Veltkamp's split)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Veltkamp's split into two numbers of 26 bits, of large numbers on a smaller scale lest it overflow."""
    scale = np.where(np.abs(a) > 2.0**990, 2.0**-40, 1.0)
    small = a * scale
    spread = small * 134217729.0
    high = (spread - (spread - small)) / scale
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
