"""gfx12 on the CPU: the same argument blocks and launches, executed by `assay.emulator` with all its checks.

Every pointer's memory becomes a buffer of its own with a gap around it, at an address that is divisible by what the
real one is, so that an access past the end of one tensor cannot land in the next.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from dataclasses import dataclass
from typing import Any

from .driver import Driver, LaunchGrid, Pointer
from .driver_errors import ClosedError, DriverError, MismatchError, NoDriverError
from .function import Function, Wanted
from .native import FilledBuffers

# Real addresses are followed up to this power of two.
_ALIGNMENT = 256


class EmulatedFault(DriverError):
    """The kernel did something that the emulator's checks forbid; the message names instruction and source line."""

    def __init__(self, said: str, doing: str):
        super().__init__("emulator", 1, "EMULATION_FAULT", said, doing)


@dataclass(slots=True)
class _Block:
    data: Any


class EmulatorDriver(Driver):
    """A gfx12 device that is not there.  Tensors live in this process's memory: numpy arrays, CPU torch tensors."""

    tensor_device = ("cpu", 0)
    grid_limit: LaunchGrid = (2**31 - 1, 65535, 65535)
    lds_limit = 65536
    # Of a Radeon RX 9070 XT: 32 work-group processors.  It decides nothing but the default number of splits.
    processors = 32
    watches_memory = True

    def __init__(self, arch: str):
        self._emulator = _imported()
        if arch not in self._emulator.ARCHITECTURES:
            executed = ", ".join(self._emulator.ARCHITECTURES)
            raise NoDriverError(f"emulator: {arch} code cannot be emulated; the emulator executes {executed}")
        self.name = f"emulator:{arch}"
        self.device = ("hip", arch)
        self._memory: list[Any] = []
        self._closed = False
        self._filled = FilledBuffers(self._allocate, self._fill)
        self._lock = threading.Lock()
        self.counters: Any = None

    def check_usable(self) -> None:
        # A fork copies everything there is.
        if self._closed:
            raise ClosedError(f"{self.name} was closed: load the bundle again")

    def load(self, code: bytes, wanted: Wanted) -> Function:
        try:
            program = self._emulator.Program.load(code, where=wanted.label, kernel=wanted.symbol)
        except (self._emulator.EmulationError, self._emulator.ObjectError) as error:
            raise EmulatedFault(str(error), f"loading {wanted.label} on {self.name}") from error
        found = tuple((item.offset, item.size) for item in program.kernel.arguments)
        if found != wanted.arguments:
            raise MismatchError(
                f"{wanted.label}: the kernel's arguments (offset, size) are {found}, its row says {wanted.arguments}"
            )
        most = program.kernel.resources.max_threads
        if most is not None and wanted.threads > most:
            raise MismatchError(f"{wanted.label}: {wanted.threads} threads a workgroup, the kernel takes {most}")
        return Function(program, None, wanted)

    def unload(self, function: Function) -> None:
        """A program is memory of this process."""

    def argument_block(self, size: int) -> _Block:
        return _Block((ctypes.c_char * max(size, 1))())

    def launch(
        self, function: Function, grid: LaunchGrid, block: Any, stream: int, pointers: tuple[Pointer, ...] = ()
    ) -> None:
        self.check_usable()
        packed = bytearray(block.data)
        memory = self._emulator.Memory()
        self._map(memory, packed, pointers)
        try:
            result = function.handle.launch(
                grid=grid,
                num_warps=function.threads // 32,
                arguments=bytes(packed),
                memory=memory,
                lds_bytes=function.lds_bytes,
                count_transactions=False,
            )
        except self._emulator.EmulationError as error:
            raise EmulatedFault(str(error), f"running {function.label} on {self.name}") from error
        self.counters = result.counters

    def _map(self, memory: Any, packed: bytearray, pointers: tuple[Pointer, ...]) -> None:
        """Make a buffer of every range of memory and let the block's pointers point to it."""
        import numpy as np

        found = [(struct.unpack_from("<Q", packed, pointer.offset)[0], pointer) for pointer in pointers]
        for address, pointer in found:
            if not address and pointer.extent_bytes:
                raise EmulatedFault(f"{pointer.name} has {pointer.extent_bytes} bytes at address 0", f"on {self.name}")
        for start, end, members in _ranges(found):
            raw = (ctypes.c_uint8 * max(end - start, 1)).from_address(start or ctypes.addressof(_NOTHING))
            data = np.frombuffer(raw, np.uint8)[: end - start]
            writable = any(pointer.writable for _, pointer in members)
            name = " and ".join(pointer.name for _, pointer in members)
            base = memory.add(name, data, writable=writable, align=_ALIGNMENT, phase=start % _ALIGNMENT)
            for address, pointer in members:
                struct.pack_into("<Q", packed, pointer.offset, base + address - start)

    def resident_groups(self, function: Function) -> int:
        # Two workgroups of any shipped kernel fit a work-group processor; only the default number of splits uses it.
        return 2

    def filled_i32(self, value: int, count: int) -> int:
        return self._filled.get(value, count)

    def _allocate(self, size: int) -> int:
        self._memory.append((ctypes.c_uint8 * size)())
        return ctypes.addressof(self._memory[-1])

    def _fill(self, address: int, value: int, count: int) -> None:
        ctypes.memmove(address, struct.pack("<i", value) * count, 4 * count)

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def synchronize(self) -> None:
        """Launches return when they are done."""

    def describe(self) -> dict[str, Any]:
        return {"name": f"assay emulator of {self.device[1]}", "pci_address": None, "driver_version": None}

    def close(self) -> None:
        self._closed = True
        self._memory.clear()


def executed_architectures() -> tuple[str, ...]:
    """Whose code the emulator executes.  Raises NoDriverError where it is not installed."""
    return _imported().ARCHITECTURES


def _imported() -> Any:
    try:
        from assay import emulator
    except ImportError as error:
        raise NoDriverError(
            f"emulator: {error.name} is not installed; pip install 'assay[emulate]' installs what it needs"
        ) from None
    return emulator


_NOTHING = (ctypes.c_uint8 * 1)()


def _ranges(found: list[tuple[int, Pointer]]) -> list[tuple[int, int, list[tuple[int, Pointer]]]]:
    """The memory that pointers reach, as (start, end, pointers); overlapping ranges are one."""
    ranges: list[tuple[int, int, list[tuple[int, Pointer]]]] = []
    for address, pointer in sorted(found, key=lambda item: item[0]):
        end = address + pointer.extent_bytes
        if ranges and address < ranges[-1][1]:
            start, last, members = ranges[-1]
            ranges[-1] = (start, max(last, end), [*members, (address, pointer)])
        else:
            ranges.append((address, end, [(address, pointer)]))
    return ranges
