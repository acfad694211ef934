"""Between registers and memory: how many bytes an opcode moves, and which part of which register they are.

The same description serves values and their shadows, the bits that nobody wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..registry import Refused
from ..state import LANES, Group

U32 = np.uint32


@dataclass(frozen=True, slots=True)
class Transfer:
    """`width` bytes a lane. Below 4 they fill `half` of a register, or all of it, sign-extended if `signed`."""

    width: int
    signed: bool = False
    half: int | None = None

    @property
    def registers(self) -> int:
        return max(1, self.width // 4)

    @property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """(offset, bytes) of what numpy can move at once; both are powers of two."""
        return ((0, 8), (8, 4)) if self.width == 12 else ((0, self.width),)


def parse_transfer(suffix: str) -> Transfer:
    """From an opcode's ending: `u8`, `d16_hi_b16`, `u16_d16_hi`, `b128`. Raises Refused for another."""
    parts = suffix.split("_")
    half = (1 if "hi" in parts else 0) if "d16" in parts else None
    sizes = [part for part in parts if part[1:].isdigit() and part != "d16"]
    if len(sizes) != 1 or sizes[0][0] not in "uib":
        raise Refused(f"a transfer of form {suffix}")
    return Transfer(int(sizes[0][1:]) // 8, sizes[0][0] == "i", half)


def put_loaded(g: Group, transfer: Transfer, register: int, pieces: list[np.ndarray], where) -> None:
    """Writes what was loaded: arrays `[waves, 32]`, or one number an active lane where `where` is a mask."""
    if transfer.width < 4:
        (values,) = pieces
        _put_narrow(g, transfer, register, values, where)
        return
    for values in pieces:
        if values.dtype == U32:
            _put_word(g, register, values, where)
            register += 1
        else:
            words = values.view(U32).reshape(*values.shape, values.dtype.itemsize // 4)
            for offset in range(words.shape[-1]):
                _put_word(g, register + offset, words[..., offset], where)
            register += words.shape[-1]


def _put_word(g: Group, register: int, values: np.ndarray, where) -> None:
    if where is True:
        g.u[register][...] = values
    else:
        g.u[register][where] = values


def _put_narrow(g: Group, transfer: Transfer, register: int, values: np.ndarray, where) -> None:
    if transfer.signed:
        values = values.view(np.int8 if transfer.width == 1 else np.int16)
    if transfer.half is None:
        row, values = g.u[register], values.astype(np.int32).view(U32) if transfer.signed else values
    else:
        row = g.w[2 * register + transfer.half]
        values = values.astype(np.int16).view(np.uint16) if transfer.signed else values
    if where is True:
        row[...] = values
    else:
        row[where] = values


def get_stored(g: Group, transfer: Transfer, register: int, where) -> list[np.ndarray]:
    """What a store writes, one array a piece, shaped like `put_loaded`'s."""
    if transfer.width < 4:
        values = g.w[2 * register + (transfer.half or 0)]
        if transfer.width == 1:
            values = values.astype(np.uint8)
        return [values if where is True else values[where]]
    if transfer.width == 4:
        values = g.u[register]
        return [values if where is True else values[where]]
    result = []
    for offset, width in transfer.pieces:
        count = width // 4
        words = np.empty((g.count, LANES, count), U32)
        for word in range(count):
            words[..., word] = g.u[register + offset // 4 + word]
        values = words.view({4: U32, 8: np.uint64, 16: np.complex128}[width])[..., 0]
        result.append(values if where is True else values[where])
    return result
