"""What `--arg` says, as records.

    ARGUMENT := [NAME "="] ( BUFFER | SCALAR | "null" )
    BUFFER   := DTYPE "[" SIZE {"," SIZE} "]" ":" CONTENT  |  DTYPE ":" FILE      FILE ends in .npy and has the shape
    SCALAR   := DTYPE ":" NUMBER
    CONTENT  := "zeros" | "ones" | "arange" | "nan" | ("normal" | "uniform") [":" SEED] | NUMBER | FILE
    NUMBER   := as Python writes it, also 0x10, inf and nan; it must fit the dtype

`normal` is of mean 0 and deviation 1, for floating-point dtypes; `uniform` is 0 to 1 for those, any value for integers.
The seed is the argument's position unless given, so that two buffers differ and two runs do not.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from assay.bundle.faults import did_you_mean

# Bytes of one element.  bf16 and fp8 (OCP E4M3FN) are codes in unsigned integers, since numpy has neither.
FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "fp8": 1}
INTEGERS = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
DTYPES = {**FLOATS, **INTEGERS}
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": math.inf, "fp8": 448.0}
FILLS = ("zeros", "ones", "arange", "nan", "normal", "uniform")
FORMS = "[NAME=]DTYPE[SIZE,…]:CONTENT, [NAME=]DTYPE:FILE.npy, [NAME=]DTYPE:NUMBER or [NAME=]null"
_RANDOM = ("normal", "uniform")
# More than any GPU's memory: what is larger is a slip, and its product must not overflow.
_MOST_BYTES = 1 << 40
# Enough for any size or seed, and few enough for Python to read as a number.
_MOST_DIGITS = 18
# As many as numpy takes.
_MOST_DIMENSIONS = 32
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VALUE = re.compile(r"([A-Za-z0-9_]+)(?:\[([^\]]*)\])?(?::(.*))?", re.DOTALL)


class ArgumentError(ValueError):
    """One `--arg` that is not of the grammar.  `given` and `allowed` are for a Fault."""

    def __init__(self, given: str, allowed: str = FORMS):
        super().__init__(given)
        self.given, self.allowed = given, allowed


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """A pointer to a buffer.  shape: None where the file says it.  content: of FILLS, a number, or a path of a .npy."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    content: str | int | float
    seed: int

    @property
    def file(self) -> str | None:
        return self.content if isinstance(self.content, str) and self.content.endswith(".npy") else None


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number by value."""

    name: str
    dtype: str
    value: int | float


@dataclass(frozen=True, slots=True)
class NullArgument:
    """A pointer to nothing."""

    name: str


GivenArgument = BufferArgument | ScalarArgument | NullArgument


def parse_argument(text: str, position: int) -> GivenArgument:
    """One `--arg`; without a name it is called `argPOSITION`.  Raises ArgumentError."""
    named = _NAME.fullmatch(text)
    name, value = (named[1], named[2]) if named else (f"arg{position}", text)
    if value == "null":
        return NullArgument(name)
    parts = _VALUE.fullmatch(value)
    if parts is None:
        raise ArgumentError(repr(text))
    dtype, sizes, content = parts.groups()
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, DTYPES)
        raise ArgumentError(f"{dtype!r} is not a dtype" + (f", {hint}" if hint else ""), ", ".join(DTYPES))
    if sizes is None and content is not None and not content.endswith(".npy"):
        return ScalarArgument(name, dtype, parse_number(dtype, content))
    if not content:
        raise ArgumentError(f"{value!r} does not say what it holds", f":{', :'.join(FILLS)}, :NUMBER, :FILE.npy")
    shape = None if sizes is None else _shape(dtype, sizes)
    fill, seed = _content(dtype, content, position)
    return BufferArgument(name, dtype, shape, fill, seed)


def parse_number(dtype: str, text: str) -> int | float:
    """A number that fits the dtype.  Raises ArgumentError."""
    if dtype in INTEGERS:
        bits = 8 * INTEGERS[dtype]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
        try:
            value = int(text, 0)
        except ValueError:
            raise ArgumentError(f"{text!r} is not a whole number", f"{low} to {high}") from None
        if not low <= value <= high:
            raise ArgumentError(f"{text} does not fit {dtype}", f"{low} to {high}")
        return value
    try:
        number = float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is not a number", "as Python writes it, inf and nan too") from None
    largest = LARGEST[dtype]
    if (math.isfinite(number) and abs(number) > largest) or (math.isinf(number) and dtype == "fp8"):
        raise ArgumentError(f"{text} does not fit {dtype}", f"{-largest:g} to {largest:g}")
    return number


def _shape(dtype: str, text: str) -> tuple[int, ...]:
    sizes = [item.strip() for item in text.split(",")]
    whole = all(item.isascii() and item.isdigit() and len(item) <= _MOST_DIGITS and int(item) for item in sizes)
    if not whole or len(sizes) > _MOST_DIMENSIONS:
        allowed = f"1 to {_MOST_DIMENSIONS} sizes of 1 and more, such as [1000] or [64,128]"
        raise ArgumentError(f"[{text[:60]}] is not a shape", allowed)
    shape = tuple(map(int, sizes))
    if math.prod(shape) * DTYPES[dtype] > _MOST_BYTES:
        raise ArgumentError(f"{dtype}[{text}] is too large", f"{_MOST_BYTES:,} bytes")
    return shape


def _content(dtype: str, text: str, position: int) -> tuple[str | int | float, int]:
    if text.endswith(".npy"):
        return text, 0
    fill, _, seed = text.partition(":")
    if fill not in FILLS:
        try:
            return parse_number(dtype, text), 0
        except ArgumentError as error:
            hint = did_you_mean(text, FILLS)
            given = f"{error.given}, and no content by that name" + (f", {hint}" if hint else "")
            raise ArgumentError(given, f"{', '.join(FILLS)}, FILE.npy, or a number: {error.allowed}") from None
    if dtype in INTEGERS and fill in ("nan", "normal"):
        raise ArgumentError(f"{fill} of integers", f"{dtype}[…]: zeros, ones, arange, uniform, a number or FILE.npy")
    if seed and not (fill in _RANDOM and seed.isascii() and seed.isdigit() and len(seed) <= _MOST_DIGITS):
        raise ArgumentError(f"seed {seed[:60]!r} of {fill}", f"a whole number, of {' and '.join(_RANDOM)} alone")
    return fill, int(seed) if seed else position
