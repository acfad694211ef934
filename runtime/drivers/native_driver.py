"""What the two vendors' drivers do alike.

They differ in the names of their functions, in how a device becomes the current one, and in what else is checked.
Both APIs take the same arguments in the same order wherever `Names` has a field.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from ..later import Later
from .function import Function, image_arch
from .native import ArgumentBlock, FilledBuffers, HandleGuard, Library

if TYPE_CHECKING:
    from .driver import Driver, LaunchGrid, Pointer
    from .driver_errors import DriverError
    from .function import Wanted
    from .native_launch import NativeLaunch
else:
    Driver = object

_int, _size, _void = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
# CUfunction_attribute and hipFunction_attribute, CUresult and hipError_t: the same numbers.
FUNCTION_MAX_THREADS, FUNCTION_SHARED = 0, 1
NO_DEVICE = 100


class Names:
    """A vendor's names of the functions that both have, given by a subclass."""

    start: str
    count_devices: str
    version: str
    device_name: str
    bus: str
    attribute: str
    get_current: str
    get_function: str
    function_attribute: str
    unload: str
    occupancy: str
    launch: str
    allocate: str
    free: str
    fill: str
    copy_to_host: str
    wait_for_stream: str
    wait: str


class Module:
    """A loaded module, and the bytes it was loaded from where the driver goes on reading those."""

    __slots__ = ("handle", "image")

    def __init__(self, handle: int, image: Any = None):
        self.handle = handle
        self.image = image


class NativeDriver(Driver):
    """A device of one vendor, by its ordinal."""

    grid_limit: LaunchGrid = (2**31 - 1, 65535, 65535)
    watches_memory = False
    unload = Later("drivers.native_more", "NativeMore")
    resident_groups = Later("drivers.native_more", "NativeMore")
    read = Later("drivers.native_more", "NativeMore")
    device_of = Later("drivers.native_more", "NativeMore")
    synchronize = Later("drivers.native_more", "NativeMore")
    describe = Later("drivers.native_more", "NativeMore")
    close = Later("drivers.native_more", "NativeMore")
    _drop = Later("drivers.native_more", "NativeMore")
    _names: type[Names]
    _kind: int
    """As NativeLaunch has it."""
    _markers: tuple[int, int, int]
    """Of the argument block: buffer pointer, buffer size, end."""
    _current_type: Any
    """What `get_current` gives."""
    _own: Any
    """What `get_current` gives where this device is the current one."""

    def __init__(self, kind: str, ordinal: int, library: Library):
        self.name = f"{kind}:{ordinal}"
        self.tensor_device = (kind, ordinal)
        self._library = library
        self._guard = HandleGuard(self.name)
        self._filled = FilledBuffers(self._allocate, self._fill)
        # Looked up once: these two are the launch path.
        self._launch = library.function(self._names.launch)
        self._get_current = library.function(self._names.get_current)
        self._find(kind, ordinal)

    def _find(self, kind: str, ordinal: int) -> None:
        """Start the driver and see that it has the device.  Raises NoDriverError."""
        count = _int()
        try:
            self._call(self._names.start, 0, doing=f"starting the driver of {self.name}")
            self._call(self._names.count_devices, ctypes.byref(count), doing=f"counting {kind} devices")
        except Exception as error:
            from .driver_errors import DriverError, NoDriverError

            if not isinstance(error, DriverError) or error.code != NO_DEVICE:
                raise
            raise NoDriverError(str(error)) from error
        if not 0 <= ordinal < count.value:
            from .driver_errors import NoDriverError

            raise NoDriverError(f"{self.name}: the driver sees {count.value} devices, counted from 0")

    def _enter(self, doing: str) -> Any:
        """Make this device the current one of the thread; returns what `_leave` needs."""

    def _leave(self, entered: Any, doing: str) -> None:
        """Make that device the current one that was so before."""

    def _load_module(self, code: bytes, doing: str) -> Module:
        """The code, loaded on the current device."""

    def _make_ready(self, function: Any, wanted: Wanted, static: int, doing: str) -> None:
        """What else has to be checked and set.  static: the kernel's static shared memory in bytes."""

    def _error_text(self, status: int) -> tuple[str, str]:
        """Name and description of a status."""

    @property
    def _handle(self) -> int:
        """The device as the driver's functions take it."""

    def _spelled_version(self, version: int) -> str:
        """The driver's version number as people write it."""

    def check_usable(self) -> None:
        self._guard.check()

    def load(self, code: bytes, wanted: Wanted) -> Function:
        self._guard.check()
        doing = f"loading {wanted.label} on {self.name}"
        self._check_image(code, wanted)
        with Current(self, doing):
            module = self._load_module(code, doing)
            try:
                function = _void()
                symbol = wanted.symbol.encode()
                self._call(self._names.get_function, ctypes.byref(function), module.handle, symbol, doing=doing)
                self._make_ready(function, wanted, self._check(function, wanted, doing), doing)
            except BaseException:
                self._drop(module, doing)
                raise
        return Function(function.value, module, wanted)

    def _check_image(self, code: bytes, wanted: Wanted) -> None:
        """The architecture that the code itself names: a driver may load a neighbour's, which may compute wrongly."""
        found = image_arch(code)
        if found is not None and found != self.device:
            from .driver_errors import MismatchError

            given = f"its code is for ({found[0]}, {found[1]})"
            raise MismatchError(f"{wanted.label}: {given}, {self.name} is ({self.device[0]}, {self.device[1]})")

    def _check(self, function: Any, wanted: Wanted, doing: str) -> int:
        """The loaded kernel against its row; returns its static shared memory.  Raises MismatchError."""
        threads, static = _int(), _int()
        ask = self._names.function_attribute
        self._call(ask, ctypes.byref(threads), FUNCTION_MAX_THREADS, function, doing=doing)
        self._call(ask, ctypes.byref(static), FUNCTION_SHARED, function, doing=doing)
        faults = []
        if wanted.threads > threads.value:
            faults.append(f"{wanted.threads} threads a workgroup, the kernel takes {threads.value}")
        total = static.value + wanted.lds_bytes
        if total > self.lds_limit:
            parts = f"{static.value} static, {wanted.lds_bytes} at launch"
            faults.append(f"{total} bytes of shared memory ({parts}), {self.name} allows {self.lds_limit}")
        if faults:
            from .driver_errors import MismatchError

            raise MismatchError("\n".join(f"{wanted.label}: {fault}" for fault in faults))
        return static.value

    def launch(
        self, function: Function, grid: LaunchGrid, block: Any, stream: int, pointers: tuple[Pointer, ...] = ()
    ) -> None:
        self._guard.check()
        current = self._current_type()
        if not self._get_current(ctypes.byref(current)) and current.value == self._own:
            status = self._start(function, grid, block, stream)
        else:
            with Current(self, f"launching {function.label} on {self.name}"):
                status = self._start(function, grid, block, stream)
        if status:
            raise self._error(self._names.launch, status, f"launching {function.label} on {self.name}")

    def _start(self, function: Function, grid: LaunchGrid, block: ArgumentBlock, stream: int) -> int:
        """The driver's own status of the launch, on the current device."""
        return self._launch(
            function.handle, *grid, function.threads, 1, 1, function.lds_bytes, stream, None, block.extra
        )

    def native_launch(self, function: Function) -> NativeLaunch:
        from .native_launch import NativeLaunch  # Here and not above: a first call does without it.

        kind, name = self._kind_of(function)
        functions = self._library.function(name), self._library.function(self._names.get_current)
        launch, get_current = (ctypes.cast(item, _void).value or 0 for item in functions)
        return NativeLaunch(kind, launch, get_current, self._own, function.handle)

    def argument_block(self, size: int) -> ArgumentBlock:
        return ArgumentBlock(size, *self._markers)

    def filled_i32(self, value: int, count: int) -> int:
        self._guard.check()
        return self._filled.get(value, count)

    def _allocate(self, size: int) -> int:
        address = _void()
        doing = f"allocating {size} bytes on {self.name} (not possible while a graph is captured: call preload before)"
        with Current(self, doing):
            self._call(self._names.allocate, ctypes.byref(address), size, doing=doing)
        return address.value or 0

    def _fill(self, address: int, value: int, count: int) -> None:
        doing = f"filling memory of {self.name}"
        # The bits of a signed value, as the unsigned number that one vendor's function takes.
        (bits,) = struct.unpack("<I", struct.pack("<i", value))
        with Current(self, doing):
            self._call(self._names.fill, address, bits, count, doing=doing)
            # It was queued on the default stream, which the stream of the first reader need not wait for.
            self._call(self._names.wait_for_stream, None, doing=doing)

    def _attribute(self, number: int) -> int:
        value = _int()
        doing = f"asking {self.name} for attribute {number}"
        self._call(self._names.attribute, ctypes.byref(value), number, self._handle, doing=doing)
        return value.value

    def _call(self, name: str, *arguments: Any, doing: str) -> None:
        if status := self._library.function(name)(*arguments):
            raise self._error(name, status, doing)

    def _kind_of(self, function: Function) -> tuple[int, str]:
        """`NativeLaunch.kind` of the kernel, and the name of the function that launches it."""
        return self._kind, self._names.launch

    def _error(self, call: str, status: int, doing: str, log: str = "") -> DriverError:
        from .driver_errors import DriverError

        name, said = self._error_text(status)
        return DriverError(call, status, name, f"{said}; {log}" if log else said, doing)


class Current:
    """Makes a driver's device the thread's current one, and the one that was so before it afterwards.

    Raises ForkedError, ClosedError or DriverError; where the body has raised already, its error stands.
    """

    __slots__ = ("_doing", "_driver", "_entered")

    def __init__(self, driver: NativeDriver, doing: str):
        self._driver = driver
        self._doing = doing

    def __enter__(self) -> None:
        self._driver._guard.check()
        self._entered = self._driver._enter(self._doing)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._driver._leave(self._entered, self._doing)
        except Exception as error:
            from .driver_errors import DriverError

            if kind is None or not isinstance(error, DriverError):
                raise
