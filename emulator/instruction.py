"""The decoded instruction: a frozen record, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

VGPR = 256  # source numbers from here on are vector registers
VCC, NULL, M0, EXEC, SCC = 106, 124, 125, 126, 253

OperandKind = Literal["vgpr", "sgpr", "constant", "literal", "null", "scc"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `index` is the register's number within its file, or the encoded number of a constant.

    `role` is the field's name in the ISA document (`src0`, `vdst`, …); `registers` how many 32-bit registers it takes.
    `half` is `l` or `h` for half a register, or empty.
    """

    role: str
    kind: OperandKind
    index: int
    registers: int
    written: bool
    half: Literal["", "l", "h"] = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction at `address` (offset from the kernel's entry, bytes).

    `name` is spelled as the assembler writes it (`v_add_f32_e32`, `v_mov_b32_dpp`); `opcode` without the suffix that
    names the encoding, so that the forms of one operation share it. `fields` holds the raw bit fields; sources are
    numbered as in the ISA document, 256 and up being VGPRs. A VOPD pair has two `parts`, which execute as one.
    """

    address: int
    size: int
    encoding: str
    name: str
    opcode: str
    operands: tuple[Operand, ...]
    fields: Mapping[str, int] = field(hash=False)
    literal: int | None
    dpp: Literal["", "dpp16", "dpp8", "dpp8_fi"] = ""
    parts: tuple[Instruction, ...] = ()

    @property
    def text(self) -> str:
        """As the assembler writes it; a branch with its distance in words."""
        from .instruction_text import instruction_text

        return instruction_text(self).line

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    def get(self, name: str, default: int = 0) -> int:
        """A bit field's value, or `default` where this encoding has no such field."""
        return self.fields.get(name, default)

    def operand(self, role: str) -> Operand | None:
        """The operand in that field, if the opcode has one."""
        return next((item for item in self.operands if item.role == role), None)
