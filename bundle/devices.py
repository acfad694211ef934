"""Which targets of a bundle run on a device. Decided before any row is looked at and before any code is loaded.

An architecture is a pair of backend and name: gfx1201 reports capability 12.0, and so does an sm_120, and neither runs
the other's code. The match is exact, because code for a neighbour may run and give wrong numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from .faults import BundleError, Fault, did_you_mean
from .records import BACKENDS, TargetRecord

Device = tuple[str, str]
"""(backend, architecture name), as in ('hip', 'gfx1201')."""


class ArchitectureMismatch(BundleError):
    """The bundle holds no code for this device."""


def matching_targets(targets: Iterable[TargetRecord], device: Device, where: str) -> tuple[TargetRecord, ...]:
    """The targets whose code runs on `device`.

    Raises ArchitectureMismatch naming the device's pair and the bundle's. `where`: the bundle's path, for the message.
    """
    targets = tuple(targets)
    if not _is_pair(device):
        raise ArchitectureMismatch(
            Fault("device", repr(device), "a pair of backend and architecture", "as in ('hip', 'gfx1201')")
        )
    found = tuple(t for t in targets if t.backend == device[0] and device[1] in (t.arch, *t.runs_on))
    if found:
        return found
    held = ", ".join(pair_names(targets))
    raise ArchitectureMismatch(
        Fault(
            f"{where}: device ({device[0]}, {device[1]})",
            "the bundle holds no code for it",
            held,
            _hint(targets, device),
        )
    )


def pair_names(targets: Iterable[TargetRecord]) -> list[str]:
    """`(hip, gfx1201)` for every device that the targets' code runs on, sorted."""
    return sorted({f"({t.backend}, {name})" for t in targets for name in (t.arch, *t.runs_on)})


def _is_pair(device: object) -> bool:
    return isinstance(device, tuple) and len(device) == 2 and all(isinstance(part, str) for part in device)


def _hint(targets: tuple[TargetRecord, ...], device: Device) -> str:
    backend, arch = device
    if backend not in BACKENDS:
        return f"{backend} is not a backend; known: {', '.join(BACKENDS)}; {did_you_mean(backend, BACKENDS)}".rstrip(
            "; "
        )
    bare = arch.lower().split("--")[-1].split(":")[0]
    if any(t.backend == backend and bare == t.arch for t in targets):
        return f"give the architecture alone: {bare}"
    return "code for a neighbouring architecture is never used: build for this one"
