"""A kernel as a row wants it, its code, and as a driver has loaded it.

Which device code is for is told by its ELF header alone. Sources: LLVM AMDGPUUsage, 'AMDGPU ELF Header e_flags'; for
CUBIN, measured with ptxas 12.9 to 13.3: up to sm_90 the number is e_flags bits 0 to 7 (OS ABI 0x33), from CUDA 13 on
bits 8 to 15 (OS ABI 0x41).
"""

from __future__ import annotations

import struct
from typing import Any

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQI")
_AMD, _NVIDIA = 224, 190
# EF_AMDGPU_MACH.  A processor that is not listed is left to the driver, which compares all of them.
_PROCESSORS = {0x41: "gfx1100", 0x48: "gfx1200", 0x4A: "gfx1151", 0x4C: "gfx942", 0x4E: "gfx1201"}
_CUDA_ABI, _CUDA_13_ABI = 0x33, 0x41


class Wanted:
    """What a row says of its kernel.

    label: the row, for messages.  lds_bytes: dynamic shared memory at launch.  threads: of a workgroup.
    arguments: (offset, size) of each in bytes, hidden ones included.  dependent: it may be launched while the kernel
    before it still runs, as it waits by itself.
    """

    __slots__ = ("arguments", "dependent", "label", "lds_bytes", "symbol", "threads")

    def __init__(
        self,
        label: str,
        symbol: str,
        lds_bytes: int,
        threads: int,
        arguments: tuple[tuple[int, int], ...],
        dependent: bool = False,
    ):
        self.dependent = dependent
        self.label = label
        self.symbol = symbol
        self.lds_bytes = lds_bytes
        self.threads = threads
        self.arguments = arguments


class Function:
    """What was wanted, loaded on one device.  `handle` and `module` mean something to its driver alone."""

    __slots__ = ("dependent", "handle", "label", "lds_bytes", "module", "threads")

    def __init__(self, handle: Any, module: Any, wanted: Wanted):
        self.handle = handle
        self.module = module
        self.label = wanted.label
        self.lds_bytes = wanted.lds_bytes
        self.threads = wanted.threads
        self.dependent = wanted.dependent


def image_arch(code: bytes) -> tuple[str, str] | None:
    """Backend and architecture, as a device calls itself: ('cuda', 'sm_90'), ('hip', 'gfx1201').

    None where the header does not tell, or is not one: that is for the driver to refuse.
    """
    if len(code) < _HEADER.size or code[:4] != b"\x7fELF":
        return None
    _, _, _, _, abi, _, _, machine, _, _, _, _, flags = _HEADER.unpack_from(code)
    if machine == _AMD:
        processor = _PROCESSORS.get(flags & 0xFF)
        return None if processor is None else ("hip", processor)
    if machine == _NVIDIA and abi in (_CUDA_ABI, _CUDA_13_ABI):
        return "cuda", f"sm_{flags & 0xFF if abi == _CUDA_ABI else flags >> 8 & 0xFF}"
    return None
