"""NVIDIA: the driver API (libcuda), through ctypes.  Source: CUDA Driver API reference.

Contexts are the devices' primary ones, which is what frameworks use; a call from a thread whose current context is
another one makes ours current for the call and puts the other one back.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from .driver import Driver, DriverError, Function, LaunchGrid, MismatchError, NoDriverError, Pointer, Wanted
from .native import ArgumentBlock, FilledBuffers, ForkGuard, Library

_int, _uint, _size, _void = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_out = ctypes.POINTER
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuDriverGetVersion": (_out(_int),),
    "cuGetErrorName": (_int, _out(ctypes.c_char_p)),
    "cuGetErrorString": (_int, _out(ctypes.c_char_p)),
    "cuDeviceGetCount": (_out(_int),),
    "cuDeviceGet": (_out(_int), _int),
    "cuDeviceGetName": (ctypes.c_char_p, _int, _int),
    "cuDeviceGetPCIBusId": (ctypes.c_char_p, _int, _int),
    "cuDeviceGetAttribute": (_out(_int), _int, _int),
    "cuDevicePrimaryCtxRetain": (_out(_void), _int),
    "cuDevicePrimaryCtxRelease_v2": (_int,),
    "cuCtxGetCurrent": (_out(_void),),
    "cuCtxPushCurrent_v2": (_void,),
    "cuCtxPopCurrent_v2": (_out(_void),),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_out(_void), _void, _uint, _out(_int), _out(_void)),
    "cuModuleUnload": (_void,),
    "cuModuleGetFunction": (_out(_void), _void, ctypes.c_char_p),
    "cuFuncGetAttribute": (_out(_int), _int, _void),
    # From CUDA 12.4 on.
    "cuFuncGetParamInfo": (_void, _size, _out(_size), _out(_size)),
    "cuFuncSetAttribute": (_void, _int, _int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_out(_int), _void, _int, _size),
    "cuLaunchKernel": (_void, _uint, _uint, _uint, _uint, _uint, _uint, _uint, _void, _void, _void),
    "cuMemAlloc_v2": (_out(ctypes.c_uint64), _size),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemsetD32_v2": (ctypes.c_uint64, _uint, _size),
    "cuMemcpyDtoH_v2": (_void, ctypes.c_uint64, _size),
}
# CUdevice_attribute, CUfunction_attribute and CUjit_option numbers of cuda.h.
_MULTIPROCESSORS, _MAJOR, _MINOR, _OPTIN_SHARED = 16, 75, 76, 97
_FUNCTION_MAX_THREADS, _FUNCTION_SHARED, _FUNCTION_MAX_DYNAMIC = 0, 1, 8
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
# Above this a kernel must be allowed its shared memory, static and dynamic together.
_DEFAULT_SHARED = 48 * 1024


class CudaDriver(Driver):
    """One NVIDIA device, by its ordinal."""

    grid_limit: LaunchGrid = (2**31 - 1, 65535, 65535)

    def __init__(self, ordinal: int):
        self._library = Library(("libcuda.so.1",), _SIGNATURES, "the CUDA driver library (libcuda.so.1)")
        self._guard = ForkGuard(f"cuda:{ordinal}")
        self._lock = threading.Lock()
        self._closed = False
        self.name = f"cuda:{ordinal}"
        self.tensor_device = ("cuda", ordinal)
        self._call("cuInit", 0, doing="starting the CUDA driver")
        self._ordinal = self._device(ordinal)
        self.device = ("cuda", f"sm_{self._attribute(_MAJOR)}{self._attribute(_MINOR)}")
        self.lds_limit = self._attribute(_OPTIN_SHARED)
        self.processors = self._attribute(_MULTIPROCESSORS)
        context = _void()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._ordinal, doing=f"opening {self.name}")
        self._context = context.value
        self._filled = FilledBuffers(self._allocate, self._fill)
        # Looked up once: these two are the launch path.
        self._launch = self._library.function("cuLaunchKernel")
        self._get_current = self._library.function("cuCtxGetCurrent")

    def _device(self, ordinal: int) -> int:
        count, device = _int(), _int()
        self._call("cuDeviceGetCount", ctypes.byref(count), doing="counting CUDA devices")
        if not 0 <= ordinal < count.value:
            raise NoDriverError(f"cuda:{ordinal}: the driver sees {count.value} devices, counted from 0")
        self._call("cuDeviceGet", ctypes.byref(device), ordinal, doing=f"opening {self.name}")
        return device.value

    def load(self, code: bytes, wanted: Wanted) -> Function:
        self._guard.check()
        doing = f"loading {wanted.label} on {self.name}"
        with _Current(self, doing):
            module, function = _void(), _void()
            self._load_module(module, code, doing)
            try:
                symbol = wanted.symbol.encode()
                self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol, doing=f"{doing}: {symbol!r}")
                self._check(function, wanted)
                self._allow_shared(function, wanted.lds_bytes, doing)
            except BaseException:
                self._library.function("cuModuleUnload")(module)
                raise
        return Function(function.value, module.value, wanted.label, wanted.lds_bytes, wanted.threads)

    def _check(self, function: Any, wanted: Wanted) -> None:
        """The loaded kernel against its row.  Raises MismatchError."""
        threads = _int()
        doing = f"reading attributes of {wanted.label}"
        self._call("cuFuncGetAttribute", ctypes.byref(threads), _FUNCTION_MAX_THREADS, function, doing=doing)
        if wanted.threads > threads.value:
            raise MismatchError(
                f"{wanted.label}: {wanted.threads} threads a workgroup, the kernel takes {threads.value}"
            )
        if not self._library.has("cuFuncGetParamInfo"):
            return
        found, offset, size = [], _size(), _size()
        info = self._library.function("cuFuncGetParamInfo")
        while info(function, len(found), ctypes.byref(offset), ctypes.byref(size)) == 0:
            found.append((offset.value, size.value))
        if tuple(found) != wanted.arguments:
            given = f"the kernel's arguments (offset, size) are {tuple(found)}"
            raise MismatchError(f"{wanted.label}: {given}, its row says {wanted.arguments}")

    def _load_module(self, module: Any, code: bytes, doing: str) -> None:
        log = ctypes.create_string_buffer(8192)
        options = (_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (_void * 2)(ctypes.addressof(log), len(log))
        image = ctypes.create_string_buffer(code, len(code))
        status = self._library.function("cuModuleLoadDataEx")(ctypes.byref(module), image, 2, options, values)
        if status:
            raise self._error("cuModuleLoadDataEx", status, doing, log.value.decode(errors="replace").strip())

    def _allow_shared(self, function: Any, lds_bytes: int, doing: str) -> None:
        """Shared memory beyond 48 KiB is had on request only; static and dynamic count together."""
        static = _int()
        self._call("cuFuncGetAttribute", ctypes.byref(static), _FUNCTION_SHARED, function, doing=doing)
        total = static.value + lds_bytes
        if total > self.lds_limit:
            raise DriverError(
                "cuFuncSetAttribute", 1, "CUDA_ERROR_INVALID_VALUE", f"{total} bytes of shared memory are needed "
                f"({static.value} static), {self.name} allows {self.lds_limit}", doing
            )  # fmt: skip
        if total >= _DEFAULT_SHARED:
            self._call("cuFuncSetAttribute", function, _FUNCTION_MAX_DYNAMIC, lds_bytes, doing=doing)

    def unload(self, function: Function) -> None:
        if self._guard.forked or self._closed:
            return
        try:
            with _Current(self, "unloading"):
                self._library.function("cuModuleUnload")(function.module)
        except DriverError:
            pass

    def launch(
        self, function: Function, grid: LaunchGrid, block: Any, stream: int, pointers: tuple[Pointer, ...] = ()
    ) -> None:
        self._guard.check()
        current = _void()
        self._get_current(ctypes.byref(current))
        if current.value == self._context:
            status = self._launch(
                function.handle, *grid, function.threads, 1, 1, function.lds_bytes, stream, None, block.extra
            )
        else:
            with _Current(self, f"launching {function.label}"):
                status = self._launch(
                    function.handle, *grid, function.threads, 1, 1, function.lds_bytes, stream, None, block.extra
                )
        if status:
            raise self._error("cuLaunchKernel", status, f"launching {function.label} on {self.name}", "")

    def argument_block(self, size: int) -> ArgumentBlock:
        return ArgumentBlock(size, _BUFFER_POINTER, _BUFFER_SIZE, _END)

    def resident_groups(self, function: Function) -> int:
        count = _int()
        with _Current(self, "occupancy"):
            self._call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                ctypes.byref(count),
                function.handle,
                function.threads,
                function.lds_bytes,
                doing=f"asking for the occupancy of {function.label}",
            )
        return count.value

    def filled_i32(self, value: int, count: int) -> int:
        self._guard.check()
        return self._filled.get(value, count)

    def _allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        doing = f"allocating {size} bytes on {self.name} (not possible while a graph is captured: call preload before)"
        with _Current(self, "allocating"):
            self._call("cuMemAlloc_v2", ctypes.byref(address), size, doing=doing)
        return address.value

    def _fill(self, address: int, value: int, count: int) -> None:
        with _Current(self, "filling"):
            self._call("cuMemsetD32_v2", address, value, count, doing="filling device memory")

    def read(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(max(size, 1))
        with _Current(self, "reading"):
            self._call("cuCtxSynchronize", doing=f"waiting for {self.name}")
            self._call("cuMemcpyDtoH_v2", data, address, size, doing=f"reading {size} bytes at {address:#x}")
        return data.raw[:size]

    def synchronize(self) -> None:
        with _Current(self, "waiting"):
            self._call("cuCtxSynchronize", doing=f"waiting for {self.name}")

    def describe(self) -> dict[str, Any]:
        version, name, bus = _int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
        self._call("cuDriverGetVersion", ctypes.byref(version), doing="asking for the driver's version")
        self._call("cuDeviceGetName", name, len(name), self._ordinal, doing=f"asking for the name of {self.name}")
        self._call("cuDeviceGetPCIBusId", bus, len(bus), self._ordinal, doing=f"asking for the bus of {self.name}")
        return {
            "name": name.value.decode(errors="replace"),
            "pci_address": bus.value.decode(errors="replace"),
            "driver_version": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "processors": self.processors,
            "lds_limit": self.lds_limit,
        }

    def close(self) -> None:
        if self._closed or self._guard.forked:
            return
        try:
            with _Current(self, "closing"):
                for address in self._filled.addresses:
                    self._library.function("cuMemFree_v2")(address)
        except DriverError:
            pass
        self._closed = True
        self._library.function("cuDevicePrimaryCtxRelease_v2")(self._ordinal)

    def _attribute(self, number: int) -> int:
        value = _int()
        doing = f"asking {self.name} for attribute {number}"
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._ordinal, doing=doing)
        return value.value

    def _call(self, name: str, *arguments: Any, doing: str) -> None:
        if status := self._library.function(name)(*arguments):
            raise self._error(name, status, doing, "")

    def _error(self, call: str, status: int, doing: str, log: str) -> DriverError:
        name, said = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.function("cuGetErrorName")(status, ctypes.byref(name))
        self._library.function("cuGetErrorString")(status, ctypes.byref(said))
        text = (said.value or b"").decode(errors="replace")
        return DriverError(
            call, status, (name.value or b"unknown").decode(), f"{text}; {log}" if log else text, doing
        )  # fmt: skip


class _Current:
    """Makes the driver's context current, and the one that was current before it afterwards."""

    __slots__ = ("_doing", "_driver")

    def __init__(self, driver: CudaDriver, doing: str):
        self._driver = driver
        self._doing = doing

    def __enter__(self) -> None:
        self._driver._guard.check()
        self._driver._call("cuCtxPushCurrent_v2", self._driver._context, doing=self._doing)

    def __exit__(self, *_: object) -> None:
        popped = _void()
        self._driver._library.function("cuCtxPopCurrent_v2")(ctypes.byref(popped))
