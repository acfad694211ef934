"""The text of one instruction while it is being put together."""

from __future__ import annotations

from .encodings import ENCODINGS, operand_form
from .instruction import EXEC, NULL, Instruction, Operand
from .operand_text import INVERSE_TWO_PI, INVERSE_TWO_PI_64, has_spelling, operand_text, would_be_inlined

# What the assembler puts into fields that its text does not name; the lowest number into all others.
_ZERO = 128  # the inline constant 0
_UNNAMED = {"saddr": NULL, "soffset": NULL, "src1": _ZERO, "src2": _ZERO, "format": 1}
_REGISTERS = ("vdst", "vdata", "vaddr", "vsrc", "vsrc1", "addr", "data0", "data1")
_NEVER_NAMED = ("op", "opx", "opy")
_FLOATS = ("NUM_F", "NUM_BF", "NUM_PK2_F", "NUM_PK2_BF")


class Writing:
    """Operands in `shown`, modifiers in `modifiers`; reading a field notes that the text names it."""

    def __init__(self, instruction: Instruction):
        self.instruction = instruction
        self.name = instruction.name
        self.shown: list[str] = []
        self.modifiers: list[str] = []
        self._named = set(_NEVER_NAMED)
        self._refused = False

    def __getitem__(self, field: str) -> int:
        self._named.add(field)
        return self.instruction[field]

    def has(self, role: str) -> bool:
        return self.instruction.operand(role) is not None

    def refuse(self) -> None:
        """Note that the assembler has no words for something in this instruction."""
        self._refused = True

    def form(self, role: str) -> tuple[int, bool]:
        """Width in bits of an operand, and whether it is a floating-point number."""
        size = operand_form(self.instruction.encoding, self.instruction["op"], role)
        return size.bits, size.form.startswith(_FLOATS)

    def source(self, role: str, *, halves: bool = True, explicit: bool = False) -> str:
        """The text of an operand, taken note of and checked. explicit: say of every constant where it stands."""
        operand = self.instruction.operand(role)
        if operand is None:
            raise LookupError(f"{self.name} has no {role}")
        self._named.add(role)
        if not has_spelling(operand):
            self.refuse()
        if operand.kind == "literal":
            return self._written_literal(role, explicit)
        if operand.kind == "constant" and operand.index == INVERSE_TWO_PI and self.form(role)[0] == 64:
            return INVERSE_TWO_PI_64
        return operand_text(operand, self.instruction.literal, halves=halves)

    def operand(self, role: str, *, halves: bool = True) -> None:
        self.shown.append(self.source(role, halves=halves))

    def literal(self) -> str:
        """The constant of an instruction that always has one, whatever its value."""
        if self.name.endswith("f16") and (self.instruction.literal or 0) >> 16:
            self.refuse()
        if self.instruction.literal is None:  # lane permutations take the place of it
            self.refuse()
        return f"{self.instruction.literal or 0:#x}"

    def register(self, operand: Operand) -> str:
        if not has_spelling(operand):
            self.refuse()
        return operand_text(operand, None)

    def line(self) -> str:
        return " ".join([f"{self.name} {', '.join(self.shown)}".rstrip(), *self.modifiers])

    def exact(self) -> bool:
        """Whether every field that the text does not name holds what the assembler puts there."""
        left = (item for item in self.instruction.fields.items() if item[0] not in self._named)
        return not self._refused and all(value == self._unnamed(name) for name, value in left)

    def _unnamed(self, field: str) -> int:
        if field == "vdst" and self.instruction.opcode.startswith("v_cmpx"):
            return EXEC
        if self.instruction.dpp and field in ("src1", "src2") and not self.instruction.opcode.startswith("v_cmpx"):
            return 0
        if self.instruction.opcode == "s_dcache_inv":
            return 0
        if field == "src0" and self.instruction.encoding == "VOP3":
            return _ZERO
        lowest = ENCODINGS[self.instruction.encoding].fields[field].offset if field in _REGISTERS else 0
        return _UNNAMED.get(field, lowest)

    def _written_literal(self, role: str, explicit: bool) -> str:
        """A constant behind the instruction: `lit(…)` keeps the assembler from putting it into the instruction."""
        literal = self.literal()
        bits, is_float = self.form(role)
        if bits == 16 and (self.instruction.literal or 0) >> 16:
            self.refuse()
        inlined = would_be_inlined(self.instruction.literal or 0, bits, is_float=is_float)
        return f"lit({literal})" if inlined or explicit else literal
