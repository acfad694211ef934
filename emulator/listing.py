"""An instruction as text, close to what the assembler writes: for messages and for people, never parsed."""

from __future__ import annotations

from .instruction import Instruction, Operand

_SPECIAL = {106: "vcc_lo", 107: "vcc_hi", 124: "null", 125: "m0", 126: "exec_lo", 127: "exec_hi"}
_PAIRS = {106: "vcc", 126: "exec"}
_FLOATS = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0", 246: "4.0", 247: "-4.0"}
_OTHER = {235: "src_shared_base", 236: "src_shared_limit", 237: "src_private_base", 238: "src_private_limit"}
# Fields worth seeing that are no operands, in the order in which they are written.
_MODIFIERS = ("ioffset", "offset0", "offset1", "opsel", "opsel_hi", "neg", "abs", "omod", "clmp", "dpp", "row_mask")
_DEFAULTS = {"opsel_hi": 3, "row_mask": 15}


def scalar_name(index: int, registers: int = 1) -> str:
    """`s5`, `s[4:7]`, `vcc`, `ttmp9`: a scalar register or an aligned run of them."""
    if registers == 2 and index in _PAIRS:
        return _PAIRS[index]
    if index in _SPECIAL:
        return _SPECIAL[index]
    prefix, first = ("ttmp", index - 108) if 108 <= index < 124 else ("s", index)
    return f"{prefix}{first}" if registers == 1 else f"{prefix}[{first}:{first + registers - 1}]"


def constant_name(number: int) -> str:
    """An inline constant by its source number (RDNA4 ISA, 'Scalar source operands')."""
    if 128 <= number <= 192:
        return str(number - 128)
    if 193 <= number <= 208:
        return str(192 - number)
    return _FLOATS.get(number) or _OTHER.get(number) or ("0.15915494" if number == 248 else f"src_{number}")


def operand_text(operand: Operand, literal: int | None, *, halves: bool = True) -> str:
    if operand.kind == "vgpr":
        last = operand.index + operand.registers - 1
        if operand.half and halves:
            return f"v{operand.index}.{operand.half}"
        return f"v{operand.index}" if operand.registers == 1 else f"v[{operand.index}:{last}]"
    if operand.kind == "literal":
        return f"{literal:#x}"
    if operand.kind == "scc":
        return "src_scc"
    if operand.kind == "constant":
        return constant_name(operand.index)
    return scalar_name(operand.index, operand.registers)


def instruction_text(instruction: Instruction) -> str:
    """One line; the halves of a VOPD pair with `::` between."""
    if instruction.parts:
        return " :: ".join(instruction_text(part) for part in instruction.parts)
    halves = instruction.encoding in ("VOP1", "VOP2", "VOP3", "VOPC")
    shown = [
        operand_text(item, instruction.literal, halves=halves)
        for item in instruction.operands
        if not _unwritten(instruction, item)
    ]
    shown = _implied(instruction, shown)
    if "simm16" in instruction.fields:
        shown.append(f"{instruction['simm16']:#x}")
    text = f"{instruction.name} {', '.join(shown)}".rstrip()
    for name in _MODIFIERS:
        value = instruction.get(name)
        if name in instruction.fields and value != _DEFAULTS.get(name, 0):
            if name == "ioffset" and value >> 23:
                value -= 1 << 24
            text += f" {name}:{value}"
    return text


def _unwritten(instruction: Instruction, operand: Operand) -> bool:
    """Fields that the assembler does not write: no base register, EXEC of v_cmpx, results that are not returned."""
    if operand.kind == "null" and operand.role in ("saddr", "soffset"):
        return True
    if operand.role != "vdst":
        return False
    returns_nothing = "_atomic_" in instruction.opcode and not instruction.get("th") & 1
    return returns_nothing or instruction.opcode.startswith("v_cmpx")


def _implied(instruction: Instruction, shown: list[str]) -> list[str]:
    """VCC, where the short form of an instruction implies it."""
    opcode = instruction.opcode
    if instruction.encoding == "VOPC" and not opcode.startswith("v_cmpx"):
        return ["vcc_lo", *shown]
    if instruction.encoding == "VOP2" and "_co_ci_" in opcode:
        return [shown[0], "vcc_lo", *shown[1:], "vcc_lo"]
    if instruction.encoding == "VOP2" and opcode.startswith("v_cndmask"):
        return [*shown, "vcc_lo"]
    return shown
