"""Registers, constants and literals in the assembler's spelling, and which of them it has no spelling for."""

from __future__ import annotations

import struct

from .instruction import Operand

_SPECIAL = {106: "vcc_lo", 107: "vcc_hi", 124: "null", 125: "m0", 126: "exec_lo", 127: "exec_hi"}
_PAIRS = {106: "vcc", 124: "null", 126: "exec"}
_FLOATS = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0"}
# 1 / (2 pi), which 64-bit operands want in full.
INVERSE_TWO_PI, INVERSE_TWO_PI_64 = 248, "0.15915494309189532"
_FLOATS[INVERSE_TWO_PI] = "0.15915494"
_OTHER = {
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    253: "src_scc",
}
_LAST_SGPR, _FIRST_TTMP, _LAST_TTMP = 105, 108, 123
_VGPRS = 256


def scalar_name(index: int, registers: int = 1) -> str:
    """`s5`, `s[4:7]`, `vcc`, `ttmp9`: a scalar register or an aligned run of them."""
    if registers == 2 and index in _PAIRS:
        return _PAIRS[index]
    if index in _SPECIAL:
        return _SPECIAL[index]
    prefix, first = ("ttmp", index - _FIRST_TTMP) if _FIRST_TTMP <= index <= _LAST_TTMP else ("s", index)
    return f"{prefix}{first}" if registers == 1 else f"{prefix}[{first}:{first + registers - 1}]"


def vector_name(index: int, registers: int = 1, half: str = "") -> str:
    """`v5`, `v[4:7]`, `v5.h`."""
    if registers > 1:
        return f"v[{index}:{index + registers - 1}]"
    return f"v{index}.{half}" if half else f"v{index}"


def constant_name(number: int) -> str:
    """An inline constant by its source number (RDNA4 ISA, 'Scalar source operands')."""
    if 128 <= number <= 192:
        return str(number - 128)
    if 193 <= number <= 208:
        return str(192 - number)
    return _FLOATS.get(number) or _OTHER.get(number) or f"src_{number}"


def operand_text(operand: Operand, literal: int | None, *, halves: bool = True) -> str:
    """An operand. halves: whether the half of a register is part of its name, as it is where OPSEL does not say it."""
    if operand.kind == "vgpr":
        return vector_name(operand.index, operand.registers, operand.half if halves else "")
    if operand.kind == "literal":
        return f"{literal:#x}"
    if operand.kind == "scc":
        return "src_scc"
    if operand.kind == "constant":
        return constant_name(operand.index)
    return scalar_name(operand.index, operand.registers)


def has_spelling(operand: Operand) -> bool:
    """Whether the assembler has a name for this register or constant: runs are aligned and end inside their file."""
    if operand.kind == "vgpr":
        return operand.index + operand.registers <= _VGPRS
    if operand.kind in ("sgpr", "null"):
        return _scalar_has_spelling(operand.index, operand.registers)
    return operand.kind in ("literal", "scc") or not constant_name(operand.index).startswith("src_2")


def _scalar_has_spelling(index: int, registers: int) -> bool:
    if registers == 1 or (registers == 2 and index in _PAIRS):
        return True
    aligned = index % min(4, registers) == 0 if registers != 3 else index % 4 == 0
    last = index + registers - 1
    inside = last <= _LAST_SGPR or (index >= _FIRST_TTMP and last <= _LAST_TTMP)
    return aligned and inside


def inline_float(number: int, bits: int) -> int:
    """The bits that an inline constant from 240 to 248 stands for, in a float of 16, 32 or 64 bits."""
    value = float(constant_name(number))
    if number == 248:
        return {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}[bits]
    return int.from_bytes(struct.pack({16: "<e", 32: "<f", 64: "<d"}[bits], value), "little")


def would_be_inlined(literal: int, bits: int, *, is_float: bool) -> bool:
    """Whether the assembler makes an inline constant of this literal, which the code at hand did not.

    bits: the operand's width; a literal of a 64-bit float stands for its upper half.
    """
    if bits == 16:
        value, signed = literal, literal - (1 << 16) if literal >> 15 else literal
    else:
        value, signed = literal, literal - (1 << 32) if literal >> 31 else literal
    if -16 <= signed <= 64:
        return True
    if bits == 64 and is_float:
        return any(inline_float(number, 64) == literal << 32 for number in range(240, 249))
    width = 16 if bits == 16 else 32
    return any(inline_float(number, width) == value for number in range(240, 249))
