"""Runs all waves of a machine to their end.

Waves at one block form a group.  The group at the lowest address runs first, until it reaches a block where another
group waits, which it joins; so waves that a branch parted meet again behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .blocks import Block, Item
from .errors import BarrierError, EmulationError, Place, StepBudgetError
from .in_flight import merge_queues
from .instruction import EXEC, VCC
from .machine import Machine
from .state import Group

Examine = Callable[[Group, Item], None]

_TAKEN = {
    "s_cbranch_scc0": lambda g: ~g.scc,
    "s_cbranch_scc1": lambda g: g.scc,
    "s_cbranch_vccz": lambda g: g.s[VCC] == 0,
    "s_cbranch_vccnz": lambda g: g.s[VCC] != 0,
    "s_cbranch_execz": lambda g: g.s[EXEC] == 0,
    "s_cbranch_execnz": lambda g: g.s[EXEC] != 0,
}


class Scheduler:
    """One run. `executed[b]` counts the waves that went through block b."""

    def __init__(self, machine: Machine, blocks: Sequence[Block], examine: Examine, place_of: Callable[[Item], Place]):
        self._machine, self._blocks = machine, blocks
        self._examine, self._place_of = examine, place_of
        self._ready: dict[int, Group] = {}
        self._blocked: list[tuple[int, Group]] = []
        self.executed = np.zeros(len(blocks), np.int64)
        self._steps = [
            [(item.touched, item.tracked_step if machine.checks.in_flight else item.step, item) for item in block.items]
            for block in blocks
        ]

    def run(self, group: Group) -> None:
        """Raises EmulationError, with its place, for any fault of the program."""
        self._enter(0, group)
        while True:
            while self._ready:
                number = min(self._ready)
                self._advance(number, self._ready.pop(number))
            if not self._blocked:
                return
            self._release()
            if not self._ready:
                self._report_deadlock()

    def _advance(self, number: int | None, g: Group) -> None:
        """Runs one group until it ends, waits, splits, or comes to where another group is, or behind it."""
        limit = min(self._ready, default=len(self._blocks))
        while number is not None:
            if number >= limit:
                self._enter(number, g)
                return
            number = self._run_block(self._blocks[number], g)

    def _run_block(self, block: Block, g: Group) -> int | None:
        machine = self._machine
        self.executed[block.number] += g.count
        machine.steps += block.length
        item = block.end
        try:
            for touched, step, item in self._steps[block.number]:
                if g.attention & touched:
                    self._examine(g, item)
                step(g)
            item = block.end
            if machine.steps > machine.checks.step_budget:
                raise StepBudgetError(f"more than {machine.checks.step_budget} steps: an endless loop?")
            if item is None:
                if block.following is None:
                    raise EmulationError("runs past the end of the code: no s_endpgm")
                return block.following
            if g.attention & item.touched:
                self._examine(g, item)
            return self._leave(block, item, g)
        except EmulationError as error:
            raise error.at(self._place_of(item or block.items[-1])) from error.__cause__

    def _leave(self, block: Block, end: Item, g: Group) -> int | None:
        opcode = end.instruction.opcode
        if opcode == "s_branch":
            return block.target
        if opcode == "s_endpgm":
            self._machine.ended[g.wave_numbers] = True
            g.flush()
            return None
        if opcode == "s_barrier_wait":
            return self._wait(block, g)
        taken = _TAKEN[opcode](g)
        if taken.all():
            return block.target
        if not taken.any():
            return block.following
        if opcode == "s_cbranch_execz" and self._may_fall_through(block):
            skipped = int(taken.sum())
            self.executed[block.following : block.target] -= skipped
            return block.following
        self._split(g, taken, block.target, block.following)
        return None

    def _may_fall_through(self, block: Block) -> bool:
        """Whether the branch only jumps over blocks that do nothing to waves without active lanes."""
        if not self._machine.checks.execz_shortcut or block.target is None or block.target <= block.number:
            return False
        return all(self._blocks[number].skippable for number in range(block.number + 1, block.target))

    def _split(self, g: Group, taken: np.ndarray, target: int, following: int) -> None:
        g.flush()
        for chosen, number in ((taken, target), (~taken, following)):
            part = self._machine.group(g.wave_numbers[chosen])
            _copy_tracking(g, part)
            self._enter(number, part)

    def _enter(self, number: int, g: Group) -> None:
        other = self._ready.get(number)
        if other is None:
            self._ready[number] = g
            return
        other.flush()
        g.flush()
        merged = self._machine.group(np.sort(np.concatenate([other.wave_numbers, g.wave_numbers])))
        merged.loads = merge_queues(other.loads, g.loads)
        merged.lds_operations = merge_queues(other.lds_operations, g.lds_operations)
        merged.scalar_loads = merge_queues(other.scalar_loads, g.scalar_loads)
        merged.undefined = other.undefined | g.undefined
        merged.refresh_in_flight()
        self._ready[number] = merged

    def _wait(self, block: Block, g: Group) -> int | None:
        """A wave passes once every wave of its workgroup has signalled as often as it has."""
        if self._may_pass(g).all():
            self._pass_barrier(g)
            if not self._blocked:
                return block.following
            self._enter(block.following, g)
        else:
            self._blocked.append((block.following, g))
        self._release()
        return None

    def _pass_barrier(self, g: Group) -> None:
        self._machine.passed[g.waves] = self._machine.signals[g.waves]

    def _may_pass(self, g: Group) -> np.ndarray:
        machine = self._machine
        signals = machine.signals
        if not machine.checks.barriers:
            signals = np.where(machine.ended, np.iinfo(np.int64).max, signals)
        least = signals.reshape(machine.workgroups, machine.waves_per_group).min(axis=1)
        return least[g.wave_numbers // machine.waves_per_group] >= machine.signals[g.waves]

    def _release(self) -> None:
        still = []
        for number, g in self._blocked:
            passing = self._may_pass(g)
            if passing.all():
                self._pass_barrier(g)
                self._enter(number, g)
            elif passing.any():
                g.flush()
                for chosen, waiting in ((passing, False), (~passing, True)):
                    part = self._machine.group(g.wave_numbers[chosen])
                    _copy_tracking(g, part)
                    if waiting:
                        still.append((number, part))
                    else:
                        self._pass_barrier(part)
                        self._enter(number, part)
            else:
                still.append((number, g))
        self._blocked = still

    def _report_deadlock(self) -> None:
        machine = self._machine
        number, g = self._blocked[0]
        workgroup = int(g.wave_numbers[0]) // machine.waves_per_group
        first = workgroup * machine.waves_per_group
        waiting = {int(wave) for _, other in self._blocked for wave in other.wave_numbers}
        ended = [wave - first for wave in range(first, first + machine.waves_per_group) if machine.ended[wave]]
        others = sorted(wave - first for wave in waiting if first <= wave < first + machine.waves_per_group)
        detail = f"barrier of workgroup {workgroup} is not reached by all waves: {others} wait, {ended} have ended"
        item = self._blocks[number - 1].end
        raise BarrierError(detail, self._place_of(item))


def _copy_tracking(source: Group, target: Group) -> None:
    target.loads = list(source.loads)
    target.lds_operations = list(source.lds_operations)
    target.scalar_loads = list(source.scalar_loads)
    target.undefined = source.undefined
    target.refresh_in_flight()
