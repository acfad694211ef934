"""gfx12 machine code as assembly: what the assembler of LLVM reads, with labels, giving the same bytes again.

    .L1:                                        ; where a branch leads
        s_cbranch_scc1 .L1
        v_mov_b32_e32 v0, lit(0x1)              ; a constant that would else become part of the instruction
        .long 0xbe874804                        ; s_setpc_b64 s[4:5]

The last is an instruction whose text would be assembled into other bytes: here one with a destination that it does not
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .decode import DecodeError, decode_one
from .encodings import reserved_bits
from .immediate_text import is_branch
from .instruction import Instruction
from .instruction_text import instruction_text
from .modifier_text import signed

Items = Sequence[tuple[int, Instruction | None]]


@dataclass(frozen=True, slots=True)
class AssemblyLine:
    """One instruction: `address` in bytes from the code's start; `label` of this place, or empty; `text` of one line;
    `data` the directives to write where the text would not give the same bytes."""

    address: int
    label: str
    text: str
    data: tuple[str, ...] = ()


def disassemble(code: bytes, *, prefix: str = ".L") -> tuple[AssemblyLine, ...]:
    """Every instruction of `code`, padding included. Bytes that are no gfx12 compute instruction come as words.

    Labels are `prefix` and a number, in order of address: `.L0`, `.L1`. A branch to no instruction's start has a number
    instead.
    """
    items = tuple(_items(code))
    labels = _labels(items, prefix)
    return tuple(_line(address, item, code, labels) for address, item in items)


def assembly_text(lines: tuple[AssemblyLine, ...]) -> str:
    """The lines as a file for the assembler, without directives that choose a section or a target."""
    written: list[str] = []
    for line in lines:
        if line.label:
            written.append(f"{line.label}:")
        if not line.data:
            written.append(f"\t{line.text}")
        for position, directive in enumerate(line.data):
            comment = f"  ; {line.text}" if line.text and not position else ""
            written.append(f"\t{directive}{comment}")
    return "\n".join(written) + "\n"


def _items(code: bytes) -> Iterator[tuple[int, Instruction | None]]:
    """(address, instruction), or (address, None) for four bytes that are none."""
    at = 0
    while at < len(code):
        try:
            instruction = decode_one(code, at)
        except DecodeError:
            instruction = None
        yield at, instruction
        at += instruction.size if instruction else 4


def branch_target(instruction: Instruction) -> int | None:
    """Where a branch leads, in bytes as its own address is; `None` for any other instruction."""
    if not is_branch(instruction.opcode):
        return None
    return instruction.address + instruction.size + 4 * signed(instruction["simm16"], 16)


def _labels(items: Items, prefix: str) -> Mapping[int, str]:
    starts = {address for address, _ in items}
    targets = {branch_target(instruction) for _, instruction in items if instruction is not None}
    places = sorted(target for target in targets if target in starts)
    return {address: f"{prefix}{number}" for number, address in enumerate(places)}


def _line(address: int, instruction: Instruction | None, code: bytes, labels: Mapping[int, str]) -> AssemblyLine:
    label = labels.get(address, "")
    if instruction is None:
        return AssemblyLine(address, label, "", _data(code[address : address + 4]))
    target = labels.get(branch_target(instruction))
    text = instruction_text(instruction, target)
    raw = code[address : address + instruction.size]
    fields = raw[: -4 if instruction.literal is not None else None]
    if text.exact and not reserved_bits(int.from_bytes(fields, "little"), instruction.encoding, instruction.dpp):
        return AssemblyLine(address, label, text.line)
    return AssemblyLine(address, label, text.line, _data(raw))


def _data(raw: bytes) -> tuple[str, ...]:
    if len(raw) % 4:
        return tuple(f".byte {byte:#04x}" for byte in raw)
    return tuple(f".long {int.from_bytes(raw[at : at + 4], 'little'):#010x}" for at in range(0, len(raw), 4))
