"""AMD: the HIP runtime (libamdhip64), through ctypes.  Source: ROCm's hip_runtime_api.h, versions 6 and 7.

No AMD card was available to this project: the driver is exercised by a stand-in library in the tests, which launches
through the emulator, and by review against the header and the runtime's published source.

What differs from CUDA, by that source:
- The current device is a setting of the thread.  Modules belong to the one that was current when they were loaded, and
  the default streams are the current one's, so it is set for each call and put back afterwards.
- A module goes on reading the image that it was loaded from, so the image lives as long as the module.
- A failed call leaves its error behind for the thread's next `hipGetLastError`, which frameworks call after launches of
  their own.  It is taken back when the error is raised here.
- No function tells a kernel's arguments: that they are what the row says was checked when the bundle was built.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from ..frameworks import torch_module
from .driver_errors import DriverError, NoDriverError
from .function import Wanted
from .mapped import mapped_library
from .native import Library
from .native_driver import Module, Names, NativeDriver

LIBRARY_NAMES: tuple[str, ...] = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so")
_int, _uint, _size, _void = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "hipInit": (_uint,),
    "hipDriverGetVersion": (_void,),
    "hipGetErrorName": (_int,),
    "hipGetErrorString": (_int,),
    "hipGetLastError": (),
    "hipGetDeviceCount": (_void,),
    "hipGetDevice": (_void,),
    "hipSetDevice": (_int,),
    "hipDeviceGetName": (ctypes.c_char_p, _int, _int),
    "hipDeviceGetPCIBusId": (ctypes.c_char_p, _int, _int),
    "hipDeviceGetAttribute": (_void, _int, _int),
    "hipGetDevicePropertiesR0600": (_void, _int),
    "hipDeviceSynchronize": (),
    "hipStreamSynchronize": (_void,),
    "hipModuleLoadData": (_void, _void),
    "hipModuleUnload": (_void,),
    "hipModuleGetFunction": (_void, _void, ctypes.c_char_p),
    "hipFuncGetAttribute": (_void, _int, _void),
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (_void, _void, _int, _size),
    "hipModuleLaunchKernel": (_void, _uint, _uint, _uint, _uint, _uint, _uint, _uint, _void, _void, _void),
    "hipMalloc": (_void, _size),
    "hipFree": (_void,),
    # Its value is a signed int, which takes the same bits.
    "hipMemsetD32": (_void, _uint, _size),
    "hipMemcpyDtoH": (_void, _void, _size),
    "hipPointerGetAttributes": (_void, _void),
}
_OPTIONAL = ("hipGetDevicePropertiesR0600",)
_TEXTS = ("hipGetErrorName", "hipGetErrorString")
# hipDeviceAttribute_t.
MULTIPROCESSORS, SHARED_PER_BLOCK = 63, 74
# hipDeviceProp_tR0600: bytes in all, offset and length of gcnArchName.
PROPERTIES_BYTES, ARCH_OFFSET, ARCH_BYTES = 1472, 1160, 256
# hipPointerAttribute_t: the kind of memory and the device, two integers; two pointers; whether it is managed.
_POINTER_BYTES, _MANAGED_OFFSET = 32, 24
# hipMemoryType, as ROCm 6 and later number it.
_DEVICE_MEMORY, _MANAGED_MEMORY = 2, 3
_INVALID_VALUE = 1
# What a workgroup of gfx942, gfx11 and gfx12 can have, whatever a driver says.  CDNA3, RDNA3 and RDNA4 ISA documents,
# on LDS allocation.
_LARGEST_LDS = 64 * 1024


class _Names(Names):
    start = "hipInit"
    count_devices = "hipGetDeviceCount"
    version = "hipDriverGetVersion"
    device_name = "hipDeviceGetName"
    bus = "hipDeviceGetPCIBusId"
    attribute = "hipDeviceGetAttribute"
    get_current = "hipGetDevice"
    get_function = "hipModuleGetFunction"
    function_attribute = "hipFuncGetAttribute"
    unload = "hipModuleUnload"
    occupancy = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
    launch = "hipModuleLaunchKernel"
    allocate = "hipMalloc"
    free = "hipFree"
    fill = "hipMemsetD32"
    copy_to_host = "hipMemcpyDtoH"
    wait_for_stream = "hipStreamSynchronize"
    wait = "hipDeviceSynchronize"


class HipDriver(NativeDriver):
    """One AMD device, by its ordinal."""

    _names = _Names
    _kind = 2
    _markers = (1, 2, 3)
    _current_type = _int

    def __init__(self, ordinal: int):
        # A ROCm build of torch brings its own copy, under a name without a version.
        loaded = mapped_library("libamdhip64.so")
        names = LIBRARY_NAMES if loaded is None else (loaded, *LIBRARY_NAMES)
        what = "the HIP runtime library (libamdhip64.so)"
        super().__init__("hip", ordinal, Library(names, _SIGNATURES, what, optional=_OPTIONAL, texts=_TEXTS))
        self._own = ordinal
        self.device = ("hip", self._arch())
        self.lds_limit = min(self._attribute(SHARED_PER_BLOCK), _LARGEST_LDS)
        self.processors = self._attribute(MULTIPROCESSORS)

    @property
    def _handle(self) -> int:
        return self._own

    def _arch(self) -> str:
        """The processor's name without its features: gfx1201 of 'gfx1201:sramecc+:xnack-'.  Raises NoDriverError."""
        found = ""
        if self._library.has("hipGetDevicePropertiesR0600"):
            # Later versions may append to it.
            properties = ctypes.create_string_buffer(4 * PROPERTIES_BYTES)
            doing = f"asking for the architecture of {self.name}"
            self._call("hipGetDevicePropertiesR0600", properties, self._own, doing=doing)
            name = properties.raw[ARCH_OFFSET : ARCH_OFFSET + ARCH_BYTES]
            found = name.partition(b"\0")[0].decode("ascii", errors="replace")
        torch = torch_module()
        if not found.startswith("gfx") and torch is not None:
            found = getattr(torch.cuda.get_device_properties(self._own), "gcnArchName", "")
        if not found.startswith("gfx"):
            raise NoDriverError(f"{self.name}: the HIP runtime library does not tell its architecture: {found!r}")
        return found.partition(":")[0]

    def _enter(self, doing: str) -> int | None:
        current = _int()
        self._call("hipGetDevice", ctypes.byref(current), doing=doing)
        if current.value == self._own:
            return None
        self._call("hipSetDevice", self._own, doing=doing)
        return current.value

    def _leave(self, entered: int | None, doing: str) -> None:
        if entered is not None:
            self._call("hipSetDevice", entered, doing=f"{doing}: back to device {entered}")

    def _load_module(self, code: bytes, doing: str) -> Module:
        module, image = _void(), ctypes.create_string_buffer(code, len(code))
        self._call("hipModuleLoadData", ctypes.byref(module), image, doing=doing)
        return Module(module.value or 0, image)

    def _make_ready(self, function: Any, wanted: Wanted, static: int, doing: str) -> None:
        """Nothing has to be asked for: every kernel may have all of its workgroup's LDS."""

    def _ordinal_of(self, address: int) -> int | None:
        # Later versions may append to it.
        told = ctypes.create_string_buffer(4 * _POINTER_BYTES)
        status = self._library.function("hipPointerGetAttributes")(told, address)
        if status:
            error = self._error("hipPointerGetAttributes", status, f"asking {self.name} where {address:#x} is")
            if status == _INVALID_VALUE:
                return None
            raise error
        kind, device = struct.unpack_from("<ii", told)
        (managed,) = struct.unpack_from("<i", told, _MANAGED_OFFSET)
        if managed or kind == _MANAGED_MEMORY:
            return self._own
        return device if kind == _DEVICE_MEMORY else None

    def _error(self, call: str, status: int, doing: str, log: str = "") -> DriverError:
        self._library.function("hipGetLastError")()
        return super()._error(call, status, doing, log)

    def _error_text(self, status: int) -> tuple[str, str]:
        name, said = (self._library.function(text)(status) or b"" for text in _TEXTS)
        return name.decode(errors="replace") or "unknown", said.decode(errors="replace")

    def _release(self) -> None:
        """Devices are not opened, so there is nothing to close."""

    def _spelled_version(self, version: int) -> str:
        return f"{version // 10_000_000}.{version // 100_000 % 100}.{version % 100_000}"
