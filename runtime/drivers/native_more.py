"""What a vendor's driver does besides loading and launching, for `NativeDriver`."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from .driver_errors import DriverError
from .native_driver import Current, Module

if TYPE_CHECKING:
    from .function import Function
    from .native_driver import NativeDriver as _Base
else:
    _Base = object

_int, _void = ctypes.c_int, ctypes.c_void_p


class NativeMore(_Base):
    """Part of `NativeDriver`."""

    def unload(self, function: Function) -> None:
        if not self._guard.usable:
            return
        with contextlib.suppress(DriverError), Current(self, "unloading"):
            self._drop(function.module, f"unloading {function.label}")

    def _drop(self, module: Module, doing: str) -> None:
        # Nobody can do anything about an error here; what it leaves behind in the driver is cleared all the same.
        with contextlib.suppress(DriverError):
            self._call(self._names.unload, module.handle, doing=doing)

    def resident_groups(self, function: Function) -> int:
        count = _int()
        doing = f"asking for the occupancy of {function.label} on {self.name}"
        arguments = (function.handle, function.threads, function.lds_bytes)
        with Current(self, doing):
            self._call(self._names.occupancy, ctypes.byref(count), *arguments, doing=doing)
        return count.value

    def read(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(max(size, 1))
        doing = f"reading {size} bytes at {address:#x} of {self.name}"
        with Current(self, doing):
            self._call(self._names.wait, doing=doing)
            self._call(self._names.copy_to_host, data, address, size, doing=doing)
        return data.raw[:size]

    def device_of(self, address: int) -> tuple[str, int]:
        with Current(self, f"asking {self.name} where {address:#x} is"):
            ordinal = self._ordinal_of(address)
        return ("cpu", 0) if ordinal is None else (self.tensor_device[0], ordinal)

    def _ordinal_of(self, address: int) -> int | None:
        """The device that the memory is on, this one for managed memory; None for the host's, registered or not."""

    def synchronize(self) -> None:
        doing = f"waiting for {self.name}"
        with Current(self, doing):
            self._call(self._names.wait, doing=doing)

    def describe(self) -> dict[str, Any]:
        version, name, bus = _int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
        doing = f"describing {self.name}"
        self._guard.check()
        self._call(self._names.version, ctypes.byref(version), doing=doing)
        self._call(self._names.device_name, name, len(name), self._handle, doing=doing)
        self._call(self._names.bus, bus, len(bus), self._handle, doing=doing)
        return {
            "name": name.value.decode(errors="replace"),
            "pci_address": bus.value.decode(errors="replace"),
            "driver_version": self._spelled_version(version.value),
            "processors": self.processors,
            "lds_limit": self.lds_limit,
        }

    def close(self) -> None:
        if not self._guard.usable:
            return
        with contextlib.suppress(DriverError), Current(self, "closing"):
            for address in self._filled.addresses:
                self._library.function(self._names.free)(address)
        self._guard.close()
        self._release()

    def _release(self) -> None:
        """Give up the device."""
