"""Loads and stores of global memory: VGLOBAL, and VFLAT, of which only global addresses are executed.

Source: RDNA4 ISA, 'Vector Memory: Flat, Global and Scratch'. The address is a 64-bit pair of VGPRs, or a scalar base
plus a 32-bit VGPR; plus a signed immediate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..instruction import NULL, VGPR, Instruction
from ..registry import Step, add, semantics
from ..state import Group
from .operands import read_pair
from .smem import signed_offset
from .transfer import Transfer, get_stored, parse_transfer, put_loaded

LOAD_FORMS = ("u8", "i8", "u16", "i16", "b32", "b64", "b96", "b128")
LOAD_HALVES = ("d16_u8", "d16_i8", "d16_b16", "d16_hi_u8", "d16_hi_i8", "d16_hi_b16")
STORE_FORMS = ("b8", "b16", "b32", "b64", "b96", "b128", "d16_hi_b8", "d16_hi_b16")

Addresses = Callable[[Group], np.ndarray]


def global_address(instruction: Instruction) -> Addresses:
    """uint64 `[waves, 32]`."""
    register, base = instruction["vaddr"] - VGPR, instruction["saddr"]
    offset = np.uint64(signed_offset(instruction) & (1 << 64) - 1)
    if base == NULL:
        return lambda g: read_pair(g, register) + offset
    return lambda g: g.u[register] + (g.s64[base] + offset)[:, None]


def transfer_of(instruction: Instruction) -> Transfer:
    """The transfer that an opcode's ending names."""
    return parse_transfer(instruction.opcode.split("_", 2)[2])


def loading_step(instruction: Instruction, register: int, addresses: Addresses) -> Step:
    transfer = transfer_of(instruction)
    pieces = tuple((np.uint64(offset), width) for offset, width in transfer.pieces)

    def run(g: Group) -> None:
        where, at = g.mask, addresses(g)
        if where is not True:
            at = at[where]
            if not at.size:
                return
        machine = g.machine
        values = [machine.load_global(g, at + offset if offset else at, width, where) for offset, width in pieces]
        if machine.on_global is not None:
            machine.on_global(g, instruction, at, transfer.width, where, "load")
        put_loaded(g, transfer, register, values, where)

    return run


def storing_step(instruction: Instruction, register: int, addresses: Addresses) -> Step:
    transfer = transfer_of(instruction)
    pieces = tuple((np.uint64(offset), width) for offset, width in transfer.pieces)

    def run(g: Group) -> None:
        where, at = g.mask, addresses(g)
        if where is not True:
            at = at[where]
            if not at.size:
                return
        machine = g.machine
        if machine.on_global is not None:
            machine.on_global(g, instruction, at, transfer.width, where, "store")
        stored = get_stored(g, transfer, register, where)
        for (offset, width), values in zip(pieces, stored, strict=True):
            machine.store_global(g, at + offset if offset else at, values, width, where)
        if machine.settle is not None:
            machine.settle(stored)

    return run


def _load(instruction: Instruction) -> Step:
    return loading_step(instruction, instruction["vdst"] - VGPR, global_address(instruction))


def _store(instruction: Instruction) -> Step:
    return storing_step(instruction, instruction["vsrc"] - VGPR, global_address(instruction))


for _encoding, _prefix in (("VGLOBAL", "global"), ("VFLAT", "flat")):
    add(_encoding, (f"{_prefix}_load_{form}" for form in (*LOAD_FORMS, *LOAD_HALVES)), _load)
    add(_encoding, (f"{_prefix}_store_{form}" for form in STORE_FORMS), _store)


@semantics("VGLOBAL", "global_inv", "global_wb", "global_wbinv")
def _cache(_instruction: Instruction) -> Step:
    """Caches are not modelled: every store is seen at once."""
    return lambda _g: None
