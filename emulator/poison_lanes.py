"""Undefined values moved between lanes: permutations and matrix products."""

from __future__ import annotations

import numpy as np

from .blocks import Item
from .instruction import Operand
from .masks import operand_mask
from .poison_marks import ONES, Rule, bad_lanes, refresh, scalar_numbers, source_operands, vector_numbers
from .state import LANES, Group

U32 = np.uint32

# Instructions that only move data between lanes, and the operands that say how.
MOVES = {
    "v_readfirstlane_b32": (),
    "v_readlane_b32": ("src1",),
    "v_writelane_b32": ("src1",),
    "v_permlane16_b32": ("src1", "src2"),
    "v_permlanex16_b32": ("src1", "src2"),
    "v_permlane16_var_b32": ("src1",),
    "v_permlanex16_var_b32": ("src1",),
    "v_swap_b32": (),
    "v_swap_b16": (),
    "ds_bpermute_b32": ("addr",),
    "ds_bpermute_fi_b32": ("addr",),
    "ds_permute_b32": ("addr",),
    "ds_swizzle_b32": (),
}


def move_rule(item: Item) -> Rule:
    """The step itself moves the shadow, with the operands that steer it lent their real values."""
    instruction, step = item.instruction, item.step
    steering = [operand for operand in source_operands(instruction) if operand.role in MOVES[instruction.opcode]]
    moved = {op.index for op in instruction.operands if op not in steering and op.kind == "vgpr" and not op.written}
    written = item.masks.written

    def run(g: Group) -> None:
        shadow = g.shadow
        if any(operand.kind == "vgpr" and operand.index in moved for operand in steering) or g.undefined & sum(
            operand_mask(operand) for operand in steering
        ):
            _spoil(g, written)
            return
        lent = [_row(shadow, operand) for operand in steering if operand.kind in ("vgpr", "sgpr")]
        kept = [row.copy() for row in lent]
        for row, operand in zip(lent, (op for op in steering if op.kind in ("vgpr", "sgpr")), strict=True):
            row[...] = _row(g, operand)
        target = [_row(shadow, op) for op in instruction.operands if op.written]
        step(shadow)
        for row, values in zip(lent, kept, strict=True):
            if not any(row is other for other in target):
                row[...] = values
        refresh(g, written)

    return run


def _row(g: Group, operand: Operand) -> np.ndarray:
    return g.u[operand.index] if operand.kind == "vgpr" else g.s[operand.index]


def _spoil(g: Group, written: int) -> None:
    """Everything that is written is undefined in the active lanes."""
    for register in vector_numbers(written):
        np.copyto(g.shadow.u[register], ONES, where=g.mask)
    for register in scalar_numbers(written):
        g.shadow.s[register][...] = ONES
    refresh(g, written)


def matrix_rule(item: Item) -> Rule:
    """A row of A spoils a row of D, a column of B a column, an element of C itself."""
    operands = {operand.role: operand for operand in item.instruction.operands}
    written = item.masks.written

    def spoiled(g: Group, operand: Operand) -> np.ndarray:
        return bad_lanes(g, operand).reshape(g.count, 2, 16).any(axis=1)

    def run(g: Group) -> None:
        rows, columns = spoiled(g, operands["src0"]), spoiled(g, operands["src1"])
        target, addend = operands["vdst"], operands["src2"]
        packed = target.registers == 4
        results = []
        for register in range(target.registers):
            own = [2 * register, 2 * register + 1] if packed else [register]
            bad = np.zeros((g.count, LANES), bool)
            for row in own:
                by_row = np.repeat(rows[:, [row, row + 8]], 16, axis=1)
                bad |= by_row | np.tile(columns, (1, 2))
            if addend.kind == "vgpr":
                bad |= g.shadow.u[addend.index + register] != 0
            results.append(np.where(bad, ONES, U32(0)))
        for register, result in enumerate(results):
            g.shadow.u[target.index + register][...] = result
        refresh(g, written)

    return run
