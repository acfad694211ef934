"""Typed numbers of the ISA document's pseudocode, its operators and its named functions."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

_FLOATS = {16: (np.float16, "<H"), 32: (np.float32, "<I"), 64: (np.float64, "<Q")}


class Untranslatable(Exception):
    """Pseudocode that this evaluator does not know."""


@dataclass(frozen=True)
class Number:
    kind: str
    width: int
    bits: int

    @property
    def value(self):
        if self.kind == "f":
            return self.float
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def float(self):
        dtype, form = _FLOATS[self.width]
        return np.frombuffer(struct.pack(form, self.bits), dtype)[0]


def integer(kind: str, width: int, value: int) -> Number:
    return Number(kind, width, value & ((1 << width) - 1))


def real(width: int, value) -> Number:
    dtype, _ = _FLOATS[width]
    with np.errstate(all="ignore"):
        data = np.array(value).astype(dtype)
    return Number("f", width, int.from_bytes(data.tobytes(), "little"))


def rounded(width: int, exact: Fraction) -> Number:
    """The nearest float, ties to even, of an exact number."""
    mantissa, least = {16: (11, -24), 32: (24, -149), 64: (53, -1074)}[width]
    if exact == 0:
        return real(width, 0.0)
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** max(exponent - mantissa + 1, least)
    units = round(magnitude / unit)  # Python rounds halves to even
    value = units * unit
    limit = {16: 65504.0, 32: 3.4028234663852886e38, 64: 1.7976931348623157e308}[width]
    result = math.inf if value > Fraction(limit) else float(value)
    return real(width, -result if exact < 0 else result)


def convert(value: Number, kind: str, width: int) -> Number:
    """Assignment to a field: bits are kept between equal widths, numbers otherwise."""
    if value.kind == "f" and kind == "f":
        return value if value.width == width else real(width, value.float)
    if value.kind == "f":
        return integer(kind, width, value.bits)
    return integer(kind, width, value.value)


def apply(operator: str, a: Number, b: Number) -> Number:
    comparisons = {
        "==": lambda x, y: x == y,
        "!=": lambda x, y: x != y,
        "<>": lambda x, y: x < y or x > y,
        "<": lambda x, y: x < y,
        ">": lambda x, y: x > y,
        "<=": lambda x, y: x <= y,
        ">=": lambda x, y: x >= y,
    }
    if operator in comparisons:
        return integer("u", 1, bool(comparisons[operator](a.value, b.value)))
    if operator in ("&&", "||"):
        both = bool(a.bits) and bool(b.bits) if operator == "&&" else bool(a.bits) or bool(b.bits)
        return integer("u", 1, both)
    if operator in ("<<", ">>"):
        amount = b.value
        return integer(a.kind, a.width, a.value << amount if operator == "<<" else a.value >> amount)
    if "f" in (a.kind, b.kind):
        return _float_operation(operator, a, b)
    width = max(a.width, b.width)
    kind = "i" if a.kind == b.kind == "i" else "u"
    x, y = a.value, b.value
    if operator in ("/", "%"):
        if y == 0:
            raise Untranslatable("division by zero")
        return integer(kind, width, x // y if operator == "/" else x % y)
    return integer(kind, width, {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[operator])


def _float_operation(operator: str, a: Number, b: Number) -> Number:
    width = max(number.width for number in (a, b) if number.kind == "f")
    dtype = _FLOATS[width][0]
    x, y = dtype(a.value), dtype(b.value)
    with np.errstate(all="ignore"):
        result = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
    return real(width, result)


def _fma(a: Number, b: Number, c: Number) -> Number:
    values = [float(number.value) for number in (a, b, c)]
    if not all(map(math.isfinite, values)) or (values[0] * values[1] == 0 and values[2] == 0):
        with np.errstate(all="ignore"):
            return real(a.width, np.float64(values[0]) * np.float64(values[1]) + np.float64(values[2]))
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    return rounded(a.width, exact)


def _to_integer(value: Number, kind: str, width: int) -> Number:
    number = float(value.value)
    low, high = (0, (1 << width) - 1) if kind == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
    if math.isnan(number):
        return integer(kind, width, 0)
    return integer(
        kind, width, max(low, min(high, math.trunc(number) if math.isfinite(number) else (high if number > 0 else low)))
    )


_PATTERN = {16: (10, 5), 32: (23, 8), 64: (52, 11)}


def call(name: str, arguments: list[Number]) -> Number:
    first = arguments[0]
    match name:
        case "isNAN" | "isQuietNAN" | "isSignalNAN":
            nan = first.kind == "f" and bool(np.isnan(first.value))
            quiet = bool(first.bits >> (_PATTERN[first.width][0] - 1) & 1)
            return integer("u", 1, nan and {"isNAN": True, "isQuietNAN": quiet, "isSignalNAN": not quiet}[name])
        case "cvtToQuietNAN":
            return Number("f", first.width, first.bits | 1 << (_PATTERN[first.width][0] - 1))
        case "sign":
            return integer("u", 1, first.bits >> (first.width - 1))
        case "exponent":
            mantissa, size = _PATTERN[first.width]
            return integer("i", 32, first.bits >> mantissa & ((1 << size) - 1))
        case "abs":
            return Number("f", first.width, first.bits & ~(1 << (first.width - 1)))
        case "signext":
            return integer("i", 64, Number("i", first.width, first.bits).value)
        case "signext_from_bit":
            size = arguments[1].value
            value = first.bits & ((1 << size) - 1)
            return integer("i", first.width, value - (1 << size) if size and value >> (size - 1) else value)
        case "fma":
            return _fma(*arguments)
        case "isEven":
            return integer("u", 1, math.isfinite(first.value) and float(first.value) % 2 == 0)
        case "ldexp":
            with np.errstate(all="ignore"):
                return real(first.width, np.ldexp(first.value, arguments[1].value))
    unary = {"trunc": np.trunc, "floor": np.floor, "fract": lambda x: x - np.floor(x), "sqrt": np.sqrt}
    if name in unary:
        with np.errstate(all="ignore"):
            return real(first.width, unary[name](first.value))
    conversion = re.fullmatch(r"(u|i|f|bf)(\d+)_to_(u|i|f)(\d+)", name)
    if conversion:
        kind, width = conversion[3], int(conversion[4])
        if conversion[1] == "bf":
            first = Number("f", 32, first.bits << 16)
        if kind == "f":
            return rounded(width, Fraction(first.value)) if first.kind != "f" else real(width, first.value)
        if first.kind == "f":
            return _to_integer(first, kind, width)
        low, high = (0, (1 << width) - 1) if kind == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
        return integer(kind, width, max(low, min(high, first.value)))
    raise Untranslatable(name)
