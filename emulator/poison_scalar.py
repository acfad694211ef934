"""Undefined values through the scalar ALU."""

from __future__ import annotations

import numpy as np

from .blocks import Item
from .instruction import EXEC, Instruction, Operand
from .masks import SCC_MASK, scalar_mask
from .poison_bits import EXACT_SCALAR
from .poison_marks import ONES, Rule, bad_lanes, refresh, require_none, source_operands
from .semantics.operands import scalar_reader
from .state import Group

U32 = np.uint32


def scalar_rule(item: Item) -> Rule:
    instruction = item.instruction
    written = item.masks.written
    sources = source_operands(instruction)
    target = instruction.operand("sdst")
    exact = EXACT_SCALAR.get(instruction.opcode)
    to_exec = bool(written & scalar_mask(EXEC))
    reads_scc = bool(item.masks.read & SCC_MASK)

    def bad_waves(g: Group) -> np.ndarray:
        bad = g.shadow.scc.copy() if reads_scc else np.zeros(g.count, bool)
        for operand in sources:
            found = bad_lanes(g, operand)
            if found is not None:
                bad |= found[:, 0]
        if item.masks.read & item.masks.written and target is not None and target.kind == "sgpr":
            bad |= bad_lanes(g, target)[:, 0]
        return bad

    def run(g: Group) -> None:
        bad = bad_waves(g)
        if to_exec:
            require_none(g, bad[:, None], "a source", "reaches EXEC")
        result = None
        if exact is not None and target is not None and target.kind == "sgpr":
            result = exact(*_scalar_pairs(g, instruction, sources), g)
        if target is not None and target.kind == "sgpr":
            shadow = g.shadow.scalar[:, target.index : target.index + target.registers]
            if result is None:
                shadow[...] = np.where(bad, ONES, U32(0))[:, None]
            else:
                shadow[...] = result
                bad = result.any(axis=1)
        if written & SCC_MASK:
            g.shadow.scc[...] = bad
        refresh(g, written)

    return run


def _scalar_pairs(g: Group, instruction: Instruction, sources: list[Operand]):
    """Values and shadows of scalar sources, uint32 `[waves, registers]`."""
    values, shadows = [], []
    for operand in sources:
        if operand.kind == "sgpr":
            span = slice(operand.index, operand.index + operand.registers)
            values.append(g.scalar[:, span])
            shadows.append(g.shadow.scalar[:, span])
        else:
            kind = "u64" if operand.registers == 2 else "u32"
            value = np.broadcast_to(np.asarray(scalar_reader(instruction, operand.index, kind)(g)), (g.count,))
            words = np.ascontiguousarray(value).view(U32).reshape(g.count, operand.registers)
            values.append(words)
            shadows.append(np.zeros_like(words))
    return values, shadows
