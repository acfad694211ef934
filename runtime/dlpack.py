"""Reading a DLPack capsule: address, type, shape and strides, without taking it over.

The capsule is dropped after reading, and its own destructor then gives it back; the caller's object keeps the memory.
Source: dlpack.h of the DLPack project, version 1.1.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "hip", 11: "cpu", 13: "cuda"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_FLOAT8 = {10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class Described:
    """What a capsule says.  dtype as numpy spells it ('float32', 'bfloat16'); strides in elements, None if dense."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: tuple[str, int]


def read(tensor: Any) -> Described:
    """Describe an object that has `__dlpack__`.  Its memory is not synchronised with any stream."""
    kind, _ = tensor.__dlpack_device__()
    # -1: no synchronisation, which is the caller's matter; hosts take no stream at all.
    capsule = tensor.__dlpack__() if _DEVICES.get(int(kind)) == "cpu" else tensor.__dlpack__(stream=-1)
    found = ctypes.cast(_pointer_of(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    shape = tuple(found.shape[axis] for axis in range(found.ndim))
    strides = tuple(found.strides[axis] for axis in range(found.ndim)) if found.strides else None
    device = (_DEVICES.get(found.device_type, f"dlpack device {found.device_type}"), found.device_id)
    return Described((found.data or 0) + found.byte_offset, _dtype(found), shape, strides, device)


def _dtype(found: _Tensor) -> str:
    if found.lanes != 1:
        return f"{found.bits}-bit elements in {found.lanes} lanes"
    if found.code in _FLOAT8:
        return _FLOAT8[found.code]
    if found.code == 6:
        return "bool"
    return f"{_KINDS.get(found.code, f'type code {found.code} of ')}{found.bits}"
