"""Who touched which piece of memory last: the tags that races are found by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# tag = workgroup + 1 << 32 | epoch << 12 | wave within the workgroup; 0: nobody. The epoch counts barriers signalled.
EPOCH_SHIFT, GROUP_SHIFT = np.int64(12), np.int64(32)
MANY = np.int64(0xFFF)  # in place of the wave: several waves of this workgroup in this epoch
SEVERAL_GROUPS = np.int64(-1)  # readers of several workgroups, which no barrier orders
MAX_EPOCH = (1 << 20) - 1
_WAVE = ~(np.int64(MAX_EPOCH) << EPOCH_SHIFT)  # the bits of a tag that say whose it is


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

    def repeated(self, times: int) -> Tracker:
        """The same tags for `times` ranges one after the other; the range must be whole granules."""
        result = Tracker(self._size * times)
        result._granule = self._granule
        count = self._size // self._granule
        for name in ("_writers", "_readers"):
            tags = np.zeros(count * times + 4, np.int64)
            tags[: count * times] = np.tile(getattr(self, name)[:count], times)
            setattr(result, name, tags)
        return result

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

    def load(self, at: np.ndarray, width: int, tags: np.ndarray, passed: np.ndarray) -> tuple[int, np.int64] | None:
        """Notes reads. Returns (number of the access, the other's tag) of a conflict."""
        places = self.granules(at, width)
        tags, passed = tags[:, None], passed[:, None]
        found = _conflict(self._writers[places], tags, passed)
        if found is not None:
            return found
        before = self._readers[places]
        same_epoch = (before >> EPOCH_SHIFT) == (tags >> EPOCH_SHIFT)
        apart = (before != 0) & ((before >> GROUP_SHIFT) != (tags >> GROUP_SHIFT))
        after = np.where(same_epoch & (before != tags), tags | MANY, np.broadcast_to(tags, places.shape))
        after = np.where(apart, SEVERAL_GROUPS, after)
        self._readers[places] = after
        # Waves of this very instruction that read the same place: the last one was kept, and must stand for all.
        kept = self._readers[places]
        different = kept != after
        if different.any():
            together = (kept >> EPOCH_SHIFT) == (np.broadcast_to(tags, places.shape) >> EPOCH_SHIFT)
            folded = np.where(together, np.broadcast_to(tags | MANY, places.shape), SEVERAL_GROUPS)
            self._readers[places[different]] = folded[different]
        return None

    def store(
        self, at: np.ndarray, width: int, tags: np.ndarray, passed: np.ndarray
    ) -> tuple[int, np.int64] | Overlap | None:
        """Notes writes. Returns a conflict with a read, or where they meet other waves' writes."""
        places = self.granules(at, width)
        tags, passed = tags[:, None], passed[:, None]
        found = _conflict(self._readers[places], tags, passed)
        if found is not None:
            return found
        before = self._writers[places]
        earlier = _unordered(before, tags, passed)
        self._writers[places] = tags
        kept = self._writers[places]
        same_time = _unordered(kept, tags, passed)
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

    def repeated(self, times: int) -> Overlap:
        """The same for `times` groups of accesses, each as many as these came from."""
        count = len(self.earlier)
        accesses = (np.arange(times)[:, None] * count + self.accesses).reshape(-1)
        return Overlap(accesses, np.tile(self.earlier, times), np.tile(self.others, times))


def _unordered(others: np.ndarray, tags: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """Where another wave's tag stands that no barrier orders before this access.

    A barrier orders them if the other wave signalled it after its access, and this one has waited for it: if this wave
    has passed more barriers than the other had signalled.
    """
    different = (others != 0) & (((others ^ tags) & _WAVE) != 0)
    if not different.any():
        return different
    signalled = (others >> EPOCH_SHIFT) & MAX_EPOCH
    return different & ((signalled >= passed) | ((others >> GROUP_SHIFT) != (tags >> GROUP_SHIFT)))


def _conflict(others: np.ndarray, tags: np.ndarray, passed: np.ndarray) -> tuple[int, np.int64] | None:
    bad = _unordered(others, tags, passed)
    if not bad.any():
        return None
    access, granule = np.argwhere(bad)[0]
    return int(access), others[access, granule]
