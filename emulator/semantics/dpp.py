"""Data-parallel primitives: a vector source whose lanes are permuted within rows of 16 or groups of 8.

Source: RDNA4 ISA, 'Data Parallel Processing (DPP)'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..instruction import VGPR, Instruction
from ..registry import Refused
from ..state import LANES, Group
from .constants import DTYPES, width
from .operands import Reader

_LANE = np.arange(LANES)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15

Where = Callable[[Group], "bool | np.ndarray"]


@dataclass(frozen=True, slots=True)
class Permutation:
    """Lane i reads lane `source[i]`. `exists[i]`: that lane lies within the row. `writes[i]`: row and bank are enabled.

    `fetch_inactive`: lanes that EXEC turned off may be read. `zero_fill`: a lane that may not be read gives 0;
    otherwise the reader's own lane is not written.
    """

    source: np.ndarray
    exists: np.ndarray
    writes: np.ndarray
    fetch_inactive: bool
    zero_fill: bool


def permutation(instruction: Instruction) -> Permutation:
    """Raises Refused for a control that gfx12 does not have."""
    everywhere = np.ones(LANES, bool)
    if instruction.dpp != "dpp16":
        picks = np.array([instruction[f"lane_sel_{lane}"] for lane in range(8)])
        source = (_LANE & ~7) | picks[_LANE & 7]
        return Permutation(source, everywhere, everywhere, instruction.dpp == "dpp8_fi", False)
    source, exists = _row_control(instruction["dpp"])
    rows = (instruction["row_mask"] >> (_LANE >> 4)) & 1
    banks = (instruction["bank_mask"] >> (_IN_ROW >> 2)) & 1
    return Permutation(source, exists, (rows & banks).astype(bool), bool(instruction["fi"]), bool(instruction["bc"]))


def _row_control(control: int) -> tuple[np.ndarray, np.ndarray]:
    everywhere = np.ones(LANES, bool)
    count = control & 15
    if control <= 0xFF:
        picks = np.array([control >> 2 * lane & 3 for lane in range(4)])
        return (_LANE & ~3) | picks[_LANE & 3], everywhere
    match control >> 4:
        case 0x10 if count:
            return _ROW | (_IN_ROW + count & 15), _IN_ROW + count < 16
        case 0x11 if count:
            return _ROW | (_IN_ROW - count & 15), count <= _IN_ROW
        case 0x12 if count:
            return _ROW | (_IN_ROW - count & 15), everywhere
        case 0x14 if count == 0:
            return _ROW | 15 - _IN_ROW, everywhere
        case 0x14 if count == 1:
            return _LANE ^ 7, everywhere
        case 0x15:
            return _ROW | count, everywhere
        case 0x16:
            return _LANE ^ count, everywhere
    raise Refused(f"DPP control {control:#x}")


def permuted_source(instruction: Instruction, number: int, kind: str, half: int) -> tuple[Reader, Where]:
    """The reader of a permuted source, and which lanes the instruction then writes."""
    if number < VGPR:
        raise Refused("DPP of a scalar source")
    register, plan = number - VGPR, permutation(instruction)
    take_from, plain = plan.source, bool(plan.exists.all() and plan.writes.all())
    dtype = DTYPES[kind]

    def row(g: Group) -> np.ndarray:
        moved = g.u[register].take(take_from, axis=1)
        if plan.zero_fill and not (plain and (g.mask is True or plan.fetch_inactive)):
            moved[~_readable(g, plan)] = 0
        return moved

    def read(g: Group) -> np.ndarray:
        if width(kind) == 32:
            return row(g).view(dtype)
        return row(g).view(np.uint16).reshape(g.count, LANES, 2)[:, :, half].view(dtype)

    def where(g: Group) -> bool | np.ndarray:
        if plain and (plan.zero_fill or plan.fetch_inactive or g.mask is True):
            return g.mask
        allowed = g.active() & plan.writes
        return allowed if plan.zero_fill else allowed & _readable(g, plan)

    if width(kind) == 64:
        raise Refused("DPP of a 64-bit source")
    return read, where


def _readable(g: Group, plan: Permutation) -> np.ndarray:
    if plan.fetch_inactive or g.mask is True:
        return np.broadcast_to(plan.exists, (g.count, LANES))
    return g.mask[:, plan.source] & plan.exists
