"""What a driver does for the runtime: load code, launch it, and a little memory of the runtime's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from assay.bundle.record import Record

from .function import Function, Wanted
from .native_launch import NativeLaunch

LaunchGrid = tuple[int, int, int]


class Pointer(Record):
    """Where a pointer lies in the argument block, and what it may reach; for drivers that keep watch."""

    __slots__ = ()

    name: str
    offset: int
    extent_bytes: int
    writable: bool


class Driver(ABC):
    """One device.  Safe to use from several threads.

    Everything raises DriverError, ForkedError in a process that was forked off, and ClosedError behind `close`.
    """

    name: str
    """Such as 'cuda:0'; the framework's tensors must be on it."""
    device: tuple[str, str]
    """Backend and architecture, as in ('hip', 'gfx1201')."""
    tensor_device: tuple[str, int]
    """The device that tensors must be on, as `TensorView.device` says it."""
    lds_limit: int
    """Shared memory that a workgroup may use on this device, bytes."""
    processors: int
    """Multiprocessors (NVIDIA) or work-group processors (AMD)."""
    grid_limit: LaunchGrid
    watches_memory = False
    """Whether `launch` needs the pointers' extents."""

    @abstractmethod
    def check_usable(self) -> None:
        """Raises ForkedError where the driver's handles belong to another process, ClosedError behind `close`."""

    @abstractmethod
    def load(self, code: bytes, wanted: Wanted) -> Function:
        """Load a code object and find its kernel, ready to be launched.

        Where the driver can tell, the kernel's arguments, threads and shared memory are compared with what is wanted.
        """

    @abstractmethod
    def unload(self, function: Function) -> None:
        """Give the code object's memory back.  Never raises: it may run when the process ends."""

    @abstractmethod
    def launch(
        self, function: Function, grid: LaunchGrid, block: Any, stream: int, pointers: tuple[Pointer, ...] = ()
    ) -> None:
        """Start the kernel.  block: the argument block as `argument_block` made it; its bytes are copied."""

    def native_launch(self, function: Function) -> NativeLaunch | None:
        """What the launch path in C needs to start the kernel itself; None where it cannot."""
        return None

    @abstractmethod
    def argument_block(self, size: int) -> Any:
        """A buffer of `size` bytes for `launch`; write to its `.data`."""

    @abstractmethod
    def resident_groups(self, function: Function) -> int:
        """Workgroups of the kernel that run on one processor at once."""

    @abstractmethod
    def filled_i32(self, value: int, count: int) -> int:
        """Address of `count` 32-bit integers in device memory that all hold `value`; the driver keeps them."""

    @abstractmethod
    def read(self, address: int, size: int) -> bytes:
        """Device memory as it is once all work queued so far is done."""

    def device_of(self, address: int) -> tuple[str, int] | None:
        """The device whose memory that is, as `TensorView.device` says it; None where the driver cannot tell."""
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work queued on the device."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name, PCI address, driver version and the like, for provenance."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back.  Never raises."""
