"""Inline constants and literals as typed numbers (RDNA4 ISA, 'Scalar source operands' and 'Literal constants')."""

from __future__ import annotations

import numpy as np

from ..instruction import Instruction
from ..registry import Refused

DTYPES = {
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
}
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189532}
_UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_FLOAT_OF = {16: np.float16, 32: np.float32, 64: np.float64}
LITERAL = 255


def width(kind: str) -> int:
    """Bits of a kind of operand: 32 for `f32`."""
    return int(kind[1:])


def constant(number: int, literal: int | None, kind: str) -> np.generic:
    """The constant with source number `number`, read as `kind`.

    Integer constants are integers whatever the operand is; float constants have the operand's width; a literal has 32
    bits, of which a 64-bit float takes its upper half, a 64-bit integer its lower, signed or not as the operand is.
    """
    bits = _bits(number, literal, kind) & ((1 << width(kind)) - 1)
    return _UNSIGNED[width(kind)](bits).view(DTYPES[kind])


def _bits(number: int, literal: int | None, kind: str) -> int:
    size = width(kind)
    if number == LITERAL:
        if literal is None:
            raise Refused("a literal source without a literal")
        if kind == "f64":
            return literal << 32
        return literal - (1 << 32) if kind == "i64" and literal >> 31 else literal
    if 128 <= number <= 192:
        return number - 128
    if 193 <= number <= 208:
        return 192 - number
    if number in _FLOATS:
        return int(_FLOAT_OF[size](_FLOATS[number]).view(_UNSIGNED[size]))
    raise Refused(f"source {number} is no constant that a compute kernel may read")


def is_constant(number: int) -> bool:
    """Whether a source number is an inline constant or a literal."""
    return 128 <= number <= 208 or 240 <= number <= 248 or number == LITERAL


def instruction_constant(instruction: Instruction, number: int, kind: str) -> np.generic:
    return constant(number, instruction.literal, kind)
