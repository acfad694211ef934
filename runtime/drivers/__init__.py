"""Devices.  Each driver is imported when one of its devices is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..frameworks import gpu_backend, torch_module

if TYPE_CHECKING:
    from .driver import Driver
    from .driver_errors import ClosedError, DriverError, ForkedError, MismatchError, NoDriverError

__all__ = ["ClosedError", "Driver", "DriverError", "ForkedError", "MismatchError", "NoDriverError", "open_driver"]

_SPELLED = "'cuda:0', 'hip:0', 'emulator', 'emulator:gfx1201' or a torch.device"


def __getattr__(name: str) -> Any:
    """What no call that is served needs is imported when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import driver, driver_errors

    return getattr(driver if name == "Driver" else driver_errors, name)


def open_driver(device: Any, hip_archs: tuple[str, ...]) -> Driver:
    """The driver of a device, given as text or as a torch.device.  Raises NoDriverError.

    hip_archs: what the bundle has that 'emulator' could stand for.
    """
    kind, _, number = str(device).partition(":")
    torch = torch_module()
    if kind == "cuda" and torch is not None and gpu_backend(torch) == "hip":
        # What a ROCm build of torch calls cuda is HIP.
        kind = "hip"
    if kind == "emulator":
        return _emulator(number, hip_archs)
    if kind not in ("cuda", "hip") or (number and not number.isdecimal()):
        raise _no_driver(f"device {device!r}: allowed: {_SPELLED}")
    ordinal = int(number or 0)
    if kind == "cuda":
        from .cuda import CudaDriver

        return CudaDriver(ordinal)
    from .hip import HipDriver

    return HipDriver(ordinal)


def _emulator(arch: str, hip_archs: tuple[str, ...]) -> Driver:
    from .emulator import EmulatorDriver, executed_architectures

    if arch:
        return EmulatorDriver(arch)
    executed = executed_architectures()
    held = [arch for arch in hip_archs if arch in executed]
    if not held:
        raise _no_driver(f"device 'emulator': the bundle has no code for {', '.join(executed)}, which it executes")
    if len(held) != 1:
        said = f"the bundle's architectures that it executes are {', '.join(held)}"
        raise _no_driver(f"device 'emulator': {said}; name one: emulator:ARCH")
    return EmulatorDriver(held[0])


def _no_driver(said: str) -> NoDriverError:
    from .driver_errors import NoDriverError

    return NoDriverError(said)
