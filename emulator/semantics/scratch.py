"""Each wave's own scratch memory: VSCRATCH (RDNA4 ISA, 'Scratch'). Addresses are bytes within the lane's own part."""

from __future__ import annotations

import numpy as np

from ..instruction import NULL, VGPR, Instruction
from ..registry import Step, add
from ..state import LANES, Group
from .global_memory import LOAD_FORMS, LOAD_HALVES, STORE_FORMS, Addresses, transfer_of
from .smem import signed_offset
from .transfer import get_stored, put_loaded


def scratch_address(instruction: Instruction) -> Addresses:
    """int64 `[waves, 32]`: scalar base, vector offset and immediate, each if given."""
    register, base = instruction["vaddr"] - VGPR, instruction["saddr"]
    uses_vector, offset = instruction["sve"], signed_offset(instruction)

    def run(g: Group) -> np.ndarray:
        at = np.full((g.count, LANES), offset, np.int64)
        if base != NULL:
            at += g.ci[base]
        if uses_vector:
            at += g.i[register]
        return at

    return run


def _load(instruction: Instruction) -> Step:
    transfer, register, addresses = transfer_of(instruction), instruction["vdst"] - VGPR, scratch_address(instruction)

    def run(g: Group) -> None:
        where, scratch = g.mask, g.machine.scratch
        at = scratch.offsets(g, addresses(g), transfer.width, where)
        put_loaded(g, transfer, register, [scratch.load(at + skip, width) for skip, width in transfer.pieces], where)
        scratch.load_shadow(g, transfer, register, at, where)

    return run


def _store(instruction: Instruction) -> Step:
    transfer, register, addresses = transfer_of(instruction), instruction["vsrc"] - VGPR, scratch_address(instruction)

    def run(g: Group) -> None:
        where, scratch = g.mask, g.machine.scratch
        at = scratch.offsets(g, addresses(g), transfer.width, where)
        stored = get_stored(g, transfer, register, where)
        for (skip, width), values in zip(transfer.pieces, stored, strict=True):
            scratch.store(at + skip, values, width)
        scratch.store_shadow(g, transfer, register, at, where)

    return run


add("VSCRATCH", (f"scratch_load_{form}" for form in (*LOAD_FORMS, *LOAD_HALVES)), _load)
add("VSCRATCH", (f"scratch_store_{form}" for form in STORE_FORMS), _store)
