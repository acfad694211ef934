"""The steps of a float division: v_div_scale, v_div_fmas, v_div_fixup.

The ISA document's pseudocode does not describe the hardware here: with its fixed factor of 2^32 in v_div_fmas and its
tests for subnormals, 1 / 2^-126 comes out far too small.  What stands below are the rules of AMD's own emulator,
checked on gfx1100 and gfx1201 (ROCm/rocm-systems, pull request 11613): encoded exponents decide what is scaled, and
v_div_fmas scales up or down as its addend is large or small.  With them, division compiled by LLVM is IEEE division.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .float_math import biased_exponent, fma_f64_with_rest, load_exponent, to_odd

F64 = np.float64


@dataclass(frozen=True, slots=True)
class Format:
    """`far`: exponents so many apart are scaled. `shift`: by how many powers of two. `small`: the largest encoded
    exponent of a numerator whose remainder would underflow. `bias` and `fraction` are the format's own.
    """

    far: int
    shift: int
    small: int
    bias: int
    fraction: int


_FORMATS = {4: Format(96, 64, 24, 127, 23), 8: Format(768, 128, 53, 1023, 52)}


def divide_scale(value, denominator, numerator):
    """v_div_scale: `value`, which is one of the other two, scaled so that no step of the division over- or underflows;
    and the lanes whose quotient v_div_fmas must scale back.
    """
    value, denominator, numerator = np.broadcast_arrays(value, denominator, numerator)
    form = _FORMATS[value.dtype.itemsize]
    low, high = biased_exponent(denominator), biased_exponent(numerator)
    gap = high - low
    own = value == denominator
    much_larger, much_smaller = gap >= form.far, gap <= -form.far
    huge = low >= 2 * form.bias - 1
    conditions = [much_larger, low == 0, huge, much_smaller, high <= form.small]
    up, down, none = form.shift, -form.shift, 0
    adjustments = [
        np.where(own, up, none),
        up,
        np.where(much_smaller & ~own, none, down),
        np.where(own, none, up),
        up,
    ]
    adjustment = np.select(conditions, [np.broadcast_to(item, value.shape) for item in adjustments], none)
    flags = much_larger | (much_smaller & (low != 0))
    result = load_exponent(value, adjustment)
    nothing = (denominator == 0) | (numerator == 0)
    return np.where(nothing, -_nan(value.dtype), result).astype(value.dtype), flags


def _nan(dtype: np.dtype) -> np.generic:
    return dtype.type(np.nan)


def divide_fmas(a, b, c, flags):
    """v_div_fmas: fma(a, b, c), and where v_div_scale said so times 2^64 (2^128 in float64) or, for an addend below 2,
    divided by it. Rounded once, into the subnormal range too.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    form = _FORMATS[c.dtype.itemsize]
    shift = np.where(biased_exponent(c) > form.bias, form.shift, -form.shift)
    shift = np.where(flags, shift, 0)
    if c.dtype == F64:
        result, rest = fma_f64_with_rest(a, b, c)
        return _scaled_once(result, rest, shift)
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    # Float64 holds the scaled value exactly, rounded to odd, so that float32 is the only rounding.
    total = to_odd(np.asarray(product + addend), product, addend)
    return np.ldexp(total, shift).astype(np.float32)


def _scaled_once(result: np.ndarray, rest: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """result · 2^shift where `rest` is what `result` leaves out: a tie in the subnormal range falls to its side."""
    scaled = np.ldexp(result, shift)
    lost = result - np.ldexp(scaled, -shift)
    unit = np.ldexp(np.spacing(np.abs(scaled)), -shift)
    tied = np.isfinite(scaled) & (np.abs(lost) * 2 == unit) & (rest != 0)
    if not tied.any():
        return scaled
    # A tie was rounded away from `lost`; the rest may say that the other neighbour is nearer.
    wrong = tied & (np.sign(rest) == np.sign(lost))
    return np.where(wrong, np.nextafter(scaled, np.where(lost > 0, np.inf, -np.inf)), scaled)


def divide_fixup(quotient, denominator, numerator):
    """v_div_fixup: the special cases of numerator / denominator; else the quotient with the right sign. A quotient that
    came out infinite or NaN between finite numbers is an overflow.
    """
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    dtype = quotient.dtype
    sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), -1, 1).astype(dtype)
    infinite_d, infinite_n = np.isinf(denominator), np.isinf(numerator)
    conditions = [
        np.isnan(numerator),
        np.isnan(denominator),
        ((denominator == 0) & (numerator == 0)) | (infinite_d & infinite_n),
        (denominator == 0) | infinite_n,
        infinite_d | (numerator == 0),
    ]
    infinity, zero = sign * dtype.type(np.inf), sign * dtype.type(0)
    choices = [numerator, denominator, np.full_like(quotient, -_nan(dtype)), infinity, zero]
    if (form := _FORMATS.get(dtype.itemsize)) is not None:
        gap = biased_exponent(numerator) - biased_exponent(denominator)
        conditions += [gap < -(form.bias + form.fraction), ~np.isfinite(quotient)]
        choices += [zero, infinity]
    return np.select(conditions, choices, sign * np.abs(quotient)).astype(dtype)
