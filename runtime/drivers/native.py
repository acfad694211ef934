"""What the two vendors' drivers have in common: a library called through ctypes, and handles that a fork breaks."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from .driver import ForkedError, NoDriverError

_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class Library:
    """A driver library whose functions return a status, 0 for success."""

    def __init__(self, names: tuple[str, ...], signatures: Mapping[str, tuple[Any, ...]], what: str):
        self._library = _open(names, what)
        self._signatures = signatures
        self._functions: dict[str, Callable[..., int]] = {}
        self.what = what

    def has(self, name: str) -> bool:
        """Whether the library offers the function."""
        return hasattr(self._library, name)

    def function(self, name: str) -> Callable[..., int]:
        """The C function, with its argument types set.  Raises NoDriverError where the library lacks it."""
        if name not in self._functions:
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise NoDriverError(f"{self.what} has no {name}: the driver is too old") from None
            function.restype, function.argtypes = ctypes.c_int, self._signatures[name]
            self._functions[name] = function
        return self._functions[name]


def _open(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    tried = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise NoDriverError(f"{what} cannot be opened: {'; '.join(tried)}")


class ArgumentBlock:
    """The packed arguments, and the `extra` array that tells a driver of them.

    buffer_pointer, buffer_size, end: the driver's own markers, as its header defines them.
    """

    __slots__ = ("_size", "data", "extra")

    def __init__(self, size: int, buffer_pointer: int, buffer_size: int, end: int):
        self.data = (ctypes.c_char * max(size, 1))()
        self._size = ctypes.c_size_t(size)
        self.extra = (ctypes.c_void_p * 5)(
            buffer_pointer, ctypes.addressof(self.data), buffer_size, ctypes.addressof(self._size), end
        )


class ForkGuard:
    """Says whether this process is the one that opened the driver."""

    __slots__ = ("_generation", "_name")

    def __init__(self, name: str):
        self._generation = _generation
        self._name = name

    def check(self) -> None:
        """Raises ForkedError in a process that was forked off since."""
        if self._generation != _generation:
            raise ForkedError(
                f"{self._name} was opened before this process was forked off, and driver handles do not survive that: "
                "load the bundle in the child, or start it with the spawn method"
            )

    @property
    def forked(self) -> bool:
        """Whether handles belong to another process."""
        return self._generation != _generation


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
