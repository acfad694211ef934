"""Dual issue: two operations in one instruction (RDNA4 ISA, 'Dual Issue VALU'). Both read before either writes."""

from __future__ import annotations

from ..errors import Unsupported
from ..instruction import Instruction, Operand
from ..registry import Refused, Step, make_step, semantics
from ..state import Group


def _reads(part: Instruction) -> set[int]:
    found = {item.index for item in part.operands if item.kind == "vgpr" and not item.written}
    if part.opcode.startswith("v_fmac"):
        found |= _writes(part)
    return found


def _writes(part: Instruction) -> set[int]:
    return {item.index for item in part.operands if item.kind == "vgpr" and item.written}


@semantics("VOPD", "*")
def _pair(instruction: Instruction) -> Step:
    steps = []
    for part in instruction.parts:
        step = make_step(part)
        if isinstance(step, Unsupported):
            raise Refused(f"{step.name}: {step.reason}")
        steps.append(step)
    first, second = steps
    x, y = instruction.parts
    if not _writes(x) & _reads(y):
        return _in_order(first, second)
    if not _writes(y) & _reads(x):
        return _in_order(second, first)
    # Each reads what the other writes: the first result is set aside while the second is computed.
    (register,) = _writes(x)

    def run(g: Group) -> None:
        row = g.u[register]
        before = row.copy()
        first(g)
        after = row.copy()
        row[...] = before
        second(g)
        row[...] = after

    return run


def _in_order(first: Step, second: Step) -> Step:
    def run(g: Group) -> None:
        first(g)
        second(g)

    return run


__all__ = ["Operand"]
