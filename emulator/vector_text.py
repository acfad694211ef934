"""Vector arithmetic in the assembler's syntax: source modifiers, halves, lane permutations."""

from __future__ import annotations

import re

from .instruction import VGPR, Instruction
from .modifier_text import bit_list, dpp8_text, dpp16_text, lane_control, output_text
from .operand_text import has_spelling, operand_text, would_be_inlined
from .writing import Writing

_POSITIONS = {"src0": 0, "src1": 1, "vsrc1": 1, "src2": 2}
_MIXED = "v_fma_mix"
_UNSIGNED = re.compile(r"v_cvt_(?:pk_)?f32_(?:fp8|bf8)")  # codes of 8 bits have no sign modifiers


def write_vector(writing: Writing) -> None:
    instruction = writing.instruction
    if instruction.dpp.startswith("dpp8"):
        writing.name = instruction.name.removesuffix("8")
    halves = instruction.encoding in ("VOP1", "VOP2", "VOP3", "VOPC")
    for operand in instruction.operands:
        if operand.role == "vdst" and instruction.opcode.startswith("v_cmpx"):
            continue
        text = writing.source(operand.role, halves=halves, explicit=_packs(instruction))
        writing.shown.append(text if operand.written else _modified(writing, operand.role, text))
    _add_implied(writing)
    if instruction.encoding == "VOP3P":
        _packed_modifiers(writing)
    elif instruction.encoding in ("VOP3", "VOP3SD"):
        _long_modifiers(writing)
    if instruction.dpp:
        _lanes(writing)


def _is_wide(writing: Writing, role: str) -> bool:
    return writing.form(role)[0] == 64


def _packs(instruction: Instruction) -> bool:
    """Whether constants are pairs of halves, of which the assembler has ideas of its own."""
    return instruction.encoding == "VOP3P" or instruction.opcode.startswith(("v_dot2", "v_pk_"))


def _modified(writing: Writing, role: str, text: str) -> str:
    """A source with its sign modifiers: `-v1`, `|v1|`, `neg(1.0)`."""
    negative, absolute = _signs(writing, role)
    if (negative or absolute) and not _takes_signs(writing, role):
        writing.refuse()
    kind = writing.instruction.operand(role).kind
    if (
        kind == "literal"
        and (negative or absolute)
        and ((text.startswith("lit(") and absolute) or _is_wide(writing, role))
    ):
        writing.refuse()
    if absolute:
        text = f"|{text}|"
    if not negative:
        return text
    constant = kind in ("constant", "literal")
    return f"neg({text})" if constant and not absolute else f"-{text}"


def _signs(writing: Writing, role: str) -> tuple[int, int]:
    instruction, position = writing.instruction, _POSITIONS.get(role)
    if position is None:
        return 0, 0
    if instruction.encoding in ("VOP3", "VOP3SD"):
        absolute = writing["abs"] >> position & 1 if instruction.encoding == "VOP3" else 0
        return writing["neg"] >> position & 1, absolute
    if instruction.opcode.startswith(_MIXED):
        return writing["neg"] >> position & 1, writing["neg_hi"] >> position & 1
    if instruction.dpp == "dpp16" and position < 2:
        return writing[f"src{position}_neg"], writing[f"src{position}_abs"]
    return 0, 0


def _takes_signs(writing: Writing, role: str) -> bool:
    opcode = writing.instruction.opcode
    if _UNSIGNED.match(opcode) or (opcode.startswith("v_ldexp") and role != "src0"):
        return False
    return writing.form(role)[1] or (opcode.startswith((_MIXED, "v_cndmask")) and role != "src2")


def _add_implied(writing: Writing) -> None:
    """VCC, where the short form of an instruction implies it, and the constant of those that always have one."""
    instruction, shown = writing.instruction, writing.shown
    opcode = instruction.opcode
    if instruction.encoding == "VOPC" and not opcode.startswith("v_cmpx"):
        shown.insert(0, "vcc_lo")
    elif instruction.encoding == "VOP2" and "_co_ci_" in opcode:
        shown.insert(1, "vcc_lo")
        shown.append("vcc_lo")
    elif instruction.encoding == "VOP2" and opcode.startswith("v_cndmask"):
        shown.append("vcc_lo")
    elif "fmaak" in opcode:
        shown.append(writing.literal())
    elif "fmamk" in opcode:
        shown.insert(2, writing.literal())


def _long_modifiers(writing: Writing) -> None:
    instruction = writing.instruction
    if instruction.encoding == "VOP3":
        _halves(writing, writing["opsel"])
    writing.modifiers += output_text(writing["clmp"], writing["omod"])
    there = sum(1 << _POSITIONS[role] for role in ("src0", "src1", "src2") if writing.has(role))
    if (writing["neg"] | instruction.get("abs")) & ~there:
        writing.refuse()


def _halves(writing: Writing, selected: int) -> None:
    """OPSEL of VOP3: bits of 16-bit registers are in their names; the others are written out where they have words."""
    opcode = writing.instruction.opcode
    if opcode.startswith(("v_permlane16", "v_permlanex16")):
        writing.modifiers += [bit_list("op_sel", selected & 3, 2)] if selected & 3 else []
        selected &= ~3
    for position, role in enumerate(("src0", "src1", "src2", "vdst")):
        operand = writing.instruction.operand(role)
        if operand is not None and operand.half:
            selected &= ~(1 << position)
    if selected:
        writing.refuse()


def _packed_modifiers(writing: Writing) -> None:
    instruction = writing.instruction
    sources = sum(writing.has(role) for role in ("src0", "src1", "src2"))
    selected, high = writing["opsel"], writing["opsel_hi"] | writing["opsel_hi2"] << 2
    mixed = instruction.opcode.startswith(_MIXED)
    if sources == 2 and (high < 4 or (selected | writing["neg"] | writing["neg_hi"]) & 4):
        writing.refuse()
    usual = 0 if mixed else (1 << sources) - 1
    if selected:
        writing.modifiers.append(bit_list("op_sel", selected, sources))
    if high & ((1 << sources) - 1) != usual:
        writing.modifiers.append(bit_list("op_sel_hi", high, sources))
    if not mixed:
        for name in ("neg", "neg_hi"):
            if value := writing[name]:
                writing.modifiers.append(bit_list("neg_lo" if name == "neg" else name, value, sources))
    writing.modifiers += output_text(writing["clmp"], 0)


def _lanes(writing: Writing) -> None:
    instruction = writing.instruction
    if instruction.dpp != "dpp16":
        for lane in range(8):
            _ = writing[f"lane_sel_{lane}"]
        writing.modifiers += dpp8_text(instruction.fields, fetch_invalid=instruction.dpp == "dpp8_fi")
        return
    for name in ("dpp", "row_mask", "bank_mask", "bc", "fi"):
        _ = writing[name]
    if not lane_control(instruction["dpp"]):
        writing.refuse()
    writing.modifiers += dpp16_text(instruction.fields)


def write_pair(writing: Writing) -> None:
    """VOPD: two operations side by side; or one of the two, for messages."""
    instruction = writing.instruction
    for name in instruction.fields:
        _ = writing[name]
    halves = [_half_text(writing, part) for part in instruction.parts or (instruction,)]
    writing.name = " :: ".join(halves)


def _half_text(writing: Writing, part: Instruction) -> str:
    shown = []
    for operand in part.operands:
        if not has_spelling(operand):
            writing.refuse()
        text = operand_text(operand, part.literal)
        packed = part.opcode.startswith("v_dot2")
        inlined = operand.kind == "literal" and (packed or would_be_inlined(part.literal or 0, 32, is_float=True))
        shown.append(f"lit({text})" if inlined else text)
    if "fmaak" in part.opcode:
        shown.append(f"{part.literal:#x}")
    elif "fmamk" in part.opcode:
        shown.insert(2, f"{part.literal:#x}")
    elif part["vsrc1"] != VGPR and len(part.operands) == 2:
        writing.refuse()
    return f"{part.name} {', '.join(shown)}"
