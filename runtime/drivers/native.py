"""What the two vendors' drivers have in common: a library called through ctypes, and handles that a fork breaks."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .driver import ClosedError, ForkedError, NoDriverError

_generation = 0


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
        library = _open(names, what)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, arguments in signatures.items():
            if hasattr(library, name):
                function = self._functions[name] = getattr(library, name)
                function.restype = ctypes.c_char_p if name in texts else ctypes.c_int
                function.argtypes = arguments
        if missing := [name for name in signatures if name not in self._functions and name not in optional]:
            raise NoDriverError(f"{what} has no {', '.join(missing)}: the driver is too old")

    def has(self, name: str) -> bool:
        """Whether the library offers the function."""
        return name in self._functions

    def function(self, name: str) -> Callable[..., Any]:
        """The C function, with its argument types set."""
        return self._functions[name]


def _open(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    tried = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise NoDriverError(f"{what} cannot be opened: {'; '.join(tried)}")


def mapped_library(prefix: str) -> str | None:
    """Path of a shared library that this process has mapped already and whose file name starts like this.

    Some frameworks bring a driver library of their own under another name.  A second copy of it in the process would
    know none of the framework's streams.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if f"/{prefix}" in line)
    return next((path for path in paths if os.path.basename(path).startswith(prefix)), None)


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
