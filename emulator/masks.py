"""Which registers an instruction reads and writes, as integers with one bit a register.

Bit r is VGPR r; bit 256 + s the scalar register with operand number s (VCC is 106, EXEC 126); bit SCC_BIT is SCC.
Implied registers come from the pseudocode: carries and selections through VCC, conditions through SCC.
"""

from __future__ import annotations

from dataclasses import dataclass

from .instruction import EXEC, VCC, Instruction, Operand
from .isa_tables import PCODE, SOP1Op, SOP2Op, SOPCOp, SOPKOp

SCALAR_BIT = 256
SCC_BIT = SCALAR_BIT + 128
SCC_MASK = 1 << SCC_BIT
VECTOR_MASK = (1 << SCALAR_BIT) - 1


@dataclass(frozen=True, slots=True)
class Masks:
    """`written` leaves out nothing that may change; `read` holds what a result depends on."""

    read: int
    written: int

    @property
    def touched(self) -> int:
        return self.read | self.written


def scalar_mask(register: int, count: int = 1) -> int:
    return ((1 << count) - 1) << (SCALAR_BIT + register)


def _scc_use() -> tuple[frozenset[str], frozenset[str]]:
    """Opcodes that read SCC, and that write it, from their pseudocode."""
    readers, writers = set(), set()
    for member, text in PCODE.items():
        if not isinstance(member, SOP1Op | SOP2Op | SOPCOp | SOPKOp):
            continue
        name = member.name.lower()
        for line in text.split("\n"):
            left, equals, right = line.partition("=")
            if left.strip() == "SCC" and equals:
                writers.add(name)
            if "SCC" in (right if left.strip() == "SCC" else line) and not name.startswith(("s_min", "s_max")):
                readers.add(name)
    return frozenset(readers), frozenset(writers)


_SCC_READERS, _SCC_WRITERS = _scc_use()
READ_DESTINATION = ("v_fmac", "v_pk_fmac", "v_writelane", "v_swap", "s_fmac", "s_cmov", "s_addk", "s_mulk", "s_bitset")
_VCC_READERS = ("v_div_fmas", "s_cbranch_vcc")


def operand_mask(operand: Operand) -> int:
    if operand.kind == "vgpr":
        return ((1 << operand.registers) - 1) << operand.index
    if operand.kind == "sgpr":
        return scalar_mask(operand.index, operand.registers)
    return SCC_MASK if operand.kind == "scc" else 0


def register_masks(instruction: Instruction) -> Masks:
    """The masks of one instruction; of a VOPD pair, both halves together."""
    if instruction.parts:
        parts = [register_masks(part) for part in instruction.parts]
        return Masks(parts[0].read | parts[1].read, parts[0].written | parts[1].written)
    read = written = 0
    name = instruction.opcode
    for operand in instruction.operands:
        mask = operand_mask(operand)
        is_written = operand.written and not _not_returned(instruction, operand)
        if is_written:
            written |= mask
            if name.startswith(READ_DESTINATION):
                read |= mask
        elif not operand.written:
            read |= mask
    if instruction.encoding == "VBUFFER" and "_atomic_" in name and instruction["th"] & 1:
        written |= sum(operand_mask(item) for item in instruction.operands if item.role == "vdata")
    if name.startswith("v_swap"):
        written |= sum(operand_mask(item) for item in instruction.operands if item.role == "src0")
    return Masks(read | _implied_read(instruction), written | _implied_written(instruction))


def _not_returned(instruction: Instruction, operand: Operand) -> bool:
    """The destination field of an atomic that returns nothing means nothing."""
    return operand.role == "vdst" and "_atomic_" in instruction.opcode and not instruction.get("th") & 1


def _implied_read(instruction: Instruction) -> int:
    name, short = instruction.opcode, not instruction.encoding.startswith("VOP3")
    mask = SCC_MASK if name in _SCC_READERS or name.startswith("s_cbranch_scc") else 0
    if name.startswith(_VCC_READERS) or (short and ("cndmask" in name or "_co_ci_" in name)):
        mask |= scalar_mask(VCC)
    if name.startswith("s_cbranch_exec") or "saveexec" in name or "wrexec" in name:
        mask |= scalar_mask(EXEC)
    return mask


def _implied_written(instruction: Instruction) -> int:
    name = instruction.opcode
    mask = SCC_MASK if name in _SCC_WRITERS or instruction.encoding == "SOPC" else 0
    if instruction.encoding == "VOPC" and not name.startswith("v_cmpx"):
        mask |= scalar_mask(VCC)
    if instruction.encoding == "VOP2" and "_co_ci_" in name:
        mask |= scalar_mask(VCC)
    if name.startswith("v_cmpx") or "saveexec" in name or "wrexec" in name:
        mask |= scalar_mask(EXEC)
    return mask


def register_names(mask: int) -> str:
    """`v5, v6, s4, scc`: what a mask holds, for messages."""
    from .operand_text import scalar_name

    names = []
    while mask:
        low = mask & -mask
        bit = low.bit_length() - 1
        mask ^= low
        if bit < SCALAR_BIT:
            names.append(f"v{bit}")
        else:
            names.append("scc" if bit == SCC_BIT else scalar_name(bit - SCALAR_BIT))
    return ", ".join(names)
