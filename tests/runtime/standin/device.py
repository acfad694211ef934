"""What tests need of a stand-in device: memory, tensors in it, bundles for it, and how a call on them looks."""

from __future__ import annotations

import ctypes
import math
from types import SimpleNamespace

import numpy as np

from assay.bundle import TargetRecord, write_bundle

from .library import Standin, code_object

TARGETS = {
    "hip": TargetRecord("gfx1201", "hip", "gfx1201", 65_536, 32),
    "cuda": TargetRecord("sm120", "cuda", "sm_120a", 101_376, 32, runs_on=("sm_120",)),
}
ARCHS = {"hip": "gfx1201", "cuda": "sm_120"}
# One copy kernel: y = x, n elements a row; the grid is requests times heads, on y.
CONTRACT = {
    "arguments": [
        {"name": "x", "kind": "pointer", "dtype": "f32", "role": "input", "shape": ["batch", "heads"]},
        {"name": "y", "kind": "pointer", "dtype": "f32", "role": "output", "shape": ["batch", "heads"]},
        {"name": "n", "kind": "scalar", "dtype": "i32"},
    ]
}
GRID = ((), ("batch", "heads"))
LAYOUT = ((0, 8), (8, 8), (16, 4), (24, 8))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_DEVICE_TYPES = {"cuda": 2, "hip": 10}
_CODES = {"i": 0, "u": 1, "f": 2}


class DeviceTensor:
    """A tensor in a stand-in device's memory, as DLPack tells of it.  bf16: the elements are BF16, held as uint16."""

    def __init__(self, standin: Standin, array: np.ndarray, device: int = 0, *, bf16: bool = False):
        array = np.ascontiguousarray(array)
        self.address = allocate(standin, max(array.nbytes, 1), device)
        ctypes.memmove(self.address, array.ctypes.data, array.nbytes)
        self._place = (_DEVICE_TYPES[standin.vendor], device)
        self._dtype, self._shape = array.dtype, array.shape
        self._dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        code = 4 if bf16 else _CODES[array.dtype.kind]
        self._told = _DLTensor(
            self.address, *self._place, array.ndim, code, array.itemsize * 8, 1, self._dims, None, 0
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place

    def __dlpack__(self, *, stream: int | None = None) -> object:
        assert stream == -1, "reading a tensor's address needs no synchronisation"
        return _capsule(ctypes.addressof(self._told), b"dltensor", None)

    def numpy(self) -> np.ndarray:
        """Its contents."""
        size = math.prod(self._shape) * self._dtype.itemsize
        return np.frombuffer(ctypes.string_at(self.address, size), self._dtype).reshape(self._shape)


def allocate(standin: Standin, size: int, device: int) -> int:
    """Memory of a device, as a framework would have it."""
    address = ctypes.c_void_p()
    before = standin.current
    if standin.vendor == "hip":
        standin.current = device
        assert standin.library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        standin.current = before
    else:
        context = ctypes.c_void_p()
        assert standin.library.cuInit(0) == 0
        assert standin.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert standin.library.cuCtxPushCurrent_v2(context) == 0
        assert standin.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        assert standin.library.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
        assert standin.library.cuDevicePrimaryCtxRelease_v2(device) == 0
    return address.value


def copy_row(factory, vendor: str, id: str, conditions=(), *, arch: str | None = None, **changes):
    """A row of the copy kernel, and its code."""
    code = code_object(arch or TARGETS[vendor].arch, id)
    fields = {"target": TARGETS[vendor].name, "grid": GRID, "object_": factory.sha(code), "symbol": f"copy_{id}"}
    return factory.make_row(id, conditions, **{**fields, **changes}), code


def write_copy_bundle(factory, path, vendor: str, rows) -> None:
    """A bundle of such rows for the vendor's one target."""
    objects = {row.object: code for row, code in rows}
    contents = factory.make_contents([row for row, _ in rows], objects)
    manifest = contents.manifest._replace(targets=(TARGETS[vendor],), families={"copy": CONTRACT})
    write_bundle(path, contents._replace(manifest=manifest))


def announce(standin: Standin, row, code: bytes, **changes) -> int:
    """Tell the stand-in what is in a row's code object; all as the row says unless changed."""
    told = {"symbol": row.symbol, "arch": ARCHS[standin.vendor], "arguments": LAYOUT, **changes}
    return standin.announce(code, told.pop("symbol"), told.pop("arch"), told.pop("arguments"), **told)


class Bench:
    """A stand-in with two devices, and bundles of copy kernels for it."""

    def __init__(self, standin: Standin, factory, folder):
        self.standin = standin
        self.vendor = standin.vendor
        self._factory = factory
        self._folder = folder
        self._names = SimpleNamespace(
            load={"hip": "hipModuleLoadData", "cuda": "cuModuleLoadDataEx"}[self.vendor],
            launch={"hip": "hipModuleLaunchKernel", "cuda": "cuLaunchKernel"}[self.vendor],
        )
        standin.reset(ARCHS[self.vendor], ARCHS[self.vendor])

    @property
    def load_call(self) -> str:
        return self._names.load

    @property
    def launch_call(self) -> str:
        return self._names.launch

    def device(self, ordinal: int = 0) -> str:
        return f"{self.vendor}:{ordinal}"

    def bundle(self, *ids: str, told=None, **changes):
        """A bundle of copy kernels with these ids, which the stand-in knows; `told`: what it knows otherwise."""
        rows = [copy_row(self._factory, self.vendor, id, [("pick", "eq", id)], **changes) for id in ids]
        for row, code in rows:
            announce(self.standin, row, code, **(told or {}))
        path = self._folder / f"{'-'.join(ids)}.assay"
        write_copy_bundle(self._factory, path, self.vendor, rows)
        return path

    def tensors(self, device: int = 0, shape=(2, 3)) -> dict[str, DeviceTensor]:
        x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        return {"x": DeviceTensor(self.standin, x, device), "y": DeviceTensor(self.standin, x * 0, device)}

    def launch(self, kernels, id: str, tensors, n: int = 3, stream: int = 0) -> None:
        kernels.launch("copy", tensors, {"n": n}, {"pick": id}, stream=stream)
