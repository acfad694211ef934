"""Lanes exchanging values through the LDS hardware without memory: permute, bpermute, swizzle."""

from __future__ import annotations

import numpy as np

from ..instruction import VGPR, Instruction
from ..registry import Refused, Step, semantics
from ..state import LANES, Group
from .ds import single_offset

_LANE = np.arange(LANES)


@semantics("DS", "ds_bpermute_b32", "ds_bpermute_fi_b32")
def _bpermute(instruction: Instruction) -> Step:
    """Each lane reads the lane that its address names, in units of 4 bytes; inactive sources give 0 (not for `fi`)."""
    address, data, target = (instruction[role] - VGPR for role in ("addr", "data0", "vdst"))
    offset, fetch_inactive = np.uint32(single_offset(instruction)), "fi" in instruction.opcode

    def run(g: Group) -> None:
        picks = ((g.u[address] + offset) >> np.uint32(2) & np.uint32(31)).astype(np.intp)
        moved = np.take_along_axis(g.u[data], picks, axis=1)
        if g.mask is not True and not fetch_inactive:
            moved[~np.take_along_axis(g.mask, picks, axis=1)] = 0
        np.copyto(g.u[target], moved, where=g.mask)

    return run


@semantics("DS", "ds_permute_b32")
def _permute(instruction: Instruction) -> Step:
    """Each active lane sends to the lane that its address names; the highest sender wins, lanes without one get 0."""
    address, data, target = (instruction[role] - VGPR for role in ("addr", "data0", "vdst"))
    offset = np.uint32(single_offset(instruction))

    def run(g: Group) -> None:
        picks = ((g.u[address] + offset) >> np.uint32(2) & np.uint32(31)).astype(np.intp)
        active, source = g.active(), g.u[data]
        moved = np.zeros((g.count, LANES), np.uint32)
        waves = np.arange(g.count)
        for lane in range(LANES):
            on = active[:, lane]
            moved[waves[on], picks[on, lane]] = source[on, lane]
        np.copyto(g.u[target], moved, where=g.mask)

    return run


@semantics("DS", "ds_swizzle_b32")
def _swizzle(instruction: Instruction) -> Step:
    """A fixed pattern: quads (bit 15), rotation (0xC000 up), or and/or/xor masks on the lane number."""
    source, target = instruction["addr"] - VGPR, instruction["vdst"] - VGPR
    picks = _swizzle_pattern(single_offset(instruction))

    def run(g: Group) -> None:
        moved = g.u[source].take(picks, axis=1)
        if g.mask is not True:
            moved[~g.mask[:, picks]] = 0
        np.copyto(g.u[target], moved, where=g.mask)

    return run


def _swizzle_pattern(offset: int) -> np.ndarray:
    if offset >= 0xE000:
        raise Refused("FFT swizzle")
    if offset >= 0xC000:
        amount, keep = offset >> 5 & 31, offset & 31
        rotated = _LANE - amount if offset >> 10 & 1 else _LANE + amount
        return (_LANE & keep) | (rotated & ~keep & 31)
    if offset & 0x8000:
        quad = np.array([offset >> 2 * lane & 3 for lane in range(4)])
        return (_LANE & ~3) | quad[_LANE & 3]
    keep, set_bits, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return ((_LANE & keep) | set_bits) ^ flip
