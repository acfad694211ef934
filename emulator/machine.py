"""The state of one launch, or of a part of its workgroups, and what steps ask of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .checks import Checks
from .errors import MisalignedError, OutOfBoundsError
from .in_flight import check_barrier
from .local import LocalMemory, ScratchMemory
from .memory import _ELEMENTS as ELEMENTS
from .memory import AccessFault, Memory
from .semantics.atomics import resolve
from .state import Group, Registers

Observer = Callable[..., None]
_GROUPS_KEPT = 64


class Machine:
    """Registers, LDS and scratch of `workgroups` workgroups of `waves_per_group` waves.

    `on_global` and `on_lds` are told of every access: (group, instruction, addresses, bytes, lanes, kind).
    """

    def __init__(
        self,
        memory: Memory,
        checks: Checks,
        *,
        workgroups: int,
        waves_per_group: int,
        vector_count: int,
        lds_bytes: int,
        scratch_bytes: int,
    ):
        waves = workgroups * waves_per_group
        self.memory, self.checks = memory, checks
        self.workgroups, self.waves_per_group, self.waves = workgroups, waves_per_group, waves
        self.registers = Registers(vector_count, waves, track=checks.undefined)
        self.lds = LocalMemory(workgroups, lds_bytes, track=checks.undefined, aligned=checks.alignment)
        self.lds_base = (np.arange(waves) // waves_per_group * self.lds.stride)[:, None]
        self.scratch = ScratchMemory(waves, scratch_bytes, track=checks.undefined)
        self.on_global: Observer | None = None
        self.settle: Callable[[list[np.ndarray]], None] | None = None
        self.signals = np.zeros(waves, np.int64)
        """How often each wave has signalled the barrier, and how often it has waited for it."""
        self.passed = np.zeros(waves, np.int64)
        self.ended = np.zeros(waves, bool)
        self.steps = 0
        self._groups: dict[tuple[int, int, int], Group] = {}

    def connect(self, meter, races, first_wave: int) -> None:
        """Sends accesses to the counters and to the race detector, whichever are wanted."""
        counting = meter.transactions
        self.on_global = _both(meter.on_global if counting else None, races.on_global if races else None)
        self.lds.observer = _both(meter.on_lds if counting else None, races.on_lds if races else None)
        self.settle = races.settle if races else None
        if races:
            races.start(first_wave, self.workgroups, self.lds.stride)

    def group(self, numbers: np.ndarray) -> Group:
        """A group of these waves, ascending. Its registers are views if the numbers are a slice."""
        step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
        stop = int(numbers[-1]) + 1
        if len(numbers) > 2 and (np.diff(numbers) != step).any():
            return Group(self, self.registers, numbers)
        key = (int(numbers[0]), stop, step)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _GROUPS_KEPT:
                self._groups.pop(next(iter(self._groups)))
            group = self._groups[key] = Group(self, self.registers, slice(*key))
        group.refresh_exec()
        return group

    def signal_barrier(self, g: Group) -> None:
        if self.checks.in_flight:
            check_barrier(g)
        self.signals[g.waves] += 1

    def load_global(self, g: Group, addresses: np.ndarray, width: int, where) -> np.ndarray:
        """`Memory.load`, with faults that name wave and lane. `where` is `None` for scalar loads."""
        try:
            return self.memory.load(addresses, width)
        except AccessFault as fault:
            if self.checks.bounds:
                raise self._located(g, fault, addresses, where) from None
        valid = self._valid(addresses, width, writing=False)
        values = np.zeros(addresses.shape, ELEMENTS[width])
        values[valid] = self.memory.load(addresses[valid], width)
        return values

    def store_global(self, g: Group, addresses: np.ndarray, values: np.ndarray, width: int, where) -> None:
        try:
            self.memory.store(addresses, values, width)
        except AccessFault as fault:
            if self.checks.bounds:
                raise self._located(g, fault, addresses, where) from None
            valid = self._valid(addresses, width, writing=True)
            self.memory.store(addresses[valid], values[valid], width)

    def atomic_global(self, g: Group, addresses, operands, function, dtype, where) -> np.ndarray:
        """Read, change and write back at each address in turn; the values before."""
        width = np.dtype(dtype).itemsize
        if (addresses & np.uint64(width - 1)).any():
            position = int(np.argmax(addresses & np.uint64(width - 1) != 0))
            wave, lane = g.lane_at(position, where)
            raise MisalignedError(
                f"atomic of {width} bytes at {int(addresses[position]):#x}, not aligned (wave {wave}, lane {lane})"
            )
        try:
            parts = self.memory.split(addresses, width, writing=True)
        except AccessFault as fault:
            raise self._located(g, fault, addresses, where) from None
        before = np.zeros(addresses.shape, dtype)
        for buffer, chosen, offsets in parts:
            pick = slice(None) if chosen is None else chosen
            elements = buffer.view(width).view(dtype)
            before[pick] = resolve(elements, offsets // width, [operand[pick] for operand in operands], function)
        return before

    def _valid(self, addresses: np.ndarray, width: int, *, writing: bool) -> np.ndarray:
        valid = np.zeros(addresses.shape, bool)
        for buffer in self.memory.buffers:
            if buffer.writable or not writing:
                # The last address that fits: behind the highest one the sum of address and width would wrap.
                valid |= (addresses >= np.uint64(buffer.base)) & (addresses <= np.uint64(buffer.end - width))
        return valid

    def _located(self, g: Group, fault: AccessFault, addresses: np.ndarray, where) -> OutOfBoundsError:
        if where is None:
            columns = addresses.shape[1] if addresses.ndim == 2 else 1
            wave, _ = g.lane_at(fault.position // columns, None)
            return OutOfBoundsError(f"{fault.detail} (wave {wave}, scalar)")
        wave, lane = g.lane_at(fault.position, where)
        return OutOfBoundsError(f"{fault.detail} (wave {wave}, lane {lane})")


def _both(first: Observer | None, second: Observer | None) -> Observer | None:
    if first is None or second is None:
        return first or second

    def run(*access) -> None:
        first(*access)
        second(*access)

    return run
