"""Cache rows as codes with one FP32 scale a row, both ways, in integer arithmetic; both kv families' references use it.

Nothing is rounded by numpy or by a library's cast.  With L = 448 (E4M3FN) or 127 (INT8):

    magnitude  the row's largest |x|: NaN takes no part, an infinity counts as the largest finite BF16 number;
               at least L * 2**-126
    scale      magnitude / L, nearest FP32
    factor     L / magnitude, nearest FP32
    code       of x * factor, rounded to FP32 and then once more, to the nearest code; ties to even, at most +-L;
               E4M3FN: NaN is 0x7F; INT8: NaN is 0
    value      code * scale, rounded to FP32, and that to BF16; NaN is 0x7FFF
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST_CODE = {"fp8_per_token_head": 448, "int8_per_token_head": 127}
LARGEST_BF16, INFINITY_BF16, NAN_OUT = 0x7F7F, 0x7F80, 0x7FFF
_INFINITY = 0x7F800000
_E4M3FN_NAN = 0x7F


class Number(NamedTuple):
    """mantissa * 2**exponent, both integers; mantissa at least 0."""

    mantissa: int
    exponent: int

    @property
    def top(self) -> int:
        """The exponent of its leading bit; below any other's for 0."""
        return self.mantissa.bit_length() - 1 + self.exponent if self.mantissa else -(1 << 30)

    def steps(self, step: int) -> int:
        """The nearest multiple of 2**step, as a count of those; ties to even."""
        shift = step - self.exponent
        if shift <= 0:
            return self.mantissa << -shift
        whole, rest = self.mantissa >> shift, self.mantissa & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        return whole + (rest > half or (rest == half and whole & 1 == 1))

    def times(self, other: Number) -> Number:
        """The product, exactly."""
        return Number(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def over(self, other: Number) -> Number:
        """The quotient to 64 bits, the last of which is set wherever anything is left."""
        shift = 64 + other.mantissa.bit_length()
        whole, rest = divmod(self.mantissa << shift, other.mantissa)
        return Number(whole << 1 | (rest > 0), self.exponent - other.exponent - shift - 1)


def store_row(row: NDArray[np.uint16], kv_format: str) -> tuple[list[int], int]:
    """Codes as bytes, and the scale's FP32 bits, of one row of BF16 bits."""
    magnitudes = [int(bits) & 0x7FFF for bits in row]
    top = max((min(bits, LARGEST_BF16) for bits in magnitudes if bits <= INFINITY_BF16), default=0)
    largest = Number(LARGEST_CODE[kv_format], 0)
    # Of two BF16 numbers the greater one has the greater bits, and L * 2**-126 is one.
    least = nearest_f32(largest.times(Number(1, -126))) >> 16
    magnitude = f32_number(max(top, least) << 16)
    factor = f32_number(nearest_f32(largest.over(magnitude)))
    return [code_of(int(bits), factor, kv_format) for bits in row], nearest_f32(magnitude.over(largest))


def code_of(bits: int, factor: Number, kv_format: str) -> int:
    """The code, as a byte, of BF16 bits times a factor."""
    magnitude, negative = bits & 0x7FFF, bits >> 15
    is_fp8 = kv_format == "fp8_per_token_head"
    if magnitude > INFINITY_BF16:
        return _E4M3FN_NAN if is_fp8 else 0
    product = _INFINITY if magnitude == INFINITY_BF16 else nearest_f32(f32_number(magnitude << 16).times(factor))
    if is_fp8:
        return negative << 7 | nearest_e4m3fn(product)
    number = nearest_int8(product)
    return (-number if negative else number) & 0xFF


def nearest_e4m3fn(bits: int) -> int:
    """The code nearest to FP32 bits without a sign: OCP E4M3FN, saturating at 448 (0x7E)."""
    if bits == _INFINITY:
        return 0x7E
    number = f32_number(bits)
    # Below 2**-6 the steps are those of 2**-6.  Sixteen steps are the next binade's first code, as the sum has it.
    binade = max(number.top, -6)
    return min((binade + 6) * 8 + number.steps(binade - 3), 0x7E)


def nearest_int8(bits: int) -> int:
    """The integer nearest to FP32 bits without a sign, at most 127."""
    return 127 if bits == _INFINITY else min(f32_number(bits).steps(0), 127)


def reconstruct_row(row: NDArray[np.uint8], scale_bits: int, kv_format: str) -> list[int]:
    """BF16 bits of one row of codes, given as bytes."""
    return [_reconstructed(int(code), scale_bits, kv_format) for code in row]


@functools.lru_cache(maxsize=1 << 16)
def _reconstructed(code: int, scale_bits: int, kv_format: str) -> int:
    negative, value = (_e4m3fn if kv_format == "fp8_per_token_head" else _int8)(code)
    scale = scale_bits & 0x7FFFFFFF
    if value is None or scale > _INFINITY or (scale == _INFINITY and not value.mantissa):
        return NAN_OUT
    product = _INFINITY if scale == _INFINITY else nearest_f32(value.times(f32_number(scale)))
    return (negative ^ scale_bits >> 31) << 15 | _nearest_bf16(product)


def _e4m3fn(code: int) -> tuple[int, Number | None]:
    """Sign and magnitude of an OCP E4M3FN code; None for NaN."""
    exponent, mantissa = code >> 3 & 0xF, code & 7
    if code & 0x7F == _E4M3FN_NAN:
        return code >> 7, None
    return code >> 7, Number(mantissa, -9) if exponent == 0 else Number(8 + mantissa, exponent - 10)


def _int8(code: int) -> tuple[int, Number]:
    number = code - 256 if code & 0x80 else code
    return int(number < 0), Number(abs(number), 0)


def _nearest_bf16(bits: int) -> int:
    """BF16 bits of FP32 bits without a sign; what is too large is infinity, as infinity is."""
    low, high = bits & 0xFFFF, bits >> 16
    return high + (low > 0x8000 or (low == 0x8000 and high & 1 == 1))


def f32_number(bits: int) -> Number:
    """The value of FP32 bits that are finite and have no sign."""
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    return Number(mantissa, -149) if exponent == 0 else Number(2**23 + mantissa, exponent - 150)


def nearest_f32(number: Number) -> int:
    """FP32 bits nearest to a number, ties to even; infinity where it is too large."""
    binade = max(number.top, -126)
    # A subnormal number has no leading one; a carry into the next binade is what the sum gives.
    return min(number.steps(binade - 23) + (binade + 126 << 23), _INFINITY)
