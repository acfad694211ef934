"""Two waves at one place without a barrier between them, at least one of them writing.

For each granule of memory the last writer and the last reader are kept, each as a tag of workgroup, barrier epoch and
wave.  Barriers order the waves of one workgroup; nothing orders waves of different workgroups but atomics, which are
exempt.  Several readers between two barriers fold into one tag that stands for all of them.

Two waves may store equal bytes at one place: Triton lets every wave that holds a copy of a value store it.  So a store
over another wave's is looked at again once it is done, and is a race only if it changed what was there.  One NaN is as
good as another: which of two NaNs a sum keeps, numpy leaves open, and differently for the last lanes of an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .access_tags import EPOCH_SHIFT, GROUP_SHIFT, MANY, MAX_EPOCH, SEVERAL_GROUPS, Overlap, Tracker
from .errors import RaceError
from .instruction import Instruction
from .memory import Buffer, Memory
from .state import LANES, Group


@dataclass(frozen=True, slots=True)
class Pending:
    """A store to be looked at again: positions of its overlapping accesses in `data`, and what was there before."""

    overlap: Overlap
    data: np.ndarray
    at: np.ndarray
    before: np.ndarray
    positions: np.ndarray
    report: Callable[[int, np.int64], None]


class RaceDetector:
    """Watches one launch. `first_wave` of each part of the grid is set as it starts."""

    def __init__(self, memory: Memory, waves_per_group: int):
        self._memory = memory
        self._per_group = waves_per_group
        self._buffers: dict[int, Tracker] = {}
        self._lds = Tracker(0)
        self._lds_is_shared = True
        self._workgroups = self._stride = 0
        self._pending: list[Pending] = []
        self.first_wave = 0

    def start(self, first_wave: int, workgroups: int, lds_stride: int) -> None:
        """A new part of the grid: LDS is new, global memory is not."""
        self.first_wave = first_wave
        self._workgroups, self._stride = workgroups, lds_stride
        self._lds = Tracker(lds_stride)
        self._lds_is_shared = True

    def on_lds(self, g: Group, _instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        """While all workgroups touch the same offsets of their LDS at the same time, one of them stands for all."""
        if kind == "atomic":
            return
        flat = at.reshape(-1)
        bases = np.broadcast_to(g.lds_base, (g.count, LANES))[_mask(g, where)]
        tags, passed = self._tags(g, where)
        # Each workgroup has an LDS of its own, so here all are workgroup 0.
        tags = tags & ~(np.int64(-1) << GROUP_SHIFT) | np.int64(1) << GROUP_SHIFT

        def report(access: int, other: np.int64) -> None:
            self._report(
                g, where, access, other, kind, f"offset {int(flat[access] - bases[access])} of LDS", local=True
            )

        times = self._workgroups if self._is_uniform(g, at, tags, passed, where) else 1
        if times == 1 and self._lds_is_shared and self._workgroups > 1:
            self._lds, self._lds_is_shared = self._lds.repeated(self._workgroups), False
        own = len(flat) // times
        found = getattr(self._lds, kind)(flat[:own], width, tags[:own], passed[:own])
        if times > 1 and isinstance(found, Overlap):
            found = found.repeated(times)
        self._note(found, g.machine.lds.data, flat, width, None, report)

    def _is_uniform(self, g: Group, at: np.ndarray, tags: np.ndarray, passed: np.ndarray, where) -> bool:
        if not self._lds_is_shared or where is not True or g.count != self._workgroups * self._per_group:
            return False
        offsets = (at - g.lds_base).reshape(self._workgroups, -1)
        for values in (offsets, tags, passed):
            rows = values.reshape(self._workgroups, -1)
            if not (rows == rows[0]).all():
                return False
        return True

    def on_global(self, g: Group, _instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        if kind == "atomic":
            return
        flat = at.reshape(-1)
        tags = passed = None
        for buffer, chosen, offsets in self._split(flat, width, kind):
            if not buffer.writable:
                continue
            tracker = self._buffers.get(buffer.base)
            if tracker is None:
                tracker = self._buffers[buffer.base] = Tracker(buffer.size)
            if tags is None:
                tags, passed = self._tags(g, where)
            positions = None if chosen is None else np.flatnonzero(chosen)

            def report(access: int, other: np.int64, offsets=offsets, positions=positions, name=buffer.name) -> None:
                position = access if positions is None else int(positions[access])
                self._report(g, where, position, other, kind, f"offset {int(offsets[access])} of {name!r}")

            found = getattr(tracker, kind)(
                offsets, width, *((tags, passed) if chosen is None else (tags[chosen], passed[chosen]))
            )
            self._note(found, buffer.data, offsets, width, positions, report)

    def _note(self, found, data: np.ndarray, at: np.ndarray, width: int, positions, report) -> None:
        if found is None:
            return
        if not isinstance(found, Overlap):
            report(*found)
            return
        places = at[found.accesses][:, None] + np.arange(width)
        own = found.accesses if positions is None else positions[found.accesses]
        self._pending.append(Pending(found, data, places, data[places], own, report))

    def settle(self, pieces: list[np.ndarray]) -> None:
        """After a store: `pieces` is what each access wrote. Raises RaceError where waves disagreed."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        parts = [np.ascontiguousarray(piece).reshape(-1)[:, None].view(np.uint8) for piece in pieces]
        written = np.concatenate(parts, axis=1)
        for item in pending:
            now = item.data[item.at]
            lost = _differs(now, written[item.positions])
            changed = _differs(now, item.before) & item.overlap.earlier[item.overlap.accesses]
            if (lost | changed).any():
                access = int(item.overlap.accesses[np.argmax(lost | changed)])
                item.report(access, item.overlap.others[access])

    def _split(self, flat: np.ndarray, width: int, kind: str) -> list[tuple[Buffer, np.ndarray | None, np.ndarray]]:
        from .memory import AccessFault

        try:
            return list(self._memory.split(flat, width, writing=kind == "store"))
        except AccessFault:
            return []  # the access itself reports it

    def _tags(self, g: Group, where) -> tuple[np.ndarray, np.ndarray]:
        """One tag an access, in the order of the addresses, and how many barriers its wave has passed."""
        waves = g.wave_numbers + self.first_wave
        epochs = np.minimum(g.machine.signals[g.waves], MAX_EPOCH)
        tags = (waves // self._per_group + 1) << GROUP_SHIFT | epochs << EPOCH_SHIFT | waves % self._per_group
        mask = _mask(g, where)
        shape = (g.count, LANES)
        passed = np.broadcast_to(g.machine.passed[g.waves][:, None], shape)[mask]
        return np.broadcast_to(tags[:, None], shape)[mask], passed

    def _report(
        self, g: Group, where, position: int, other: np.int64, kind: str, place: str, *, local: bool = False
    ) -> None:
        wave, lane = g.lane_at(position, where)
        own_group, own_wave = divmod(wave + self.first_wave, self._per_group)
        if local:
            other = np.int64(own_group + 1) << GROUP_SHIFT | other & ~(np.int64(-1) << GROUP_SHIFT)
        verb = "writes" if kind == "store" else "reads"
        raise RaceError(
            f"{verb} {place}, which {_who(other)} touched, without a barrier between "
            f"(workgroup {own_group}, wave {own_wave}, lane {lane})"
        )


def _mask(g: Group, where) -> np.ndarray:
    return np.ones((g.count, LANES), bool) if where is True else where


def _differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which accesses [accesses, bytes] hold something else, FP32, FP16 and BF16 NaNs apart."""
    different = (a != b).any(axis=1)
    if a.shape[1] % 2 or not different.any():
        return different
    for dtype in (np.float32, np.float16):
        if a.shape[1] % dtype().itemsize == 0 and different.any():
            x, y = (np.ascontiguousarray(part).view(dtype) for part in (a, b))
            same = (x.view(f"u{x.itemsize}") == y.view(f"u{x.itemsize}")) | (np.isnan(x) & np.isnan(y))
            different &= ~same.all(axis=1)
    return different


def _who(tag: np.int64) -> str:
    if tag == SEVERAL_GROUPS:
        return "waves of several workgroups"
    group, wave = int(tag >> GROUP_SHIFT) - 1, int(tag & MANY)
    return f"several waves of workgroup {group}" if wave == int(MANY) else f"wave {wave} of workgroup {group}"
