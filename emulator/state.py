"""The registers of all waves, and groups of waves that execute together.

Vector registers are `V[register, wave, lane]`, scalar ones `S[wave, register]` (wave first, so that an aligned pair is
one 64-bit number).  A group is a set of waves at one program counter.  Where the set is a slice, its rows are views and
results land in place; otherwise rows are gathered when first touched and scattered back by `flush`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LANES = 32
ALL_LANES = np.uint32(0xFFFFFFFF)
SCALARS = 128
VCC, M0, EXEC = 106, 125, 126


class Rows(dict):
    """Register number -> array of that register, made when first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], np.ndarray]):
        super().__init__()
        self._make = make

    def __missing__(self, register: int) -> np.ndarray:
        row = self[register] = self._make(register)
        return row


class Registers:
    """Registers of `waves` waves. `shadow`, if tracked, has a set bit for each bit that nobody wrote."""

    def __init__(self, vector_count: int, waves: int, *, track: bool = False):
        self.waves = waves
        self.vector = np.zeros((vector_count, waves, LANES), np.uint32)
        self.scalar = np.zeros((waves, SCALARS), np.uint32)
        self.scc = np.zeros(waves, bool)
        self.scalar[:, EXEC] = ALL_LANES
        self.shadow: Registers | None = None
        if track:
            self.shadow = Registers(vector_count, waves)
            self.shadow.vector[...] = ALL_LANES
            self.shadow.scalar[...] = ALL_LANES
            self.shadow.scc[...] = True


class Group:
    """Waves at one program counter.

    `u`, `i`, `f` give a VGPR as uint32, int32, float32 `[waves, 32]`; `w`, `wi`, `h` its halves as uint16, int16,
    float16 by number 2·register + half.  `s`, `si`, `sf`, `s64` give an SGPR `[waves]`; `c`, `ci`, `cf` the same as a
    column `[waves, 1]`.  `mask` is `True` where every lane is active, else the active lanes `[waves, 32]`.
    """

    def __init__(self, machine, registers: Registers, waves: slice | np.ndarray):
        self.machine = machine
        self.registers = registers
        self.waves = waves
        self.wave_numbers = np.arange(registers.waves)[waves]
        self.count = len(self.wave_numbers)
        self.lds_base = machine.lds_base[waves]
        self.scalar = registers.scalar[waves]
        self.scc = registers.scc[waves]
        self._make_rows()
        self._shadow: Group | None = None
        # In the order of issue: (mask of the registers that will be written, instruction).
        self.loads: list = []
        self.lds_operations: list = []
        self.scalar_loads: list = []
        # Masks of registers: bit r for VGPR r, then the scalar ones (see `masks`).
        self.in_flight = self.undefined = self.attention = 0
        self.mask: bool | np.ndarray = True
        self.refresh_exec()

    def _make_rows(self) -> None:
        vector, waves, count, scalar = self.registers.vector, self.waves, self.count, self.scalar
        u = self.u = Rows(lambda r: vector[r, waves])
        self.i = Rows(lambda r: u[r].view(np.int32))
        self.f = Rows(lambda r: u[r].view(np.float32))
        w = self.w = Rows(lambda r: u[r >> 1].view(np.uint16).reshape(count, LANES, 2)[:, :, r & 1])
        self.wi = Rows(lambda r: w[r].view(np.int16))
        self.h = Rows(lambda r: w[r].view(np.float16))
        signed, single, double = (scalar.view(dtype) for dtype in (np.int32, np.float32, np.uint64))
        self.s = Rows(lambda r: scalar[:, r])
        self.si = Rows(lambda r: signed[:, r])
        self.sf = Rows(lambda r: single[:, r])
        self.s64 = Rows(lambda r: double[:, r >> 1])
        self.c = Rows(lambda r: scalar[:, r : r + 1])
        self.ci = Rows(lambda r: signed[:, r : r + 1])
        self.cf = Rows(lambda r: single[:, r : r + 1])

    @property
    def shadow(self) -> Group:
        """The same waves of the shadow registers, with this group's active lanes."""
        if self._shadow is None:
            self._shadow = Group(self.machine, self.registers.shadow, self.waves)
        self._shadow.mask = self.mask
        return self._shadow

    def lane_at(self, position: int, where) -> tuple[int, int]:
        """Wave number and lane of the `position`-th address of an access by the lanes in `where`."""
        if where is None:
            return int(self.wave_numbers[min(position, self.count - 1)]), 0
        flat = position if where is True else int(np.flatnonzero(where)[position])
        return int(self.wave_numbers[flat // LANES]), flat % LANES

    def mark_undefined(self, mask: int) -> None:
        """Some bits of these registers may be undefined."""
        self.undefined |= mask
        self.attention = self.in_flight | self.undefined

    def mark_defined(self, mask: int) -> None:
        self.undefined &= ~mask
        self.attention = self.in_flight | self.undefined

    def complete(self, *, loads: int | None = None, lds: int | None = None, scalars: int | None = None) -> None:
        """An `s_wait_*`: all but the last so many operations of a kind are done. Scalar loads come in any order."""
        if loads is not None and self.loads:
            self.loads = self.loads[-loads:] if loads else []
        if lds is not None and self.lds_operations:
            self.lds_operations = self.lds_operations[-lds:] if lds else []
        if scalars == 0:
            self.scalar_loads = []
        self.refresh_in_flight()

    def refresh_in_flight(self) -> None:
        mask = 0
        for queue in (self.loads, self.lds_operations, self.scalar_loads):
            for registers, _ in queue:
                mask |= registers
        self.in_flight = mask
        self.attention = mask | self.undefined

    @property
    def is_view(self) -> bool:
        return isinstance(self.waves, slice)

    def flush(self) -> None:
        """Write gathered registers back; nothing to do where rows are views."""
        if self.is_view:
            return
        registers = self.registers
        for number, row in self.u.items():
            registers.vector[number, self.waves] = row
        registers.scalar[self.waves] = self.scalar
        registers.scc[self.waves] = self.scc
        if self._shadow is not None:
            self._shadow.flush()

    def refresh_exec(self) -> None:
        """Recompute `mask`; to be called after anything that writes EXEC."""
        active = self.scalar[:, EXEC]
        if (active == ALL_LANES).all():
            self.mask = True
        else:
            self.mask = unpack_lanes(active)

    def lanes(self, register: int) -> np.ndarray:
        """A scalar register as a lane mask: bool `[waves, 32]`."""
        return unpack_lanes(self.scalar[:, register])

    def active(self) -> np.ndarray:
        """The active lanes, as an array in any case: bool `[waves, 32]`."""
        return np.ones((self.count, LANES), bool) if self.mask is True else self.mask

    def put_lanes(self, register: int, condition: np.ndarray) -> None:
        """Write a lane mask to a scalar register; inactive lanes read as 0 (RDNA4 ISA, 'VOPC')."""
        if self.mask is not True:
            condition = condition & self.mask
        self.scalar[:, register] = pack_lanes(condition, self.count)


def unpack_lanes(bits: np.ndarray) -> np.ndarray:
    """uint32 `[waves]` to bool `[waves, 32]`, lane 0 being the lowest bit."""
    as_bytes = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 4)
    return np.unpackbits(as_bytes, axis=1, bitorder="little").view(bool)


def pack_lanes(condition: np.ndarray, count: int) -> np.ndarray:
    """bool `[waves, 32]`, or anything that broadcasts to it, to uint32 `[waves]`."""
    if condition.shape != (count, LANES):
        condition = np.broadcast_to(condition, (count, LANES))
    return np.packbits(condition, axis=1, bitorder="little").view(np.uint32)[:, 0]
