"""Which instructions a program executes: one that no case executes can be made wrong without anybody noticing."""

from __future__ import annotations

from dataclasses import replace

from assay.emulator import Program
from assay.emulator.blocks import Block, Item, build_blocks
from assay.emulator.instruction import EXEC
from assay.emulator.lines import SourceLines
from assay.emulator.masks import Masks
from assay.emulator.state import Group


def recording(program: Program, addresses: set[int]) -> Program:
    """The same program; a launch adds the addresses that it executes with an active lane, block by block."""
    blocks, _ = build_blocks(program.instructions)
    noting = tuple(_noting(block, addresses) for block in blocks)
    return Program(program.kernel, program.instructions, noting, SourceLines(b"", 0))


def _noting(block: Block, addresses: set[int]) -> Block:
    """The block with a step before its first that notes all of it."""
    ends = (block.end,) if block.end else ()
    inside = [item.instruction for item in (*block.items, *ends)]

    def note(g: Group) -> None:
        if g.s[EXEC].any():
            addresses.update(instruction.address for instruction in inside)

    return replace(block, items=(Item(0, note, note, inside[0], Masks(0, 0)), *block.items))
