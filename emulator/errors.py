"""What can go wrong, as data: every fault names the kernel, the instruction, its address and what happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault happened. `address` counts bytes from the kernel's entry; `source` is `file:line` or ''."""

    kernel: str
    address: int
    instruction: str
    source: str = ""

    def __str__(self) -> str:
        line = f" ({self.source})" if self.source else ""
        return f"{self.kernel}+{self.address:#x}: {self.instruction}{line}"


class EmulationError(Exception):
    """A fault of the program or of its launch. `detail` says what happened; `place` is `None` before the first step."""

    def __init__(self, detail: str, place: Place | None = None):
        super().__init__(f"{place}: {detail}" if place else detail)
        self.detail = detail
        self.place = place

    def at(self, place: Place) -> EmulationError:
        """The same fault with its place filled in."""
        return self if self.place else type(self)(self.detail, place)


class OutOfBoundsError(EmulationError):
    """An access outside every buffer, outside LDS or scratch, or a write to a read-only buffer."""


class UndefinedValueError(EmulationError):
    """A register or an LDS byte that nobody wrote reached memory, an address, a branch or EXEC."""


class InFlightError(EmulationError):
    """A register read or overwritten before the `s_wait_*` for its load."""


class BarrierError(EmulationError):
    """A barrier that not every wave of its workgroup reaches."""


class RaceError(EmulationError):
    """Two waves touch one location without a barrier between them, at least one of them writing."""


class MisalignedError(EmulationError):
    """An LDS access, or an atomic, at an address that is not a multiple of its size."""


class StepBudgetError(EmulationError):
    """More steps than the launch allowed: an endless loop, most likely."""


class LaunchError(EmulationError):
    """A launch that does not fit the kernel: arguments, grid, LDS."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One instruction that this emulator does not execute."""

    address: int
    name: str
    reason: str


class UnsupportedInstructions(EmulationError):
    """Instructions without semantics. Raised when a program is loaded, all of them at once, before anything runs."""

    def __init__(self, kernel: str, found: tuple[Unsupported, ...]):
        lines = "".join(f"\n  {item.address:#x}: {item.name}: {item.reason}" for item in found)
        super().__init__(f"{kernel}: {len(found)} instructions that the emulator does not execute:{lines}")
        self.kernel = kernel
        self.found = found
