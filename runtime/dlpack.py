"""Reading a DLPack capsule: address, type, shape and strides, without taking it over.

The capsule is dropped after reading, and its own destructor then gives it back; the caller's object keeps the memory.
A producer may hand out a copy, whose memory is gone with the capsule: version 1 says so, and of an older version two
exports that live at once have two addresses.  Source: dlpack.h of the DLPack project, version 1.1.
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


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_VERSION = (1, 1)
_READ_ONLY, _IS_COPIED = 1, 2
_PLAIN_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

_is_named = ctypes.pythonapi.PyCapsule_IsValid
_is_named.restype, _is_named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class Described:
    """What a capsule says.  dtype as numpy spells it ('float32', 'bfloat16'); strides in elements, None if dense.

    copied: the memory is not the object's own, and gone by now.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: tuple[str, int]
    read_only: bool
    copied: bool


def read(tensor: Any) -> Described:
    """Describe an object that has `__dlpack__`.  Its memory is not synchronised with any stream.

    Raises BufferError for a capsule of another major version, besides what the object's own method raises.
    """
    capsule = _export(tensor)
    if not _is_named(capsule, _VERSIONED_NAME):
        found, again = _plain(capsule), _export(tensor)
        copied = _address(found) != _address(_plain(again))
        return _described(found, read_only=False, copied=copied)
    whole = ctypes.cast(_pointer_of(capsule, _VERSIONED_NAME), ctypes.POINTER(_Versioned)).contents
    if whole.major != _VERSION[0]:
        raise BufferError(f"a capsule of DLPack {whole.major}.{whole.minor}, which is not {_VERSION[0]}.x")
    return _described(
        whole.tensor, read_only=bool(whole.flags & _READ_ONLY), copied=bool(whole.flags & _IS_COPIED)
    )  # fmt: skip


def _export(tensor: Any) -> Any:
    """A capsule of version 1 where the object can make one."""
    kind, _ = tensor.__dlpack_device__()
    # -1: no synchronisation, which is the caller's matter; hosts take no stream at all.
    options = {} if _DEVICES.get(int(kind)) == "cpu" else {"stream": -1}
    try:
        return tensor.__dlpack__(max_version=_VERSION, **options)
    except TypeError:
        return tensor.__dlpack__(**options)


def _plain(capsule: Any) -> _Tensor:
    return ctypes.cast(_pointer_of(capsule, _PLAIN_NAME), ctypes.POINTER(_Tensor)).contents


def _address(found: _Tensor) -> int:
    return (found.data or 0) + found.byte_offset


def _described(found: _Tensor, *, read_only: bool, copied: bool) -> Described:
    shape = tuple(found.shape[axis] for axis in range(found.ndim))
    strides = tuple(found.strides[axis] for axis in range(found.ndim)) if found.strides else None
    device = (_DEVICES.get(found.device_type, f"dlpack device {found.device_type}"), found.device_id)
    return Described(_address(found), _dtype(found), shape, strides, device, read_only, copied)


def _dtype(found: _Tensor) -> str:
    if found.lanes != 1:
        return f"{found.bits}-bit elements in {found.lanes} lanes"
    if found.code in _FLOAT8:
        return _FLOAT8[found.code]
    if found.code == 6:
        return "bool"
    return f"{_KINDS.get(found.code, f'type code {found.code} of ')}{found.bits}"
