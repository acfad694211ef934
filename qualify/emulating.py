"""The level `emulated`: a variant's code object, executed by the emulator in worker processes."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any

from assay.bundle import Fault
from assay.codegen.records import Outcome, Variant
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.objects.amd_chips import RDNA4

from .executing import (
    EvidenceError,
    Level,
    call_request,
    cannot_import,
    hash_of_sources,
    missing_packages,
    missing_references,
)

_NEEDED = {"numpy": "numpy", "tinygrad": "tinygrad"}


def require_emulation(target: TargetFile, families: list[str]) -> None:
    """Raises EvidenceError when variants of the target and families cannot be emulated on this machine."""
    faults = []
    if target.backend != "hip" or target.arch not in RDNA4:
        given = f"{target.backend} {target.arch} has no emulator"
        hint = "ask for --evidence static, or interpreted, which runs the kernels' source"
        faults.append(Fault(f"evidence emulated on {target.target}", given, f"targets of {', '.join(RDNA4)}", hint))
    faults += missing_packages("emulated", _NEEDED, "emulate")
    faults += missing_references("emulated", families)
    if faults:
        raise EvidenceError(faults)


def emulation_request(variant: Variant, outcome: Outcome, family: FamilyFile) -> dict[str, Any]:
    """The fields of emulation.EmulationRequest for a compiled variant."""
    return {
        **call_request(variant, family),
        "code": outcome.code,
        "symbol": outcome.symbol,
        "num_warps": variant.request.num_warps,
        "lds_bytes": outcome.shared_bytes or 0,
    }


@functools.cache
def judged_by() -> dict[str, str]:
    """The decoder's tables, numpy, and a hash of the sources of object reader, emulator, references and comparison."""
    packages = ("assay.objects", "assay.emulator", "assay.reference")
    versions = {name: importlib.metadata.version(name) for name in ("tinygrad", "numpy")}
    return {**versions, "sources": hash_of_sources(packages, ("emulation", "case_runs", "executing"))}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """In the worker: only there the emulator is imported."""
    try:
        from .emulation import emulate_in_worker
    except ImportError as error:
        raise cannot_import("emulated", error) from None

    return emulate_in_worker(request)


EMULATED = Level("emulated", "emulator", emulation_request, judged_by, _run)
