"""NVIDIA: the driver API (libcuda), through ctypes.  Source: CUDA Driver API reference.

Contexts are the devices' primary ones, which is what frameworks use; a call from a thread whose current context is
another one makes ours current for the call and puts the other one back.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from .native import ArgumentBlock, Buffer, Library
from .native_driver import Module, Names, NativeDriver

if TYPE_CHECKING:
    from .driver import LaunchGrid
    from .function import Function, Wanted

LIBRARY_NAMES: tuple[str, ...] = ("libcuda.so.1",)
_int, _uint, _size, _void = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
# A pointer to what a function fills in is any pointer: a type for each kind would have to be made.
_out = _void
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuDriverGetVersion": (_out,),
    "cuGetErrorName": (_int, _out),
    "cuGetErrorString": (_int, _out),
    "cuDeviceGetCount": (_out,),
    "cuDeviceGet": (_out, _int),
    "cuDeviceGetName": (ctypes.c_char_p, _int, _int),
    "cuDeviceGetPCIBusId": (ctypes.c_char_p, _int, _int),
    "cuDeviceGetAttribute": (_out, _int, _int),
    "cuDevicePrimaryCtxRetain": (_out, _int),
    "cuDevicePrimaryCtxRelease_v2": (_int,),
    "cuCtxGetCurrent": (_out,),
    "cuCtxPushCurrent_v2": (_void,),
    "cuCtxPopCurrent_v2": (_out,),
    "cuCtxSynchronize": (),
    "cuStreamSynchronize": (_void,),
    "cuModuleLoadDataEx": (_out, _void, _uint, _out, _out),
    "cuModuleUnload": (_void,),
    "cuModuleGetFunction": (_out, _void, ctypes.c_char_p),
    "cuFuncGetAttribute": (_out, _int, _void),
    "cuFuncGetParamInfo": (_void, _size, _out, _out),
    "cuFuncSetAttribute": (_void, _int, _int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_out, _void, _int, _size),
    "cuLaunchKernel": (_void, _uint, _uint, _uint, _uint, _uint, _uint, _uint, _void, _void, _void),
    "cuLaunchKernelEx": (_out, _void, _void, _void),
    "cuMemAlloc_v2": (_out, _size),
    "cuMemFree_v2": (_void,),
    "cuMemsetD32_v2": (_void, _uint, _size),
    "cuMemcpyDtoH_v2": (_void, _void, _size),
    "cuPointerGetAttribute": (_void, _int, _void),
}
# From CUDA 12.4 and 11.8 on.  Without the second a dependent kernel starts behind the one before it, as others do.
_OPTIONAL = ("cuFuncGetParamInfo", "cuLaunchKernelEx")
# CUdevice_attribute, CUfunction_attribute and CUjit_option numbers of cuda.h.
MULTIPROCESSORS, MAJOR, MINOR, OPTIN_SHARED = 16, 75, 76, 97
FUNCTION_MAX_DYNAMIC = 8
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
# NativeLaunch.kind of a dependent launch.
_DEPENDENT_KIND = 3
# CUpointer_attribute and CUmemorytype.
POINTER_MEMORY_TYPE, POINTER_IS_MANAGED, POINTER_DEVICE = 2, 8, 9
_DEVICE_MEMORY, _INVALID_VALUE = 2, 1
# Above this a kernel must be allowed its shared memory, static and dynamic together.
_DEFAULT_SHARED = 48 * 1024
# What cuModuleLoadDataEx is told, in one buffer: values of its two options, their numbers, and room for its log.
_LOADING, _OPTIONS_AT, _LOG_BYTES = struct.Struct("@2P2i"), struct.calcsize("@2P"), 8192


# CUlaunchAttribute: a number, padding, and a union of 64 bytes, of which this attribute uses the first integer.
STREAM_SERIALIZATION = 6
_ATTRIBUTE = struct.Struct("@I4xi60x")
# CUlaunchConfig: grid, workgroup and shared bytes; stream; attributes and how many.
_CONFIGURATION = struct.Struct("@7IPPI4x")


class _Names(Names):
    start = "cuInit"
    count_devices = "cuDeviceGetCount"
    version = "cuDriverGetVersion"
    device_name = "cuDeviceGetName"
    bus = "cuDeviceGetPCIBusId"
    attribute = "cuDeviceGetAttribute"
    get_current = "cuCtxGetCurrent"
    get_function = "cuModuleGetFunction"
    function_attribute = "cuFuncGetAttribute"
    unload = "cuModuleUnload"
    occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    launch = "cuLaunchKernel"
    allocate = "cuMemAlloc_v2"
    free = "cuMemFree_v2"
    fill = "cuMemsetD32_v2"
    copy_to_host = "cuMemcpyDtoH_v2"
    wait_for_stream = "cuStreamSynchronize"
    wait = "cuCtxSynchronize"


class CudaDriver(NativeDriver):
    """One NVIDIA device, by its ordinal."""

    _names = _Names
    _kind = 1
    _markers = (1, 2, 0)
    _current_type = _void

    def __init__(self, ordinal: int):
        what = "the CUDA driver library (libcuda.so.1)"
        super().__init__("cuda", ordinal, Library(LIBRARY_NAMES, _SIGNATURES, what, optional=_OPTIONAL))
        device, context = _int(), _void()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal, doing=f"opening {self.name}")
        self._ordinal = device.value
        self.device = ("cuda", f"sm_{self._attribute(MAJOR)}{self._attribute(MINOR)}")
        self.lds_limit = self._attribute(OPTIN_SHARED)
        self.processors = self._attribute(MULTIPROCESSORS)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._ordinal, doing=f"opening {self.name}")
        self._own = context.value
        self._starting_early = Buffer(_ATTRIBUTE.size)
        _ATTRIBUTE.pack_into(self._starting_early.data, 0, STREAM_SERIALIZATION, 1)

    @property
    def _handle(self) -> int:
        return self._ordinal

    def _enter(self, doing: str) -> None:
        self._call("cuCtxPushCurrent_v2", self._own, doing=doing)

    def _leave(self, entered: None, doing: str) -> None:
        self._call("cuCtxPopCurrent_v2", ctypes.byref(_void()), doing=doing)

    def _load_module(self, code: bytes, doing: str) -> Module:
        module, told = _void(), Buffer(_LOADING.size + _LOG_BYTES)
        options, log = told.address + _OPTIONS_AT, told.address + _LOADING.size
        _LOADING.pack_into(told.data, 0, log, _LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES)
        status = self._library.function("cuModuleLoadDataEx")(ctypes.byref(module), code, 2, options, told.address)
        if status:
            said = told.data[_LOADING.size :].partition(b"\0")[0].decode(errors="replace").strip()
            raise self._error("cuModuleLoadDataEx", status, doing, said)
        return Module(module.value or 0)

    def _make_ready(self, function: Any, wanted: Wanted, static: int, doing: str) -> None:
        self._check_arguments(function, wanted)
        # Shared memory beyond 48 KiB is had on request only; static and dynamic count together.
        if static + wanted.lds_bytes >= _DEFAULT_SHARED:
            self._call("cuFuncSetAttribute", function, FUNCTION_MAX_DYNAMIC, wanted.lds_bytes, doing=doing)

    def _check_arguments(self, function: Any, wanted: Wanted) -> None:
        if not self._library.has("cuFuncGetParamInfo"):
            return
        found, offset, size = [], _size(), _size()
        info = self._library.function("cuFuncGetParamInfo")
        while info(function, len(found), ctypes.byref(offset), ctypes.byref(size)) == 0:
            found.append((offset.value, size.value))
        if tuple(found) != wanted.arguments:
            from .driver_errors import MismatchError

            given = f"the kernel's arguments (offset, size) are {tuple(found)}"
            raise MismatchError(f"{wanted.label}: {given}, its row says {wanted.arguments}")

    def _start(self, function: Function, grid: LaunchGrid, block: ArgumentBlock, stream: int) -> int:
        if not self._starts_early(function):
            return super()._start(function, grid, block, stream)
        # It may start while the kernel before it on the stream still runs.
        attribute, shared = self._starting_early.address, function.lds_bytes
        configuration = _CONFIGURATION.pack(*grid, function.threads, 1, 1, shared, stream, attribute, 1)
        return self._library.function("cuLaunchKernelEx")(configuration, function.handle, None, block.extra)

    def _starts_early(self, function: Function) -> bool:
        return function.dependent and self._library.has("cuLaunchKernelEx")

    def _kind_of(self, function: Function) -> tuple[int, str]:
        return (_DEPENDENT_KIND, "cuLaunchKernelEx") if self._starts_early(function) else super()._kind_of(function)

    def _ordinal_of(self, address: int) -> int | None:
        if self._pointer(POINTER_IS_MANAGED, address):
            return self.tensor_device[1]
        if self._pointer(POINTER_MEMORY_TYPE, address) != _DEVICE_MEMORY:
            return None
        return self._pointer(POINTER_DEVICE, address)

    def _pointer(self, attribute: int, address: int) -> int | None:
        """What the driver says of an address; None where it is none that it knows."""
        # Some attributes are a byte wide, the others four.
        value = _int(0)
        status = self._library.function("cuPointerGetAttribute")(ctypes.byref(value), attribute, address)
        if status == _INVALID_VALUE:
            return None
        if status:
            raise self._error("cuPointerGetAttribute", status, f"asking {self.name} where {address:#x} is")
        return value.value

    def _error_text(self, status: int) -> tuple[str, str]:
        name, said = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.function("cuGetErrorName")(status, ctypes.byref(name))
        self._library.function("cuGetErrorString")(status, ctypes.byref(said))
        return (name.value or b"unknown").decode(), (said.value or b"").decode(errors="replace")

    def _release(self) -> None:
        self._library.function("cuDevicePrimaryCtxRelease_v2")(self._ordinal)

    def _spelled_version(self, version: int) -> str:
        return f"{version // 1000}.{version % 1000 // 10}"
