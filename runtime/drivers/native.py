"""What the two vendors' drivers have in common: a library called through ctypes, and handles that a fork breaks."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

_generation = 0
# Of an argument block: five pointers, which are the `extra` array, and a size.
_EXTRA = struct.Struct("@5PN")
_SIZE_AT, _ARGUMENTS_AT = struct.calcsize("@5P"), _EXTRA.size


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class Library:
    """A driver library whose functions return a status, 0 for success, or a text.

    names: what to open, the first that is there.  optional: functions that older ones lack; texts: functions that
    return one.  Raises NoDriverError where there is no such library, or one without the other functions.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        signatures: Mapping[str, tuple[Any, ...]],
        what: str,
        *,
        optional: Collection[str] = (),
        texts: Collection[str] = (),
    ):
        self._library = _open(names, what)
        self._signatures = signatures
        self._texts = texts
        self._functions: dict[str, Callable[..., Any]] = {}
        self._missing = {name for name in signatures if not hasattr(self._library, name)}
        if missing := [name for name in signatures if name in self._missing and name not in optional]:
            raise _no_driver(f"{what} has no {', '.join(missing)}: the driver is too old")

    def has(self, name: str) -> bool:
        """Whether the library offers the function."""
        return name not in self._missing

    def function(self, name: str) -> Callable[..., Any]:
        """The C function, with its argument types set: when it is first asked for, as that takes longer than a call."""
        found = self._functions.get(name)
        if found is None:
            found = getattr(self._library, name)
            found.argtypes = self._signatures[name]
            # An integer is what they return unless told otherwise.
            if name in self._texts:
                found.restype = ctypes.c_char_p
            self._functions[name] = found
        return found


def _open(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    tried = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise _no_driver(f"{what} cannot be opened: {'; '.join(tried)}")


def _no_driver(said: str) -> Exception:
    from .driver_errors import NoDriverError  # Here and below, and not above: a call that is served does without them.

    return NoDriverError(said)


class Buffer:
    """Memory that a library may write to.  An array of ctypes would need a type, and making that costs more."""

    __slots__ = ("_anchor", "address", "data")

    def __init__(self, size: int):
        self.data = bytearray(size)
        self._anchor = ctypes.c_char.from_buffer(self.data)
        self.address = ctypes.addressof(self._anchor)


class ArgumentBlock:
    """The packed arguments, and the `extra` array that tells a driver of them.

    buffer_pointer, buffer_size, end: the driver's own markers, as its header defines them.
    """

    __slots__ = ("_whole", "data", "extra")

    def __init__(self, size: int, buffer_pointer: int, buffer_size: int, end: int):
        # The array that `extra` is, the size, and the arguments behind them, in one buffer.
        self._whole = Buffer(_ARGUMENTS_AT + size)
        self.extra = self._whole.address
        self.data = memoryview(self._whole.data)[_ARGUMENTS_AT:]
        size_at, arguments_at = self.extra + _SIZE_AT, self.extra + _ARGUMENTS_AT
        _EXTRA.pack_into(self._whole.data, 0, buffer_pointer, arguments_at, buffer_size, size_at, end, size)


class HandleGuard:
    """Says whether a driver's handles are still good: in the process that opened it, until it is closed."""

    __slots__ = ("_generation", "_name", "closed")

    def __init__(self, name: str):
        self._generation: int | None = _generation
        self._name = name
        self.closed = False

    def check(self) -> None:
        """Raises ForkedError in a process that was forked off since, ClosedError behind `close`."""
        if self._generation != _generation:
            self._refuse()

    def _refuse(self) -> None:
        from .driver_errors import ClosedError, ForkedError

        if self.closed:
            raise ClosedError(
                f"{self._name}: the kernels were closed, and their code is unloaded: load the bundle again"
            )
        raise ForkedError(
            f"{self._name} was opened before this process was forked off, and driver handles do not survive that: "
            "load the bundle in the child, or start it with the spawn method"
        )

    def close(self) -> None:
        """Make every later `check` raise."""
        self.closed = True
        self._generation = None

    @property
    def usable(self) -> bool:
        """Whether `check` passes."""
        return self._generation == _generation


class FilledBuffers:
    """Constant 32-bit integers in device memory: one buffer a value, as long as was ever asked for."""

    def __init__(self, allocate: Callable[[int], int], fill: Callable[[int, int, int], None]):
        self._allocate = allocate
        self._fill = fill
        self._buffers: dict[int, tuple[int, int]] = {}
        # A shorter buffer may be named by work that is queued or captured, so it is never freed before the end.
        self.addresses: list[int] = []
        self._lock = threading.Lock()

    def get(self, value: int, count: int) -> int:
        """The address of at least `count` integers that hold `value`."""
        found = self._buffers.get(value)
        if found is not None and found[1] >= count:
            return found[0]
        with self._lock:
            found = self._buffers.get(value)
            if found is None or found[1] < count:
                capacity = max(256, 1 << (count - 1).bit_length())
                address = self._allocate(4 * capacity)
                self.addresses.append(address)
                self._fill(address, value, capacity)
                found = self._buffers[value] = (address, capacity)
            return found[0]
