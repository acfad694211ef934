"""The small float formats, bit for bit: OCP E4M3 and E5M2, BF16, and FP16 where numpy's rounding does not fit.

Source: 'OCP 8-bit Floating Point Specification' 1.0, tables 1 and 2; RDNA4 ISA, 'Data formats'. E4M3 has no infinity
and one NaN a sign (0x7F, 0xFF); E5M2 is a short FP16.
"""

from __future__ import annotations

import numpy as np


def _e4m3_values() -> np.ndarray:
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    value = np.where((codes & 0x7F) == 0x7F, np.nan, value)
    return (sign * value).astype(np.float32)


def _e5m2_values() -> np.ndarray:
    return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


E4M3_TO_F32 = _e4m3_values()
E5M2_TO_F32 = _e5m2_values()
E4M3_TO_F32.setflags(write=False)
E5M2_TO_F32.setflags(write=False)


def bf16_to_f32(codes: np.ndarray) -> np.ndarray:
    """BF16 codes, uint16, to float32: exact."""
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: np.ndarray) -> np.ndarray:
    """Float32 to BF16 codes, uint16, to nearest even; NaNs stay NaNs and become quiet."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    quiet = bits >> np.uint32(16) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def f32_to_e4m3(values: np.ndarray) -> np.ndarray:
    """Float32 to E4M3 codes, uint8, to nearest even. Too large and infinite values become NaN (0x7F with the sign), as
    the OCP document's non-saturating mode has it.
    """
    return _narrow(values, mantissa_bits=3, smallest_exponent=-6, largest=448.0, beyond=0x7F, nan=0x7F, bias=7)


def f32_to_e5m2(values: np.ndarray) -> np.ndarray:
    """Float32 to E5M2 codes, uint8, to nearest even; too large becomes infinity (0x7C)."""
    return _narrow(values, mantissa_bits=2, smallest_exponent=-14, largest=57344.0, beyond=0x7C, nan=0x7E, bias=15)


def _narrow(values, *, mantissa_bits, smallest_exponent, largest, beyond, nan, bias) -> np.ndarray:
    values = np.asarray(values, np.float32)
    magnitude = np.abs(values).astype(np.float64)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, smallest_exponent)
    # In units of the last place, rounded to nearest even; a carry into the next exponent comes out right by itself.
    units = np.rint(np.ldexp(finite, mantissa_bits - exponent)).astype(np.int64)
    normal = units >= 1 << mantissa_bits
    code = units + np.where(normal, (exponent + bias - 1) << mantissa_bits, 0)
    rounded = np.ldexp(units.astype(np.float64), exponent - mantissa_bits)
    code = np.where((rounded > largest) | np.isinf(magnitude), beyond, code)
    code = np.where(np.isnan(values), nan, code)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def f32_to_f16_toward_zero(values: np.ndarray) -> np.ndarray:
    """Float32 to float16, truncating: an overflow becomes the largest finite number (V_CVT_PK_RTZ_F16_F32)."""
    values = np.asarray(values, np.float32)
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float16)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
    codes = nearest.view(np.uint16) - too_far.astype(np.uint16)
    return codes.view(np.float16)
