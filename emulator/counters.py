"""What a launch executed and moved, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .blocks import CLASSES, Block
from .instruction import Instruction
from .state import LANES, Group

SEGMENTS = (32, 64, 128)
# 32 banks of 4 bytes serve the SIMDs of one half of a workgroup processor (RDNA4 ISA, 'LDS').
BANKS = 32
_PATTERNS_KEPT = 4096


@dataclass(frozen=True, slots=True)
class MemoryCounter:
    """One vector memory instruction: how often a wave executed it, bytes asked for by active lanes, and the aligned
    segments of 32, 64 and 128 bytes that its waves touched.
    """

    address: int
    text: str
    kind: str
    waves: int
    bytes: int
    segments_32: int
    segments_64: int
    segments_128: int


@dataclass(frozen=True, slots=True)
class LdsCounter:
    """One LDS instruction. `cycles` counts, for each wave, the most words that any bank must serve; `ideal_cycles`
    what the same words would take evenly spread. Their difference is what bank conflicts cost.
    """

    address: int
    text: str
    kind: str
    waves: int
    bytes: int
    cycles: int
    ideal_cycles: int


@dataclass(frozen=True, slots=True)
class Counters:
    """Executed wave-instructions by class, and memory traffic by instruction, in order of address."""

    waves: int
    workgroups: int
    instructions: dict[str, int] = field(hash=False)
    memory: tuple[MemoryCounter, ...] = ()
    lds: tuple[LdsCounter, ...] = ()

    @property
    def total(self) -> int:
        """All executed wave-instructions."""
        return sum(self.instructions.values())

    @property
    def bank_conflict_cycles(self) -> int:
        return sum(item.cycles - item.ideal_cycles for item in self.lds)


class Meter:
    """Adds up during a launch."""

    def __init__(self, blocks: Sequence[Block], *, transactions: bool):
        self._blocks = blocks
        self.transactions = transactions
        self._executed = np.zeros(len(blocks), np.int64)
        self._global: dict[int, list] = {}
        self._lds: dict[int, list] = {}
        self._patterns: dict[bytes, tuple[int, int]] = {}

    def add_blocks(self, executed: np.ndarray) -> None:
        self._executed += executed

    def on_global(self, g: Group, instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        entry = self._global.get(instruction.address)
        if entry is None:
            entry = self._global[instruction.address] = [instruction.text, kind, 0, 0, 0, 0, 0]
        entry[2] += _active_waves(g, where)
        entry[3] += at.size * width
        waves = None if where is True else np.broadcast_to(np.arange(g.count)[:, None], (g.count, LANES))[where]
        for place, count in enumerate(segment_counts(at, width, waves)):
            entry[4 + place] += count

    def on_lds(self, g: Group, instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        entry = self._lds.get(instruction.address)
        if entry is None:
            entry = self._lds[instruction.address] = [instruction.text, kind, 0, 0, 0, 0]
        entry[2] += _active_waves(g, where)
        entry[3] += at.size * width
        cycles, ideal = self._bank_cycles(g, at, width, where)
        entry[4] += cycles
        entry[5] += ideal

    def _bank_cycles(self, g: Group, at: np.ndarray, width: int, where) -> tuple[int, int]:
        """Loops come back to the same addresses, so what an access costs is remembered."""
        if where is not True:
            full = np.full((g.count, LANES), -1, np.int64)
            full[where] = at - np.broadcast_to(g.lds_base, (g.count, LANES))[where]
        else:
            full = at - g.lds_base
        key = width.to_bytes(1, "little") + full.tobytes()
        if key not in self._patterns:
            if len(self._patterns) >= _PATTERNS_KEPT:
                self._patterns.clear()
            self._patterns[key] = bank_cycles(full, width)
        return self._patterns[key]

    def result(self, launch) -> Counters:
        instructions = dict.fromkeys(CLASSES, 0)
        for block, executed in zip(self._blocks, self._executed, strict=True):
            for name, count in block.classes.items():
                instructions[name] += count * int(executed)
        return Counters(
            launch.workgroups * launch.waves_per_group,
            launch.workgroups,
            instructions,
            tuple(MemoryCounter(address, *entry) for address, entry in sorted(self._global.items())),
            tuple(LdsCounter(address, *entry) for address, entry in sorted(self._lds.items())),
        )


def segment_counts(at: np.ndarray, width: int, waves: np.ndarray | None) -> list[int]:
    """How many aligned segments of each size in SEGMENTS the accesses touch, each wave for itself.

    `at` is `[waves, 32]`, or one address an active lane with the wave of each in `waves`.
    """
    first = at >> np.uint64(5)
    last = (at + np.uint64(width - 1)) >> np.uint64(5)
    if waves is not None:
        # The wave goes in front of the segment's number, so that one sort keeps waves apart.
        tag = waves.astype(np.uint64) << np.uint64(48)
        first, last = (first + tag)[None], (last + tag)[None]
    spans = bool((first != last).any())
    touched = np.concatenate([first, last], axis=1) if spans else first
    ordered = np.sort(touched, axis=1)
    counts = []
    for shift in (0, 1, 2):
        segments = ordered >> np.uint64(shift)
        counts.append(int(np.count_nonzero(segments[:, 1:] != segments[:, :-1])) + len(segments))
    return counts


def bank_cycles(at: np.ndarray, width: int) -> tuple[int, int]:
    """Cycles of LDS accesses at `at` (`[waves, 32]`, -1 for no access), summed over waves: the most different words in
    one bank, and what an even spread would take.
    """
    offsets = np.arange(0, max(width, 4), 4)
    words = np.where(at[:, :, None] < 0, -1, (at[:, :, None] + offsets) >> 2).reshape(len(at), -1)
    words = np.sort(words, axis=1)
    new = words >= 0
    new[:, 1:] &= words[:, 1:] != words[:, :-1]
    wave = np.broadcast_to(np.arange(len(at))[:, None], words.shape)[new]
    load = np.bincount(wave * BANKS + words[new] % BANKS, minlength=len(at) * BANKS).reshape(len(at), BANKS)
    ideal = -(-load.sum(axis=1) // BANKS)
    return int(load.max(axis=1).sum()), int(ideal.sum())


def _active_waves(g: Group, where) -> int:
    return g.count if where is True else int(where.any(axis=1).sum())
