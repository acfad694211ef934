"""Where a tensor's memory is, for arrays that do not say, and whether what a producer hands out is its own memory."""

import ctypes

import numpy as np
import pytest

from assay.runtime import ArgumentError, load
from assay.runtime.drivers import DriverError
from assay.runtime.tensors import NotATensor, view

from .standin.device import DeviceTensor


class CudaArray:
    """A tensor's memory as `__cuda_array_interface__` tells of it, without a device number."""

    def __init__(self, shape, address):
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": (address, False), "version": 3,
        }  # fmt: skip


def arrays(bench, device):
    return {name: CudaArray((2, 3), tensor.address) for name, tensor in bench.tensors(device).items()}


@pytest.mark.parametrize("ordinal", [0, 1])
@pytest.mark.parametrize("kind", ["device", "managed"])
def test_an_array_without_a_device_number_is_looked_up_by_its_address(bench, ordinal, kind):
    with load(bench.bundle("a"), device=bench.device(ordinal)) as kernels:
        held = bench.tensors(ordinal)
        for tensor in held.values():
            bench.standin.set_kind(tensor.address, kind)
        # What lies behind the start of an allocation is found as well.
        given = {"x": CudaArray((1, 3), held["x"].address), "y": CudaArray((1, 3), held["y"].address + 12)}
        bench.launch(kernels, "a", given)
        assert [launch.device for launch in bench.standin.launches] == [ordinal]


def test_an_array_on_the_other_device_or_on_the_host_is_refused_by_name(bench):
    host = np.zeros((2, 3), np.float32)
    with load(bench.bundle("a"), device=bench.device(0)) as kernels:
        own, other, pinned = bench.tensors(0), bench.tensors(1), bench.tensors(0)
        bench.standin.set_kind(pinned["y"].address, "host")
        wrong = {
            f"{bench.vendor}:1": other["y"].address,
            "cpu:0": pinned["y"].address,
            "cpu:0; allowed": host.ctypes.data,
        }
        for place, address in wrong.items():
            with pytest.raises(ArgumentError, match=f"^y: on {place}.*where the kernels are$"):
                bench.launch(kernels, "a", {"x": own["x"], "y": CudaArray((2, 3), address)})
        assert bench.standin.launches == []
        if bench.vendor == "hip":
            assert bench.standin.library.standin_last_error() == 0, "no error is left for the framework to find"


def test_a_driver_that_cannot_tell_says_which_call_failed(bench):
    call = {"cuda": "cuPointerGetAttribute", "hip": "hipPointerGetAttributes"}[bench.vendor]
    with load(bench.bundle("a"), device=bench.device(0)) as kernels:
        bench.standin.fail(call, 719, nth=-1)
        with pytest.raises(DriverError, match=f"asking {bench.vendor}:0 where 0x.*{call} failed"):
            bench.launch(kernels, "a", arrays(bench, 0))


def test_a_number_that_the_array_tells_is_taken_and_the_driver_is_not_asked(cuda):
    given = arrays(cuda, 0)
    for array in given.values():
        array.device = type("Device", (), {"id": 0})
    with load(cuda.bundle("a"), device="cuda:0") as kernels:
        cuda.launch(kernels, "a", given)
    assert cuda.standin.count("cuPointerGetAttribute") == 0


class Producer:
    """A host array's capsules: of version 1 where there are flags, else of the old kind; `copies`: of new memory."""

    def __init__(self, array, *, flags=None, copies=False, major=1):
        self.array, self.flags, self.copies, self.major = array, flags, copies, major
        self.kept = []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if self.flags is None and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        source = self.array.copy() if self.copies else self.array
        shape = (ctypes.c_int64 * source.ndim)(*source.shape)
        tensor = _Tensor(source.ctypes.data, 1, 0, source.ndim, 2, 32, 1, shape, None, 0)
        told = tensor if self.flags is None else _Versioned(self.major, 0, None, None, self.flags, tensor)
        self.kept.append((source, shape, told))
        name = b"dltensor" if self.flags is None else b"dltensor_versioned"
        return _capsule(ctypes.addressof(told), name, None)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


@pytest.mark.parametrize("flags", [None, 0, 1])
def test_capsules_of_both_kinds_tell_the_same(flags):
    array = np.zeros((2, 3), np.float32)
    seen = view(Producer(array, flags=flags))
    assert seen == view(array)._replace(read_only=flags == 1)


@pytest.mark.parametrize(("flags", "copies"), [(2, False), (3, False), (None, True)])
def test_a_producer_that_copies_is_refused(flags, copies):
    """What it hands out is gone when the capsule is, and what is written there nobody sees."""
    with pytest.raises(NotATensor, match="__dlpack__ gives a copy"):
        view(Producer(np.zeros((2, 3), np.float32), flags=flags, copies=copies))


def test_a_capsule_of_a_later_major_version_is_refused():
    with pytest.raises(NotATensor, match=r"DLPack 2\.0"):
        view(Producer(np.zeros(3, np.float32), flags=0, major=2))


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_copied_argument_is_refused_by_name(bench, name):
    made = []

    class Copying(DeviceTensor):
        def __dlpack__(self, *, stream=None):
            made.append(DeviceTensor(bench.standin, self.numpy()))
            return made[-1].__dlpack__(stream=stream)

    with load(bench.bundle("a"), device=bench.device(0)) as kernels:
        given = bench.tensors(0) | {name: Copying(bench.standin, np.zeros((2, 3), np.float32))}
        with pytest.raises(ArgumentError, match=f"^{name}: a .*Copying whose __dlpack__ gives a copy"):
            bench.launch(kernels, "a", given)
        assert bench.standin.launches == []
