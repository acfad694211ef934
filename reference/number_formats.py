"""BF16 and OCP E4M3FN as integers and as values, from their definitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAN_BF16 = 0x7FC1
# Both NaN codes of E4M3FN, and a finite one; there is no infinity.
E4M3FN_NAN = (0x7F, 0xFF)


def e4m3fn_values() -> NDArray[np.float64]:
    """The 256 values of OCP E4M3FN (OCP 8-bit Floating Point Specification 1.0, table 1), by code."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 0xF, codes & 0x7
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    values = np.where(codes & 0x80, -magnitude, magnitude)
    values[list(E4M3FN_NAN)] = np.nan
    return values


def finite_e4m3fn_codes() -> NDArray[np.uint8]:
    """The 254 codes that are no NaN, both zeros among them."""
    return np.array([code for code in range(256) if code not in E4M3FN_NAN], np.uint8)


def to_bf16(values: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Nearest BF16 (ties to even) of finite float32 values, as bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    """The value of BF16 bits."""
    return (np.asarray(bits, np.uint32) << 16).view(np.float32).astype(np.float64)
