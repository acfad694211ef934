"""LDS loads and stores (RDNA4 ISA, 'Data Share Operations'). The address is a VGPR plus an immediate, in bytes.

The two-address forms move two elements, whose offsets count elements, or 64 elements in the `stride64` forms.
"""

from __future__ import annotations

import numpy as np

from ..instruction import VGPR, Instruction
from ..registry import Step, add
from ..state import Group
from .transfer import Transfer, get_stored, parse_transfer, put_loaded

_LOADS = ("i8", "u8", "i16", "u16", "b32", "b64", "b96", "b128")
_LOAD_HALVES = ("u8_d16", "u8_d16_hi", "i8_d16", "i8_d16_hi", "u16_d16", "u16_d16_hi")
_STORES = ("b8", "b16", "b32", "b64", "b96", "b128", "b8_d16_hi", "b16_d16_hi")


def single_offset(instruction: Instruction) -> int:
    """The 16-bit immediate of the one-address forms."""
    return instruction["offset1"] << 8 | instruction["offset0"]


def pair_offsets(instruction: Instruction, width: int) -> tuple[int, int]:
    """Byte offsets of the two-address forms for elements of `width` bytes."""
    scale = width * 64 if "stride64" in instruction.opcode else width
    return instruction["offset0"] * scale, instruction["offset1"] * scale


def _accesses(instruction: Instruction) -> tuple[Transfer, tuple[tuple[int, int], ...]]:
    """The transfer and, for each element, (byte offset, register number within the operand)."""
    if "2addr" not in instruction.opcode:
        return parse_transfer(instruction.opcode.split("_", 2)[2]), ((single_offset(instruction), 0),)
    transfer = parse_transfer(instruction.opcode.rsplit("_", 1)[1])
    first, second = pair_offsets(instruction, transfer.width)
    return transfer, ((first, 0), (second, transfer.registers))


def _load(instruction: Instruction) -> Step:
    transfer, accesses = _accesses(instruction)
    source, target = instruction["addr"] - VGPR, instruction["vdst"] - VGPR

    def run(g: Group) -> None:
        where, lds = g.mask, g.machine.lds
        start = g.u[source] if where is True else g.u[source][where]
        if not start.size:
            return
        # Both addresses before the first result: the destination may hold the address.
        places = [lds.offsets(g, start, offset, transfer.width, where) for offset, _ in accesses]
        for at, (_, register) in zip(places, accesses, strict=True):
            lds.observe(g, instruction, at, transfer.width, where, "load")
            pieces = [lds.load(at + skip if skip else at, width) for skip, width in transfer.pieces]
            put_loaded(g, transfer, target + register, pieces, where)
            lds.load_shadow(g, transfer, target + register, at, where)

    return run


def _store(instruction: Instruction) -> Step:
    transfer, accesses = _accesses(instruction)
    source = instruction["addr"] - VGPR
    data = (instruction["data0"] - VGPR, instruction["data1"] - VGPR)

    def run(g: Group) -> None:
        where, lds = g.mask, g.machine.lds
        start = g.u[source] if where is True else g.u[source][where]
        if not start.size:
            return
        for (offset, _), register in zip(accesses, data, strict=False):
            at = lds.offsets(g, start, offset, transfer.width, where)
            lds.observe(g, instruction, at, transfer.width, where, "store")
            stored = get_stored(g, transfer, register, where)
            for (skip, width), values in zip(transfer.pieces, stored, strict=True):
                lds.store(at + skip if skip else at, values, width)
            lds.store_shadow(g, transfer, register, at, where)
            if g.machine.settle is not None:
                g.machine.settle(stored)

    return run


add("DS", (f"ds_load_{form}" for form in (*_LOADS, *_LOAD_HALVES)), _load)
add("DS", (f"ds_store_{form}" for form in _STORES), _store)
for _stride in ("", "stride64_"):
    add("DS", (f"ds_load_2addr_{_stride}{form}" for form in ("b32", "b64")), _load)
    add("DS", (f"ds_store_2addr_{_stride}{form}" for form in ("b32", "b64")), _store)


def atomic_offset(instruction: Instruction) -> np.uint32:
    return np.uint32(single_offset(instruction))
