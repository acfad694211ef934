"""Memory that belongs to workgroups or lanes: LDS and scratch. Bytes, and for each byte which bits nobody wrote."""

from __future__ import annotations

import numpy as np

from .errors import MisalignedError, OutOfBoundsError, UndefinedValueError
from .instruction import Instruction
from .memory import read, write
from .semantics.transfer import Transfer, get_stored, put_loaded
from .state import LANES, Group

_ELEMENTS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
# A 12-byte access needs 16-byte alignment (RDNA4 ISA, 'LDS alignment').
_ALIGNMENT = {1: 1, 2: 2, 4: 4, 8: 8, 12: 16, 16: 16}


class ByteStore:
    """A flat array of bytes with views by element width, and its shadow if `track`."""

    def __init__(self, size: int, *, track: bool):
        padded = -(-max(size, 1) // 16) * 16
        self.data = np.zeros(padded, np.uint8)
        self._views = {width: self.data.view(dtype) for width, dtype in _ELEMENTS.items()}
        self.undefined = np.full(padded, 0xFF, np.uint8) if track else None
        self._shadow_views = (
            {width: self.undefined.view(dtype) for width, dtype in _ELEMENTS.items()} if track else self._views
        )

    def view(self, width: int) -> np.ndarray:
        return self._views[width]

    def load(self, at: np.ndarray, width: int) -> np.ndarray:
        return read(self.data, self._views[width], at, width)

    def store(self, at: np.ndarray, values: np.ndarray, width: int) -> None:
        write(self.data, self._views[width], at, values, width)

    def load_shadow(self, g: Group, transfer: Transfer, register: int, at: np.ndarray, where) -> None:
        """Marks the registers just loaded undefined where the bytes are."""
        if self.undefined is None:
            return
        pieces = [
            read(self.undefined, self._shadow_views[width], at + skip if skip else at, width)
            for skip, width in transfer.pieces
        ]
        if any(_bits(piece).any() for piece in pieces):
            put_loaded(g.shadow, transfer, register, pieces, where)
            g.mark_undefined(((1 << transfer.registers) - 1) << register)

    def store_shadow(self, g: Group, transfer: Transfer, register: int, at: np.ndarray, where) -> None:
        """Bytes just stored are as defined as the registers they came from."""
        if self.undefined is None:
            return
        mask = ((1 << transfer.registers) - 1) << register
        if g.undefined & mask:
            pieces = get_stored(g.shadow, transfer, register, where)
        else:
            pieces = [_ELEMENTS[width](0) for _, width in transfer.pieces]
        for (skip, width), values in zip(transfer.pieces, pieces, strict=True):
            write(self.undefined, self._shadow_views[width], at + skip if skip else at, values, width)

    def check_defined(self, at: np.ndarray, width: int) -> None:
        """Raises UndefinedValueError if an atomic would work on bytes that nobody wrote."""
        if self.undefined is not None and read(self.undefined, self._shadow_views[width], at, width).any():
            raise UndefinedValueError("an atomic on LDS bytes that nobody wrote")


def _bits(piece: np.ndarray) -> np.ndarray:
    """As integers: in the carrier of 16 bytes a sign bit alone would be a negative zero, and count as nothing."""
    return np.ascontiguousarray(piece).view(np.uint64) if piece.dtype == np.complex128 else piece


class LocalMemory(ByteStore):
    """LDS of all workgroups, one after the other. `size` bytes each, as the launch says."""

    def __init__(self, workgroups: int, size: int, *, track: bool, aligned: bool):
        self.size = size
        self.stride = -(-max(size, 1) // 16) * 16
        super().__init__(workgroups * self.stride, track=track)
        self._aligned = aligned
        self.observer = None

    def offsets(self, g: Group, start: np.ndarray, offset: int, width: int, where) -> np.ndarray:
        """Positions in the store for LDS addresses `start + offset` (int64). Checks range and alignment."""
        at = start.astype(np.int64)
        if offset:
            at += offset
        if int(at.max()) + width > self.size:
            position = int(np.argmax(at))
            wave, lane = g.lane_at(position, where)
            raise OutOfBoundsError(
                f"LDS access of {width} bytes at offset {int(at.reshape(-1)[position])}, of {self.size} bytes "
                f"launched with (wave {wave}, lane {lane})"
            )
        if self._aligned and width > 1 and (at & (_ALIGNMENT[width] - 1)).any():
            position = int(np.argmax(at.reshape(-1) & (_ALIGNMENT[width] - 1) != 0))
            wave, lane = g.lane_at(position, where)
            raise MisalignedError(
                f"LDS access of {width} bytes at offset {int(at.reshape(-1)[position])}, which is no multiple of "
                f"{_ALIGNMENT[width]} (wave {wave}, lane {lane})"
            )
        base = g.lds_base
        at += base if where is True else np.broadcast_to(base, (g.count, LANES))[where]
        return at

    def observe(self, g: Group, instruction: Instruction, at: np.ndarray, width: int, where, kind: str) -> None:
        """Hands an access to whoever counts or compares accesses."""
        if self.observer is not None:
            self.observer(g, instruction, at, width, where, kind)


class ScratchMemory(ByteStore):
    """Scratch of all lanes, `size` bytes each."""

    def __init__(self, waves: int, size: int, *, track: bool):
        self.size = size
        self._stride = -(-size // 16) * 16
        super().__init__(waves * LANES * self._stride, track=track)

    def offsets(self, g: Group, at: np.ndarray, width: int, where) -> np.ndarray:
        """Positions in the store for addresses within each lane's scratch (int64 `[waves, 32]`). Checks range."""
        base = (g.wave_numbers[:, None] * LANES + np.arange(LANES)) * self._stride
        if where is not True:
            at, base = at[where], base[where]
        bad = (at < 0) | (at + width > self.size)
        if bad.any():
            position = int(np.argmax(bad))
            wave, lane = g.lane_at(position, where)
            raise OutOfBoundsError(
                f"scratch access of {width} bytes at offset {int(at.reshape(-1)[position])}, of {self.size} bytes a "
                f"lane (wave {wave}, lane {lane})"
            )
        return at + base
