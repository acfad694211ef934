"""Two waves at one place without a barrier between them, at least one of them writing.

For each granule of memory the last writer and the last reader are kept, each as a tag of workgroup, barrier epoch and
wave.  Barriers order the waves of one workgroup; nothing orders waves of different workgroups but atomics, which are
exempt.  Several readers between two barriers fold into one tag that stands for all of them.

Two waves may store equal bytes at one place: Triton lets every wave that holds a copy of a value store it.  So a store
over another wave's is looked at again once it is done, and is a race only if it changed what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import RaceError
from .instruction import Instruction
from .memory import Buffer, Memory
from .state import LANES, Group

# tag = workgroup + 1 << 32 | epoch << 12 | wave within the workgroup; 0: nobody.
_EPOCH_SHIFT, _GROUP_SHIFT = np.int64(12), np.int64(32)
_MANY = np.int64(0xFFF)  # in place of the wave: several waves of this workgroup in this epoch
_SEVERAL_GROUPS = np.int64(-1)  # readers of several workgroups, which no barrier orders
_MAX_EPOCH = (1 << 20) - 1


class Tracker:
    """Tags of one range of bytes. A granule is 4 bytes until somebody touches less than that."""

    def __init__(self, size: int):
        self._size = size
        self._granule = 4
        self._writers = self._empty()
        self._readers = self._empty()

    def _empty(self) -> np.ndarray:
        # numpy asks the system for zeroed pages, which exist once they are touched.
        return np.zeros(-(-self._size // self._granule) + 4, np.int64)

    def granules(self, at: np.ndarray, width: int) -> np.ndarray:
        """Numbers of the granules that each access covers: `[accesses, granules]`."""
        wanted = self._granule
        while wanted > 1 and (width % wanted or (at & (wanted - 1)).any()):
            wanted //= 2
        if wanted != self._granule:
            self._refine(wanted)
        first = at // self._granule if self._granule > 1 else at
        count = width // self._granule
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)

    def _refine(self, granule: int) -> None:
        times = self._granule // granule
        self._granule = granule
        for name in ("_writers", "_readers"):
            old, new = getattr(self, name), self._empty()
            spread = np.repeat(old, times)[: len(new)]
            new[: len(spread)] = spread
            setattr(self, name, new)

    def load(self, at: np.ndarray, width: int, tags: np.ndarray) -> tuple[int, np.int64] | None:
        """Notes reads. Returns (number of the access, the other's tag) of a conflict."""
        places = self.granules(at, width)
        tags = tags[:, None]
        found = _conflict(self._writers[places], tags)
        if found is not None:
            return found
        before = self._readers[places]
        same_epoch = (before >> _EPOCH_SHIFT) == (tags >> _EPOCH_SHIFT)
        apart = (before != 0) & ((before >> _GROUP_SHIFT) != (tags >> _GROUP_SHIFT))
        after = np.where(same_epoch & (before != tags), tags | _MANY, np.broadcast_to(tags, places.shape))
        after = np.where(apart, _SEVERAL_GROUPS, after)
        self._readers[places] = after
        # Waves of this very instruction that read the same place: the last one was kept, and must stand for all.
        kept = self._readers[places]
        different = kept != after
        if different.any():
            together = (kept >> _EPOCH_SHIFT) == (np.broadcast_to(tags, places.shape) >> _EPOCH_SHIFT)
            folded = np.where(together, np.broadcast_to(tags | _MANY, places.shape), _SEVERAL_GROUPS)
            self._readers[places[different]] = folded[different]
        return None

    def store(self, at: np.ndarray, width: int, tags: np.ndarray) -> tuple[int, np.int64] | Overlap | None:
        """Notes writes. Returns a conflict with a read, or where they meet other waves' writes."""
        places = self.granules(at, width)
        tags = tags[:, None]
        found = _conflict(self._readers[places], tags)
        if found is not None:
            return found
        before = self._writers[places]
        earlier = _unordered(before, tags)
        self._writers[places] = tags
        kept = self._writers[places]
        same_time = _unordered(kept, tags)
        if not (earlier.any() or same_time.any()):
            return None
        earlier, same_time = earlier.any(axis=1), same_time.any(axis=1)
        others = np.where(earlier, before[:, 0], kept[:, 0])
        return Overlap(np.flatnonzero(earlier | same_time), earlier, others)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Accesses of a store that meet another wave's store; those in `earlier` meet one that is done."""

    accesses: np.ndarray
    earlier: np.ndarray
    others: np.ndarray


@dataclass(frozen=True, slots=True)
class Pending:
    """A store to be looked at again: positions of its overlapping accesses in `data`, and what was there before."""

    overlap: Overlap
    data: np.ndarray
    at: np.ndarray
    before: np.ndarray
    positions: np.ndarray
    report: Callable[[int, np.int64], None]


def _unordered(others: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """Where another wave's tag stands that no barrier orders before this access."""
    different = (others != 0) & (others != tags)
    if not different.any():
        return different
    return different & (
        ((others >> _EPOCH_SHIFT) == (tags >> _EPOCH_SHIFT)) | ((others >> _GROUP_SHIFT) != (tags >> _GROUP_SHIFT))
    )


def _conflict(others: np.ndarray, tags: np.ndarray) -> tuple[int, np.int64] | None:
    bad = _unordered(others, tags)
    if not bad.any():
        return None
    access, granule = np.argwhere(bad)[0]
    return int(access), others[access, granule]


class RaceDetector:
    """Watches one launch. `first_wave` of each part of the grid is set as it starts."""

    def __init__(self, memory: Memory, waves_per_group: int):
        self._memory = memory
        self._per_group = waves_per_group
        self._buffers: dict[int, Tracker] = {}
        self._lds: Tracker | None = None
        self._pending: list[Pending] = []
        self.first_wave = 0

    def start(self, first_wave: int, lds_bytes: int) -> None:
        """A new part of the grid: LDS is new, global memory is not."""
        self.first_wave = first_wave
        self._lds = Tracker(lds_bytes)

    def on_lds(self, g: Group, instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        if kind == "atomic" or self._lds is None:
            return
        flat = at.reshape(-1)

        def report(access: int, other: np.int64) -> None:
            offset = int(flat[access] - np.broadcast_to(g.lds_base, (g.count, LANES))[_mask(g, where)][access])
            self._report(g, where, access, other, kind, f"offset {offset} of LDS")

        found = getattr(self._lds, kind)(flat, width, self._tags(g, where))
        self._note(found, g.machine.lds.data, flat, width, None, report)

    def on_global(self, g: Group, instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        if kind == "atomic":
            return
        flat = at.reshape(-1)
        tags = None
        for buffer, chosen, offsets in self._split(flat, width, kind):
            if not buffer.writable:
                continue
            tracker = self._buffers.get(buffer.base)
            if tracker is None:
                tracker = self._buffers[buffer.base] = Tracker(buffer.size)
            tags = self._tags(g, where) if tags is None else tags
            positions = None if chosen is None else np.flatnonzero(chosen)

            def report(access: int, other: np.int64, offsets=offsets, positions=positions, name=buffer.name) -> None:
                position = access if positions is None else int(positions[access])
                self._report(g, where, position, other, kind, f"offset {int(offsets[access])} of {name!r}")

            found = getattr(tracker, kind)(offsets, width, tags if chosen is None else tags[chosen])
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
            lost = (now != written[item.positions]).any(axis=1)
            changed = (now != item.before).any(axis=1) & item.overlap.earlier[item.overlap.accesses]
            if (lost | changed).any():
                access = int(item.overlap.accesses[np.argmax(lost | changed)])
                item.report(access, item.overlap.others[access])

    def _split(self, flat: np.ndarray, width: int, kind: str) -> list[tuple[Buffer, np.ndarray | None, np.ndarray]]:
        from .memory import AccessFault

        try:
            return list(self._memory.split(flat, width, writing=kind == "store"))
        except AccessFault:
            return []  # the access itself reports it

    def _tags(self, g: Group, where) -> np.ndarray:
        """One tag an access, in the order of the addresses."""
        waves = g.wave_numbers + self.first_wave
        epochs = np.minimum(g.machine.signals[g.waves], _MAX_EPOCH)
        tags = (waves // self._per_group + 1) << _GROUP_SHIFT | epochs << _EPOCH_SHIFT | waves % self._per_group
        return np.broadcast_to(tags[:, None], (g.count, LANES))[_mask(g, where)]

    def _report(self, g: Group, where, position: int, other: np.int64, kind: str, place: str) -> None:
        wave, lane = g.lane_at(position, where)
        own_group, own_wave = divmod(wave + self.first_wave, self._per_group)
        verb = "writes" if kind == "store" else "reads"
        raise RaceError(
            f"{verb} {place}, which {_who(other)} touched, without a barrier between "
            f"(workgroup {own_group}, wave {own_wave}, lane {lane})"
        )


def _mask(g: Group, where) -> np.ndarray:
    return np.ones((g.count, LANES), bool) if where is True else where


def _who(tag: np.int64) -> str:
    if tag == _SEVERAL_GROUPS:
        return "waves of several workgroups"
    group, wave = int(tag >> _GROUP_SHIFT) - 1, int(tag & _MANY)
    return f"several waves of workgroup {group}" if wave == int(_MANY) else f"wave {wave} of workgroup {group}"
