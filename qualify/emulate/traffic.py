"""Memory counters of a launch, added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assay.emulator import Counters, MemoryCounter
from assay.emulator.counters import SEGMENTS


@dataclass(frozen=True, slots=True)
class Traffic:
    """Accesses to global memory: wave-instructions, bytes that active lanes asked for, segments touched, by size."""

    waves: int
    bytes: int
    segments: tuple[int, ...]

    def coalescing(self, size: int) -> float | None:
        """Bytes asked for / bytes of the segments of `size` bytes that hold them: 1 where every byte is asked for once,
        above it where lanes share bytes.  None where nothing was touched.
        """
        touched = self.segments[SEGMENTS.index(size)] * size
        return self.bytes / touched if touched else None


def traffic_of(counters: Iterable[MemoryCounter]) -> Traffic:
    """The sum over instructions."""
    found = list(counters)
    segments = tuple(sum(getattr(item, f"segments_{size}") for item in found) for size in SEGMENTS)
    return Traffic(sum(item.waves for item in found), sum(item.bytes for item in found), segments)


def traffic_by_kind(counters: Counters) -> dict[str, Traffic]:
    """`load`, `store` and `atomic`, those that occurred, and `all`."""
    kinds = dict.fromkeys(item.kind for item in counters.memory)
    found = {kind: traffic_of(item for item in counters.memory if item.kind == kind) for kind in sorted(kinds)}
    return {**found, "all": traffic_of(counters.memory)} if found else {}
