"""A bundle loaded on a device, with memory for its cases there."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay import runtime
from assay.bundle import Bundle, BundleError, Fault, verify_bundle
from assay.runtime.drivers import DriverError, MismatchError, NoDriverError

from .errors import BadRequest, NotAvailable
from .memory import HostMemory, Memory, TorchMemory

DEVICES = "cuda:N, hip:N, emulator or emulator:ARCH"
_DEVICE = re.compile(r"(cuda|hip)(:[0-9]{1,3})?|emulator(:[A-Za-z0-9_]+)?")
# What a device's failure surfaces as, through the runtime or through torch.
DEVICE_ERRORS = (runtime.AssayRuntimeError, RuntimeError)


@dataclass(frozen=True)
class Opened:
    """Kernels on a device.  A context manager."""

    kernels: runtime.Kernels
    memory: Memory

    def lost(self) -> str:
        """Why the device can be used no more, '' where it can: an error inside a kernel ends its whole context."""
        try:
            self.memory.synchronize()
            self.kernels.driver.synchronize()
        except DEVICE_ERRORS as error:
            return first_line(error)
        return ""

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.kernels.close()


def open_bundle(path: Path, *, companion: bool = False) -> Bundle:
    """The bundle at `path`; companion: a companion will do too.  Raises BadRequest."""
    if not path.is_file():
        raise BadRequest(Fault(str(path), "no such file, or no regular one", "a bundle"))
    try:
        return Bundle.open(path, companion=companion)
    except BundleError as error:
        raise BadRequest(error.faults) from error


def open_undamaged(path: Path, *, companion: bool = False) -> Bundle:
    """The bundle at `path`, of which every byte was read and hashed: damage is told before anything is launched, where
    a launch would tell of it as of a kernel that fails.  Raises BadRequest with all of it."""
    bundle = open_bundle(path, companion=companion)
    if damaged := verify_bundle(path, companion=companion):
        bundle.close()
        raise BadRequest(damaged)
    return bundle


def check_device_name(device: str) -> None:
    """Raises BadRequest for what names no device, whether it is here or not."""
    if not _DEVICE.fullmatch(device):
        raise BadRequest(Fault("--device", repr(device), DEVICES))


def open_device(bundle: Path, device: str, *, companion: bool = False) -> Opened:
    """The bundle, or a companion where that will do, on the device.

    Raises BadRequest (no such bundle, no such device name) or NotAvailable (with every reason).
    """
    check_device_name(device)
    on_emulator = device.startswith("emulator")
    faults = [] if on_emulator else _torch_faults(device)
    try:
        kernels = runtime.load(bundle, device, companion=companion)
    except (NoDriverError, DriverError, MismatchError, runtime.ArchitectureError) as error:
        raise NotAvailable([*faults, Fault(f"device {device}", first_line(error))]) from error
    except runtime.BundleLoadError as error:
        raise BadRequest(Fault("", str(error))) from error
    if faults:
        kernels.close()
        raise NotAvailable(faults)
    # What torch calls cuda is HIP in a ROCm build of it.
    number = device.partition(":")[2] or "0"
    return Opened(kernels, HostMemory() if on_emulator else TorchMemory(f"cuda:{number}"))


@contextlib.contextmanager
def forced_on_purpose() -> Iterator[None]:
    """Where every row is forced: the runtime's warning about that would stand between all lines of progress."""
    logger = logging.getLogger("assay.runtime")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _torch_faults(device: str) -> list[Fault]:
    """What keeps torch from holding tensors on the device."""
    where = f"device {device}"
    if importlib.util.find_spec("torch") is None:
        return [Fault(where, "torch is not installed", "", "it holds the tensors there")]
    import torch

    if not torch.cuda.is_available():
        return [Fault(where, f"torch {torch.__version__} sees no GPU")]
    if device.startswith("hip") and torch.version.hip is None:
        return [Fault(where, f"torch {torch.__version__} is no ROCm build")]
    return []


def first_line(error: BaseException) -> str:
    """An error's message without what torch adds below it."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
