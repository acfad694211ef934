"""One instruction in the assembler's syntax, and whether that text says all that its bits do.

The assembler chooses the bits that its text does not name: unused fields, the form of a constant, the order of equal
encodings.  So the writer keeps account of the fields it put into words; all others must hold what the assembler puts
there.  `assembly` prints an instruction that fails this as numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .expressible import is_expressible
from .immediate_text import immediate_text, is_branch
from .instruction import Instruction
from .memory_text import write_buffer, write_ds, write_flat, write_smem
from .vector_text import write_pair, write_vector
from .writing import Writing


@dataclass(frozen=True, slots=True)
class Text:
    """`line` is what the assembler would be given; exact: whether it would make the same bits of it."""

    line: str
    exact: bool


def instruction_text(instruction: Instruction, target: str | None = None) -> Text:
    """target: the label of the place that a branch leads to; without one the distance in words is written."""
    writing = Writing(instruction)
    _WRITERS[instruction.encoding](writing)
    if target is not None and is_branch(instruction.opcode):
        writing.shown[-1] = target
    return Text(writing.line(), writing.exact() and is_expressible(instruction))


def _write_scalar(writing: Writing) -> None:
    opcode = writing.instruction.opcode
    for operand in writing.instruction.operands:
        writing.operand(operand.role)
    if "fmaak" in opcode:
        writing.shown.append(writing.literal())
    elif "fmamk" in opcode:
        writing.shown.insert(2, writing.literal())
    elif opcode == "s_sendmsg_rtn_b32" or opcode == "s_sendmsg_rtn_b64":
        writing.shown[-1] = f"sendmsg({writing['ssrc0']:#x})"


def _write_immediate(writing: Writing) -> None:
    opcode, value = writing.instruction.opcode, writing["simm16"]
    for operand in writing.instruction.operands:
        writing.operand(operand.role)
    if is_branch(opcode):
        writing.shown.append(str(value))
    elif (text := immediate_text(opcode, value)) is not None:
        writing.shown.insert(0 if "setreg" in opcode else len(writing.shown), text)
    elif value:
        writing.refuse()
    if opcode == "s_setreg_imm32_b32":
        writing.shown.append(writing.literal())


def _write_numbers(writing: Writing) -> None:
    """Pixel shaders' interpolation: no compute code has it."""
    writing.refuse()


_WRITERS: dict[str, Callable[[Writing], None]] = {
    "SOP1": _write_scalar,
    "SOP2": _write_scalar,
    "SOPC": _write_scalar,
    "SOPK": _write_immediate,
    "SOPP": _write_immediate,
    "SMEM": write_smem,
    "DS": write_ds,
    "VBUFFER": write_buffer,
    "VFLAT": write_flat,
    "VGLOBAL": write_flat,
    "VSCRATCH": write_flat,
    "VOPD": write_pair,
    **dict.fromkeys(("VOP1", "VOP2", "VOP3", "VOP3P", "VOP3SD", "VOPC"), write_vector),
    "VINTERP": _write_numbers,
}
