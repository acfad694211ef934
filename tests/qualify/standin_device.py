"""A device for tests of `assay qualify-device`: the emulator, introduced as a card, with torch tensors on the CPU.

The command itself refuses the emulator: what runs there is no evidence of a device.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from assay import reference, runtime
from assay.qualify.device import qualifying
from assay.qualify.device.command import Options, qualify_device
from assay.qualify.device.memory import TorchMemory
from assay.qualify.device.opening import Opened

ONE_SIZE = (((9, 0, 40), 1, 2, 7, True),)


class Recorded(TorchMemory):
    """A graph here is a launch that is started again."""

    def __init__(self):
        super().__init__("cpu")

    def capture(self, launch: Callable[[], object]) -> Callable[[], object]:
        return launch


def opener(memory: type[Recorded] = Recorded) -> Callable[[Path, str], Opened]:
    """What opens a bundle on the stand-in."""

    def open_standin(path: Path, _: str) -> Opened:
        kernels = runtime.load(path, "emulator", companion=True)
        told = {"name": "a stand-in", "pci_address": "0000:01:00.0", "driver_version": "7.0"}
        kernels.driver.describe = lambda: told
        return Opened(kernels, memory())

    return open_standin


def shorten(patch, *, cases: int = 2) -> None:
    """Only the smallest cases of each problem, and one whole call a problem."""

    def smallest(family, axes):
        found = real(family, axes)
        return sorted(found, key=lambda case: sum(item.storage.size for item in case.tensors.values()))[:cases]

    real = reference.cases
    patch.setattr("assay.qualify.device.calls.reference", SimpleNamespace(cases=smallest, expected=reference.expected))
    patch.setattr(qualifying, "_SIZES", ONE_SIZE)


def run(bundle: Path, evidence: Path, memory: type[Recorded] = Recorded, **options) -> int:
    """`assay qualify-device BUNDLE --evidence EVIDENCE` on the stand-in; returns the exit status."""
    return qualify_device(Options(bundle=bundle, evidence=evidence, device="hip:0", **options), opener(memory))
