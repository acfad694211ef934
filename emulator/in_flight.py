"""Loads on their way: which registers will still be written, until an `s_wait_*` says they are.

Counters as in RDNA4 ISA, 'Data dependency resolution': LOADcnt counts vector loads and atomics that return, in order;
DScnt LDS operations, in order; KMcnt scalar loads, in any order.  STOREcnt guards no register.
"""

from __future__ import annotations

from .errors import InFlightError
from .instruction import Instruction
from .masks import VECTOR_MASK, Masks, register_names
from .registry import Step
from .state import Group


def queue_of(instruction: Instruction) -> str | None:
    """Which of a group's queues an instruction joins."""
    match instruction.encoding:
        case "SMEM":
            return "scalar_loads" if "load" in instruction.opcode else None
        case "DS":
            return "lds_operations"
        case "VGLOBAL" | "VFLAT" | "VBUFFER" | "VSCRATCH":
            if "_load_" in instruction.opcode or ("_atomic_" in instruction.opcode and instruction["th"] & 1):
                return "loads"
    return None


def with_issue(step: Step, instruction: Instruction, masks: Masks) -> Step:
    """The step, followed by a note of what it leaves in flight."""
    queue = queue_of(instruction)
    if queue is None:
        return step
    entry = (masks.written, instruction)

    def run(g: Group) -> None:
        step(g)
        getattr(g, queue).append(entry)
        g.in_flight |= masks.written
        g.attention |= masks.written

    return run


def check(g: Group, instruction: Instruction, masks: Masks) -> None:
    """Raises InFlightError if the instruction reads or overwrites a register on its way.

    Two loads of one queue may have one destination: they arrive in order, and two halves of a register often do.
    """
    queue = queue_of(instruction)
    conflicts = g.in_flight & masks.read
    for name in ("loads", "lds_operations", "scalar_loads"):
        if name != queue or name == "scalar_loads":
            for registers, _ in getattr(g, name):
                conflicts |= registers & masks.written
    if not conflicts:
        return
    for name in ("loads", "lds_operations", "scalar_loads"):
        for registers, load in getattr(g, name):
            if registers & conflicts and not _other_half(instruction, load):
                verb = "reads" if registers & masks.read else "overwrites"
                raise InFlightError(
                    f"{verb} {register_names(registers & conflicts)} while `{load.text}` at {load.address:#x} is in "
                    f"flight: no s_wait between"
                )


def _other_half(instruction: Instruction, load: Instruction) -> bool:
    """Whether the load fills half a register and the instruction touches only the other."""
    target = next((item for item in load.operands if item.written), None)
    if target is None or not target.half:
        return False
    touching = [
        item
        for part in instruction.parts or (instruction,)
        for item in part.operands
        if item.kind == "vgpr" and item.index <= target.index < item.index + item.registers
    ]
    return all(item.half and item.half != target.half for item in touching)


def check_barrier(g: Group) -> None:
    """LDS stores must be complete before a barrier is signalled, or the waves behind it may not see them."""
    for registers, operation in g.lds_operations:
        if not registers & VECTOR_MASK:
            raise InFlightError(
                f"signals the barrier while `{operation.text}` at {operation.address:#x} is in flight: "
                f"no s_wait_dscnt between"
            )


def merge_queues(first: list, second: list) -> list:
    """Queues of two groups that join: entry by entry from the newest, what either waits for."""
    if first == second:
        return list(first)
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    merged = list(longer)
    start = len(longer) - len(shorter)
    for place, (registers, load) in enumerate(shorter):
        merged[start + place] = (merged[start + place][0] | registers, load)
    return merged
