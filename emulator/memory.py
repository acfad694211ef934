"""Global memory: named buffers in one 64-bit address space, and nothing between them.

A buffer is the caller's own numpy array, so what a kernel stores is seen there at once.  Gaps of GUARD_BYTES keep an
offset that runs off one buffer from landing in the next.  A buffer larger than physical memory is made with
`add_sparse`: the operating system gives it pages when they are touched.
"""

from __future__ import annotations

import bisect
import mmap
from dataclasses import dataclass, field

import numpy as np

GUARD_BYTES = 1 << 32  # any 32-bit offset from a buffer's end stays in the gap behind it
BASE_ADDRESS = 1 << 44
_MAP_NORESERVE = 0x4000  # Linux; elsewhere reserving is not counted either
_ELEMENTS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class AccessFault(Exception):
    """An address outside every buffer. `position` counts the addresses of the access in row-major order."""

    def __init__(self, position: int, detail: str):
        super().__init__(detail)
        self.position = position
        self.detail = detail


@dataclass(slots=True, eq=False)
class Buffer:
    """A named range of addresses. `base` is its first address; `data` its bytes."""

    name: str
    base: int
    data: np.ndarray
    writable: bool
    views: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def view(self, width: int) -> np.ndarray:
        """The bytes as elements of `width` bytes, as many as fit."""
        if width not in self.views:
            whole = len(self.data) // width * width
            self.views[width] = self.data[:whole].view(_ELEMENTS[width])
        return self.views[width]


class Memory:
    """Named buffers; one memory may serve several launches, which then see each other's results."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._bases: list[int] = []
        self._next = BASE_ADDRESS

    def add(self, name: str, array: np.ndarray, *, writable: bool = True, align: int = 256, phase: int = 0) -> int:
        """Puts an array into memory, in place, and returns its address, a multiple of `align` plus `phase`.

        The array must be C-contiguous and, for a writable buffer, writeable; its dtype does not matter. Raises
        ValueError otherwise, or for a name that is taken.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"buffer {name!r}: the array is not C-contiguous")
        if writable and not array.flags.writeable:
            raise ValueError(f"buffer {name!r}: the array is read-only; pass writable=False")
        if any(buffer.name == name for buffer in self._buffers):
            raise ValueError(f"buffer {name!r} is there already")
        data = array.reshape(-1).view(np.uint8)
        base = -(-self._next // align) * align + phase % align
        self._next = base + len(data) + GUARD_BYTES
        self._buffers.append(Buffer(name, base, data, writable))
        self._bases.append(base)
        return base

    def add_sparse(self, name: str, size: int, *, writable: bool = True, align: int = 256) -> tuple[int, np.ndarray]:
        """A zeroed buffer of `size` bytes whose pages exist once touched. Returns its address and its bytes (uint8)."""
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        data = np.frombuffer(mapping, np.uint8)
        return self.add(name, data, writable=writable, align=align), data

    def remove(self, name: str) -> None:
        """Takes a buffer out again; its addresses are not given to another. Raises KeyError for an unknown name."""
        for position, buffer in enumerate(self._buffers):
            if buffer.name == name:
                del self._buffers[position], self._bases[position]
                return
        raise KeyError(name)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers)

    def locate(self, address: int) -> tuple[Buffer | None, int]:
        """The buffer nearest at or below an address and the offset from its base; `None` below the first."""
        position = bisect.bisect_right(self._bases, address) - 1
        if position < 0:
            return None, address
        buffer = self._buffers[position]
        return buffer, address - buffer.base

    def load(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """Reads `width` bytes (1, 2, 4, 8 or 16) at each address (uint64): an array of the addresses' shape.

        16 bytes come back as complex128, which is only a carrier for the bits. Raises AccessFault.
        """
        result = None
        for buffer, chosen, offsets in self.split(addresses, width):
            values = read(buffer.data, buffer.view(width), offsets, width)
            if chosen is None:
                return values
            if result is None:
                result = np.zeros(addresses.shape, values.dtype)
            result[chosen] = values
        return np.zeros(addresses.shape, _ELEMENTS[width]) if result is None else result

    def store(self, addresses: np.ndarray, values: np.ndarray, width: int) -> None:
        """Writes one element of `width` bytes at each address; of equal addresses the last wins. Raises AccessFault."""
        for buffer, chosen, offsets in self.split(addresses, width, writing=True):
            write(buffer.data, buffer.view(width), offsets, values if chosen is None else values[chosen], width)

    def split(self, addresses: np.ndarray, width: int, *, writing: bool = False):
        """Yields (buffer, which addresses, their offsets as int64); `None` for 'which' means all of them.

        All addresses are checked before the first is yielded. Raises AccessFault.
        """
        if addresses.size == 0:
            return []
        low, high = int(addresses.min()), int(addresses.max())
        buffer, offset = self.locate(low)
        if buffer is not None and offset >= 0 and high + width <= buffer.end and (buffer.writable or not writing):
            return [(buffer, None, (addresses - np.uint64(buffer.base)).view(np.int64))]
        return self._split_slowly(addresses, width, writing)

    def _split_slowly(self, addresses: np.ndarray, width: int, writing: bool):
        flat = addresses.reshape(-1)
        owners = np.searchsorted(np.array(self._bases, np.uint64), flat, side="right") - 1
        ends = np.array([buffer.end for buffer in self._buffers], np.uint64)
        good = (owners >= 0) & (flat + np.uint64(width) <= ends[owners]) & (flat < ends[owners])
        if writing:
            good &= np.array([buffer.writable for buffer in self._buffers])[owners]
        if not good.all():
            position = int(np.argmin(good))
            raise AccessFault(position, self.describe(int(flat[position]), width, writing))
        parts = []
        for owner in np.unique(owners):
            chosen = (owners == owner).reshape(addresses.shape)
            buffer = self._buffers[owner]
            parts.append((buffer, chosen, (addresses[chosen] - np.uint64(buffer.base)).view(np.int64)))
        return parts

    def describe(self, address: int, width: int, writing: bool) -> str:
        """What is wrong with an access: the buffer it belongs to, by how much it misses it."""
        verb = "write" if writing else "read"
        buffer, offset = self.locate(address)
        following = bisect.bisect_right(self._bases, address)
        if buffer is not None and offset + width <= buffer.size:
            return f"{verb} of {width} bytes at offset {offset} of buffer {buffer.name!r}, which is read-only"
        if buffer is not None and offset < buffer.size + GUARD_BYTES // 2:
            return (
                f"{verb} of {width} bytes at offset {offset} of buffer {buffer.name!r}, which has {buffer.size} bytes"
            )
        if following < len(self._buffers):
            after = self._buffers[following]
            if after.base - address < GUARD_BYTES:
                return f"{verb} of {width} bytes {after.base - address} bytes before buffer {after.name!r}"
        return f"{verb} of {width} bytes at {address:#x}, in no buffer"


def read(data: np.ndarray, elements: np.ndarray, offsets: np.ndarray, width: int) -> np.ndarray:
    """Elements at byte offsets of a flat byte array; `elements` is its view by `width`. Offsets need not be aligned."""
    if width == 1:
        return data.take(offsets)
    if not (offsets & (width - 1)).any():
        return elements.take(offsets >> (width.bit_length() - 1))
    scattered = data[offsets[..., None] + np.arange(width)]
    return np.ascontiguousarray(scattered).view(_ELEMENTS[width])[..., 0]


def write(data: np.ndarray, elements: np.ndarray, offsets: np.ndarray, values: np.ndarray, width: int) -> None:
    """The inverse of `read`."""
    if width == 1:
        data[offsets] = values
    elif not (offsets & (width - 1)).any():
        elements[offsets >> (width.bit_length() - 1)] = values
    else:
        parts = np.ascontiguousarray(np.broadcast_to(values, offsets.shape))[..., None].view(np.uint8)
        data[offsets[..., None] + np.arange(width)] = parts
