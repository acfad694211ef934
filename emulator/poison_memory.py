"""Undefined values at memory and at branches: addresses, stored data and conditions must be defined."""

from __future__ import annotations

import numpy as np

from .blocks import Item
from .instruction import Instruction, Operand
from .masks import SCC_MASK, operand_mask, register_names, scalar_mask
from .poison_marks import Rule, define, require, require_none, scalar_numbers, source_operands
from .semantics.transfer import Transfer, get_stored, parse_transfer
from .state import LANES, Group

_ADDRESS_ROLES = ("vaddr", "saddr", "addr", "sbase", "soffset", "rsrc")


def _transfer(instruction: Instruction) -> Transfer:
    parts = instruction.opcode.split("_")
    if "2addr" in parts:
        return parse_transfer(parts[-1])
    return parse_transfer("_".join(parts[2:]))


def memory_rule(item: Item) -> Rule:
    """Addresses must be defined; so must what global stores and atomics write."""
    instruction = item.instruction
    addresses = [operand for operand in source_operands(instruction) if operand.role in _ADDRESS_ROLES]
    data = [operand for operand in source_operands(instruction) if operand.role not in _ADDRESS_ROLES]
    atomic = "_atomic_" in instruction.opcode or (
        instruction.encoding == "DS" and not instruction.opcode.startswith(("ds_load", "ds_store_", "ds_store_2addr"))
    )
    goes_out = instruction.encoding in ("VGLOBAL", "VFLAT", "VBUFFER") and "_store_" in instruction.opcode
    written = item.masks.written

    def run(g: Group) -> None:
        for operand in addresses:
            require(g, operand, "is used as an address")
        for operand in data:
            if atomic:
                require(g, operand, "reaches memory through an atomic")
            elif goes_out and g.undefined & operand_mask(operand):
                _require_stored(g, instruction, operand)
        define(g, instruction, written)

    return run


def _require_stored(g: Group, instruction: Instruction, operand: Operand) -> None:
    """Only the bytes that are stored count."""
    pieces = get_stored(g.shadow, _transfer(instruction), operand.index, True)
    bad = np.zeros((g.count, LANES), bool)
    for piece in pieces:
        words = np.ascontiguousarray(piece)[..., None].view(np.uint8)
        bad |= words.any(axis=-1)
    if g.mask is not True:
        bad &= g.mask
    require_none(g, bad, register_names(operand_mask(operand)), "reaches global memory")


def branch_rule(item: Item) -> Rule:
    mask = item.masks.read

    def run(g: Group) -> None:
        if mask & SCC_MASK:
            require_none(g, g.shadow.scc[:, None], "scc", "decides a branch")
        for register in scalar_numbers(mask):
            require_none(g, g.shadow.c[register] != 0, register_names(scalar_mask(register)), "decides a branch")

    return run
