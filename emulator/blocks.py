"""A program as basic blocks of steps, made once when it is loaded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .errors import Unsupported
from .in_flight import with_issue
from .instruction import VGPR, Instruction
from .masks import SCALAR_BIT, Masks, register_masks
from .registry import Step, make_step
from .semantics.control import CONTROL

CLASSES = ("valu", "salu", "vmem", "ds", "wmma", "smem", "branch", "other")
_CLASS_OF_ENCODING = {
    "VOP1": "valu",
    "VOP2": "valu",
    "VOP3": "valu",
    "VOP3SD": "valu",
    "VOP3P": "valu",
    "VOPC": "valu",
    "VOPD": "valu",
    "SOP1": "salu",
    "SOP2": "salu",
    "SOPC": "salu",
    "SOPK": "salu",
    "SMEM": "smem",
    "DS": "ds",
    "VGLOBAL": "vmem",
    "VFLAT": "vmem",
    "VBUFFER": "vmem",
    "VSCRATCH": "vmem",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One instruction ready to run. `tracked_step` also notes what the instruction leaves in flight."""

    touched: int
    step: Step
    tracked_step: Step
    instruction: Instruction
    masks: Masks


@dataclass(slots=True, eq=False)
class Block:
    """Straight-line code. `end` is the branch, barrier wait or program end that closes it, `None` where the next block
    is only entered from elsewhere too. `target` and `following` are numbers of blocks.

    `skippable`: waves without active lanes may run through this block, since nothing in it reaches beyond lanes.
    """

    number: int
    items: tuple[Item, ...]
    end: Item | None
    target: int | None = None
    following: int | None = None
    skippable: bool = False
    classes: Counter = field(default_factory=Counter)

    @property
    def length(self) -> int:
        return len(self.items) + (self.end is not None)


def instruction_class(instruction: Instruction) -> str:
    """The class that counters put an instruction in."""
    if instruction.opcode.startswith(("v_wmma", "v_swmmac")):
        return "wmma"
    if instruction.opcode.startswith(("s_branch", "s_cbranch")):
        return "branch"
    return _CLASS_OF_ENCODING.get(instruction.encoding, "other")


def build_blocks(instructions: tuple[Instruction, ...]) -> tuple[tuple[Block, ...], tuple[Unsupported, ...]]:
    """The blocks of a program in order of address, and every instruction that has no semantics."""
    items, unsupported = [], []
    for instruction in instructions:
        step = make_step(instruction)
        if isinstance(step, Unsupported):
            unsupported.append(step)
            continue
        masks = register_masks(instruction)
        items.append(Item(masks.touched, step, with_issue(step, instruction, masks), instruction, masks))
    if unsupported:
        return (), tuple(unsupported)
    number_of = {item.instruction.address: place for place, item in enumerate(items)}
    targets = {}
    for item in items:
        if item.instruction.opcode in CONTROL and "branch" in item.instruction.opcode:
            place = number_of.get(branch_target(item.instruction))
            if place is None:
                unsupported.append(
                    Unsupported(item.instruction.address, item.instruction.name, "branches outside the kernel")
                )
            targets[item.instruction.address] = place
    if unsupported:
        return (), tuple(unsupported)
    return _cut(items, targets), ()


def branch_target(instruction: Instruction) -> int:
    """PC + 4 + 4 · SIMM16."""
    offset = instruction["simm16"]
    return instruction.address + 4 + 4 * (offset - (1 << 16) if offset >> 15 else offset)


def _cut(items: list[Item], targets: dict[int, int]) -> tuple[Block, ...]:
    leaders = {0, *targets.values()}
    leaders |= {place + 1 for place, item in enumerate(items) if item.instruction.opcode in CONTROL}
    starts = sorted(place for place in leaders if place < len(items))
    number_of = {place: number for number, place in enumerate(starts)}
    blocks = []
    for number, start in enumerate(starts):
        stop = starts[number + 1] if number + 1 < len(starts) else len(items)
        inside = items[start:stop]
        end = inside.pop() if inside[-1].instruction.opcode in CONTROL else None
        classes = Counter(instruction_class(item.instruction) for item in (*inside, *((end,) if end else ())))
        target = targets.get(end.instruction.address) if end else None
        blocks.append(
            Block(
                number,
                tuple(inside),
                end,
                None if target is None else number_of[target],
                number + 1 if number + 1 < len(starts) else None,
                _is_skippable(inside, end),
                classes,
            )
        )
    return tuple(blocks)


def _is_skippable(inside: list[Item], end: Item | None) -> bool:
    """Whether a wave with EXEC = 0 comes out of the block as if it had jumped over it."""
    return end is None and all(_touches_lanes_only(item) for item in inside)


def _touches_lanes_only(item: Item) -> bool:
    instruction = item.instruction
    if instruction.encoding == "SOPP":
        return instruction.opcode != "s_sendmsg"
    if instruction.opcode.startswith(("v_wmma", "v_writelane", "v_nop")) or not instruction.encoding.startswith("V"):
        return instruction.encoding == "DS"
    return not item.masks.written >> SCALAR_BIT


__all__ = ["CLASSES", "VGPR", "Block", "Item", "branch_target", "build_blocks", "instruction_class"]
