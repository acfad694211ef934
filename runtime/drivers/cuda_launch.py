"""What cuLaunchKernelEx takes.  Source: cuda.h, CUlaunchConfig and CUlaunchAttribute."""

from __future__ import annotations

import ctypes
import struct

# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
STREAM_SERIALIZATION = 6
# A number, padding, and a union of 64 bytes, of which this attribute uses the first integer.
ATTRIBUTE = struct.Struct("@I4xi60x")
# Grid, workgroup and shared bytes; stream; attributes and how many.
CONFIGURATION = struct.Struct("@7IPPI4x")
_attribute = ctypes.create_string_buffer(ATTRIBUTE.pack(STREAM_SERIALIZATION, 1))


def dependent(grid: tuple[int, int, int], threads: int, shared_bytes: int, stream: int) -> bytes:
    """CUlaunchConfig of a kernel that may start while the one before it on the stream still runs."""
    return CONFIGURATION.pack(*grid, threads, 1, 1, shared_bytes, stream, ctypes.addressof(_attribute), 1)
