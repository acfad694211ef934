"""Every way in which the instructions of a kernel are made wrong, one at a time, as bytes of the same size.

deleted     s_nop in its place, so that no address changes
operation   another operation on the same operands; a branch on the inverted condition; a comparison at its boundary
operand     a neighbouring register or offset; a source negated, or exchanged with the other; a wait for one fewer;
            of a barrier, its signal and its wait both deleted
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.emulator import EmulationError, Program
from assay.emulator.decode import DecodeError, decode_one
from assay.emulator.encodings import ENCODINGS
from assay.emulator.instruction import Instruction
from assay.objects import Kernel

from .alterations import operands, operations
from .classes import class_of

KINDS = ("deleted", "operation", "operand")
NOP = 0xBF800000.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel's code with one instruction changed.  before and after: as the assembler would write it."""

    number: int
    address: int
    before: str
    after: str
    kind: str
    class_name: str
    code: bytes

    @property
    def name(self) -> str:
        """What was done, for reports."""
        done = "deleted" if self.kind == "deleted" else f"→ `{self.after}`"
        return f"{self.address:#06x} `{self.before}` {done}"


def mutants(kernel: Kernel, instructions: Sequence[Instruction]) -> Iterator[Mutant]:
    """Each instruction deleted, with another operation and with another operand, as far as that can be executed."""
    for number, instruction in enumerate(instructions):
        yield _mutant(instruction, number, "deleted", _without(kernel.code, instruction))
        if instruction.opcode == "s_barrier_signal":
            wait = next(item for item in instructions[number:] if item.opcode == "s_barrier_wait")
            code = _without(_without(kernel.code, instruction), wait)
            yield _mutant(instruction, number, "operand", code)
            continue
        for kind, changes in (("operation", operations(instruction)), ("operand", operands(instruction))):
            codes = (_changed(kernel.code, instruction, change) for change in changes)
            code = next((code for code in codes if _is_executable(kernel, instruction, code)), None)
            if code is not None:
                yield _mutant(instruction, number, kind, code)


def program_of(kernel: Kernel, code: bytes) -> Program:
    """The kernel with other code.  Raises EmulationError for an instruction that the emulator refuses."""
    return Program.of_kernel(replace(kernel, code=code), where=kernel.name)


def _mutant(instruction: Instruction, number: int, kind: str, code: bytes) -> Mutant:
    after = decode_one(code, instruction.address).text
    return Mutant(number, instruction.address, instruction.text, after, kind, class_of(instruction), code)


def _without(code: bytes, instruction: Instruction) -> bytes:
    return _replaced(code, instruction.address, NOP * (instruction.size // 4))


def _replaced(code: bytes, address: int, data: bytes) -> bytes:
    return code[:address] + data + code[address + len(data) :]


def _changed(code: bytes, instruction: Instruction, change: Mapping[str, int]) -> bytes:
    """Other values in some bit fields; `literal` is the word behind the instruction."""
    encoding = ENCODINGS[instruction.encoding]
    word = int.from_bytes(code[instruction.address :][: encoding.size], "little")
    for name, value in change.items():
        if name == "literal":
            literal = value.to_bytes(4, "little")
            code = _replaced(code, instruction.address + encoding.size, literal)
            continue
        field = encoding.fields[name]
        word &= ~(field.mask << field.low)
        word |= ((value - field.offset) // field.scale & field.mask) << field.low
    return _replaced(code, instruction.address, word.to_bytes(encoding.size, "little"))


def _is_executable(kernel: Kernel, instruction: Instruction, code: bytes) -> bool:
    """Whether what took the instruction's place is another one of the same size, with semantics."""
    if code == kernel.code:
        return False
    try:
        new = decode_one(code, instruction.address)
        if class_of(instruction) != "branches":  # alone, a branch would lead nowhere
            program_of(kernel, code[new.address : new.address + new.size])
    except (DecodeError, EmulationError):
        return False
    return new.size == instruction.size
