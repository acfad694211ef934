"""Scalar loads (RDNA4 ISA, 'Scalar Memory Operations'). The waves of a group load together, each from its address."""

from __future__ import annotations

import numpy as np

from ..instruction import NULL, Instruction
from ..registry import Step, semantics
from ..state import Group
from .transfer import parse_transfer

_WORDS = np.arange(16, dtype=np.uint64) * np.uint64(4)
_LOADS = ("b32", "b64", "b96", "b128", "b256", "b512")
_NARROW = ("i8", "u8", "i16", "u16")


def signed_offset(instruction: Instruction) -> int:
    """The 24-bit immediate offset, sign-extended."""
    value = instruction["ioffset"]
    return value - (1 << 24) if value >> 23 else value


def _address(instruction: Instruction):
    """S[base] + S[soffset] + immediate, uint64 `[waves]`."""
    base, scalar = instruction["sbase"], instruction["soffset"]
    offset = np.uint64(signed_offset(instruction) & (1 << 64) - 1)
    if scalar == NULL:
        return lambda g: g.s64[base] + offset
    return lambda g: g.s64[base] + g.s[scalar].astype(np.uint64) + offset


@semantics("SMEM", *(f"s_load_{form}" for form in _LOADS))
def _load(instruction: Instruction) -> Step:
    count = int(instruction.opcode[len("s_load_b") :]) // 32
    address, register = _address(instruction), instruction["sdata"]
    words = _WORDS[:count]

    def run(g: Group) -> None:
        # The two lowest bits of the address are ignored.
        start = address(g) & ~np.uint64(3)
        values = g.machine.load_global(g, start[:, None] + words, 4, None)
        g.scalar[:, register : register + count] = values

    return run


@semantics("SMEM", *(f"s_buffer_load_{form}" for form in _LOADS))
def _buffer_load(instruction: Instruction) -> Step:
    """Through a 128-bit buffer descriptor; words beyond its NUM_RECORDS bytes read as 0."""
    count = int(instruction.opcode[len("s_buffer_load_b") :]) // 32
    base, scalar, register = instruction["sbase"], instruction["soffset"], instruction["sdata"]
    offset = np.uint64(signed_offset(instruction) & (1 << 64) - 1)
    words = _WORDS[:count]

    def run(g: Group) -> None:
        start = np.broadcast_to(offset, (g.count,))
        if scalar != NULL:
            start = start + g.s[scalar].astype(np.uint64)
        inside = (start & ~np.uint64(3))[:, None] + words
        address = (g.s64[base] & np.uint64((1 << 48) - 1))[:, None] + inside
        valid = inside + np.uint64(4) <= g.s[base + 2].astype(np.uint64)[:, None]
        values = np.zeros(valid.shape, np.uint32)
        if valid.any():
            values[valid] = g.machine.load_global(g, address[valid], 4, None)
        g.scalar[:, register : register + count] = values

    return run


@semantics("SMEM", *(f"s_load_{form}" for form in _NARROW))
def _load_narrow(instruction: Instruction) -> Step:
    transfer = parse_transfer(instruction.opcode.removeprefix("s_load_"))
    address, register = _address(instruction), instruction["sdata"]

    def run(g: Group) -> None:
        values = g.machine.load_global(g, address(g)[:, None], transfer.width, None)[:, 0]
        if transfer.signed:
            g.si[register][...] = values.view(np.int8 if transfer.width == 1 else np.int16)
        else:
            g.s[register][...] = values

    return run


@semantics(
    "SMEM",
    "s_dcache_inv",
    "s_prefetch_inst",
    "s_prefetch_inst_pc_rel",
    "s_prefetch_data",
    "s_prefetch_data_pc_rel",
    "s_buffer_prefetch_data",
)
def _cache(_instruction: Instruction) -> Step:
    return lambda _g: None
