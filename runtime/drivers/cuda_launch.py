"""The structures of cuLaunchKernelEx.  Source: cuda.h, CUlaunchConfig and CUlaunchAttribute."""

from __future__ import annotations

import ctypes

from .driver import LaunchGrid

# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
_STREAM_SERIALIZATION = 6
_uint = ctypes.c_uint


class _Attribute(ctypes.Structure):
    """A union of 64 bytes behind the number, of which this attribute uses the first integer."""

    _fields_ = (("id", _uint), ("padding", _uint), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", _uint * 3),
        ("block", _uint * 3),
        ("shared_bytes", _uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", _uint),
    )

    @classmethod
    def dependent(cls, grid: LaunchGrid, threads: int, shared_bytes: int, stream: int) -> LaunchConfiguration:
        """A kernel that may start while the one before it on the stream still runs."""
        attribute = _Attribute(_STREAM_SERIALIZATION, 0, 1)
        return cls(grid, (threads, 1, 1), shared_bytes, stream, ctypes.pointer(attribute), 1)
