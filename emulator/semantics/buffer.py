"""Loads and stores through a buffer descriptor: VBUFFER (RDNA4 ISA, 'Vector Memory Buffer Instructions').

The descriptor is four scalar registers: base (48 bits), stride (14 bits), NUM_RECORDS and flags.  An access beyond
NUM_RECORDS is no fault: loads give 0 and stores do nothing, which is how Triton masks lanes.  Within NUM_RECORDS the
address must lie in a buffer like any other.
"""

from __future__ import annotations

import numpy as np

from ..instruction import NULL, VGPR, Instruction
from ..registry import Refused, Step, add, semantics
from ..state import LANES, Group
from .global_memory import LOAD_FORMS, LOAD_HALVES, STORE_FORMS, transfer_of
from .smem import signed_offset
from .transfer import get_stored, put_loaded

_BASE_BITS = np.uint64((1 << 48) - 1)


class BufferAddress:
    """Computes addresses and says which lanes lie within NUM_RECORDS."""

    def __init__(self, instruction: Instruction, width: int):
        self._register = instruction["vaddr"] - VGPR
        self._resource = instruction["rsrc"]
        self._scalar = instruction["soffset"]
        self._offen, self._idxen = instruction["offen"], instruction["idxen"]
        self._immediate = np.uint64(signed_offset(instruction) & (1 << 64) - 1)
        self._width = np.uint64(width)
        if instruction["tfe"]:
            raise Refused("TFE")
        if self._resource % 2:
            raise Refused("a descriptor at an odd register")

    def __call__(self, g: Group) -> tuple[np.ndarray, np.ndarray]:
        """Addresses, uint64 `[waves, 32]`, and the lanes within range, bool of the same shape."""
        words = self._resource
        offset = np.full((g.count, 1), self._immediate)
        if self._offen:
            offset = offset + g.u[self._register + self._idxen]
        if self._scalar != NULL:
            offset = offset + g.c[self._scalar].astype(np.uint64)
        records = g.c[words + 2].astype(np.uint64)
        base = (g.s64[words] & _BASE_BITS)[:, None]
        if self._idxen:
            stride = (g.c[words + 1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.uint64)
            index = g.u[self._register].astype(np.uint64)
            inside = (index < records) & (offset + self._width <= stride)
            address = base + index * stride + offset
        else:
            inside = offset + self._width <= records
            address = base + offset
        shape = (g.count, LANES)
        return np.broadcast_to(address, shape), np.broadcast_to(inside, shape)


def _load(instruction: Instruction) -> Step:
    transfer, register = transfer_of(instruction), instruction["vdata"] - VGPR
    addresses = BufferAddress(instruction, transfer.width)

    def run(g: Group) -> None:
        at, inside = addresses(g)
        machine, where = g.machine, g.mask
        reached = inside if where is True else inside & where
        everything = bool(reached.all())
        chosen = at if everything else at[reached]
        lanes = True if everything else reached
        values = []
        for offset, width in transfer.pieces:
            got = machine.load_global(g, chosen + np.uint64(offset), width, lanes)
            if not everything:
                full = np.zeros((g.count, LANES), got.dtype)
                full[reached] = got
                got = full if where is True else full[where]
            values.append(got)
        if machine.on_global is not None and chosen.size:
            machine.on_global(g, instruction, chosen, transfer.width, lanes, "load")
        put_loaded(g, transfer, register, values, where)

    return run


def _store(instruction: Instruction) -> Step:
    transfer, register = transfer_of(instruction), instruction["vdata"] - VGPR
    addresses = BufferAddress(instruction, transfer.width)

    def run(g: Group) -> None:
        at, inside = addresses(g)
        machine, where = g.machine, g.mask
        reached = inside if where is True else inside & where
        if reached.all():
            reached = True
        else:
            at = at[reached]
            if not at.size:
                return
        if machine.on_global is not None:
            machine.on_global(g, instruction, at, transfer.width, reached, "store")
        stored = get_stored(g, transfer, register, reached)
        for (offset, width), values in zip(transfer.pieces, stored, strict=True):
            machine.store_global(g, at + np.uint64(offset), values, width, reached)
        if machine.settle is not None:
            machine.settle(stored)

    return run


add("VBUFFER", (f"buffer_load_{form}" for form in (*LOAD_FORMS, *LOAD_HALVES)), _load)
add("VBUFFER", (f"buffer_store_{form}" for form in STORE_FORMS), _store)


@semantics("VBUFFER", "buffer_load_format_x", "buffer_store_format_x")
def _formatted(_instruction: Instruction) -> Step:
    raise Refused("typed buffers")
