"""What one `assay emulate` was asked for, and the errors that end it before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.bundle import FaultsError

# What the emulator imports, {module: package}.
NEEDED = {"numpy": "numpy", "tinygrad": "tinygrad"}
# Checks that `--check-off` leaves out, by their names in assay.emulator.Checks.
CHECKS = ("bounds", "undefined", "in_flight", "barriers", "races", "alignment")


class EmulateError(FaultsError):
    """No gfx12 HSACO, or a launch, an argument or an expectation that does not fit it; exit status 2."""


@dataclass(frozen=True, slots=True)
class EmulateRequest:
    """The options as they were given.  grid: workgroups by axis.  warps: waves a workgroup.  lds_bytes: at launch.

    arguments: each `--arg`.  expect: (buffer, file).  max_steps: None for the emulator's own limit.
    """

    file: Path
    kernel: str | None = None
    grid: tuple[int, ...] | None = None
    warps: int | None = None
    lds_bytes: int = 0
    arguments: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    checks_off: tuple[str, ...] = ()
    max_steps: int | None = None
    save: Path | None = None
    expect: tuple[tuple[str, Path], ...] = ()
    atol: float = 0.0
    rtol: float = 0.0
