"""Values that nobody wrote, followed through registers bit by bit.

Each register has a shadow with a set bit for each bit that is undefined.  Before an instruction that touches such a
register executes, its rule computes the shadow of its result.  Moves, logic and shifts are followed exactly, selections
by what they select; of other operations one undefined bit of a lane's sources makes the lane's whole result undefined.
Addresses, data of global stores, branches and EXEC must be defined.
"""

from __future__ import annotations

from .blocks import Item
from .masks import register_masks
from .poison_lanes import MOVES, matrix_rule, move_rule
from .poison_marks import Rule, define, refresh, vector_numbers
from .poison_memory import branch_rule, memory_rule
from .poison_scalar import scalar_rule
from .poison_vector import lane_rule, operation_rule, selection_rule, wide_product_rule
from .registry import make_step
from .semantics.operations import OPERATIONS
from .state import Group

_MEMORY = ("SMEM", "VGLOBAL", "VFLAT", "VBUFFER", "VSCRATCH", "DS")


def make_rule(item: Item) -> Rule:
    """The rule of one instruction; of a VOPD pair, of both halves."""
    instruction = item.instruction
    propagate = _propagation(item)
    read, written = item.masks.read, item.masks.written

    def run(g: Group) -> None:
        if g.undefined & read:
            propagate(g)
        else:
            define(g, instruction, written)

    return run


def _propagation(item: Item) -> Rule:
    instruction = item.instruction
    if instruction.parts:
        return pair_rule(item)
    if instruction.opcode in MOVES:
        return move_rule(item)
    if instruction.encoding in _MEMORY:
        return memory_rule(item)
    if instruction.encoding == "SOPP":
        return branch_rule(item)
    if instruction.encoding.startswith("SOP"):
        return scalar_rule(item)
    if instruction.opcode.startswith("v_wmma"):
        return matrix_rule(item)
    if instruction.opcode.startswith("v_mad_co_"):
        return wide_product_rule(item)
    if "cndmask" in instruction.opcode:
        return selection_rule(item)
    if instruction.opcode in OPERATIONS and instruction.encoding != "VOP3P":
        return operation_rule(item)
    return lane_rule(item)


def pair_rule(item: Item) -> Rule:
    """Both halves of a VOPD pair read before either writes: the second's shadow is computed on the first's old one."""
    rules, written = [], []
    for part in item.instruction.parts:
        masks = register_masks(part)
        step = make_step(part)
        rules.append(make_rule(Item(masks.touched, step, step, part, masks)))
        written.append(masks.written)

    def run(g: Group) -> None:
        (first,) = vector_numbers(written[0])
        row = g.shadow.u[first]
        before = row.copy()
        rules[0](g)
        after, marks = row.copy(), g.undefined
        row[...] = before
        refresh(g, written[0])
        rules[1](g)
        row[...] = after
        g.undefined = g.undefined & ~written[0] | marks & written[0]
        g.attention = g.in_flight | g.undefined

    return run
