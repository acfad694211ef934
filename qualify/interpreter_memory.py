"""The buffers that an interpreted kernel may touch.

Triton's interpreter follows any address.  Here an access outside every buffer is an error before it happens, so that a
wrong kernel neither passes on what lies beside its tensors nor harms the process that judges the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class OutOfBounds(Exception):
    """An access outside every buffer; the text says how far from which."""


class BoundedMemory:
    """Named arrays, at the addresses where they are."""

    def __init__(self, buffers: Mapping[str, NDArray[Any]]):
        placed = sorted((array.ctypes.data, array.nbytes, name) for name, array in buffers.items())
        self._names = [name for _, _, name in placed]
        self._starts = np.array([start for start, _, _ in placed], np.int64)
        self._sizes = np.array([size for _, size, _ in placed], np.int64)

    def check(self, access: str, addresses: NDArray[np.uint64], mask: NDArray[np.bool_], width: int) -> None:
        """Raises OutOfBounds unless all `width` bytes at each address that `mask` selects are in one buffer."""
        used = addresses[np.broadcast_to(mask.astype(bool), addresses.shape)].astype(np.int64)
        buffer = np.searchsorted(self._starts, used, side="right") - 1
        offsets = used - self._starts[buffer]
        wrong = (buffer < 0) | (offsets + width > self._sizes[buffer])
        if wrong.any():
            raise OutOfBounds(self._said(access, int(used[np.argmax(wrong)]), int(wrong.sum()), width))

    def _said(self, access: str, address: int, count: int, width: int) -> str:
        before, behind = self._starts - address, address - (self._starts + self._sizes)
        nearest = int(np.argmin(np.maximum(before, behind)))
        name, size = self._names[nearest], self._sizes[nearest]
        at = f"{before[nearest]} bytes before" if before[nearest] > 0 else f"byte {address - self._starts[nearest]} of"
        more = f"; {count - 1} more with it" if count > 1 else ""
        return f"{access} of {width} bytes outside every buffer: {at} {name}, which has {size} bytes{more}"
