"""What `assay emulate --json` prints."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from assay.emulator import Counters, EmulationError, UnsupportedInstructions
from assay.emulator.counters import SEGMENTS
from assay.emulator.lines import SourceLines

from .buffers import Buffer, Change
from .expectations import Comparison
from .matching import explicit_arguments
from .request import CHECKS
from .running import Emulated
from .traffic import Traffic, traffic_by_kind

SCHEMA = "assay.emulate/1"


def document(done: Emulated) -> dict[str, Any]:
    """Everything that is known of the launch.  `counters`, `steps` and `seconds` are null after a fault.

    JSON has no NaN or infinity: as values of elements they are strings.
    """
    request, kernel, result = done.request, done.kernel, done.result
    return {
        "schema": SCHEMA,
        "file": str(request.file),
        "kernel": kernel.name,
        "arch": kernel.arch,
        "verdict": done.verdict,
        "grid": list(request.grid or ()),
        "warps": request.warps,
        "lds_bytes": request.lds_bytes,
        "checks": {name: name not in request.checks_off for name in CHECKS},
        "arguments": _arguments(done),
        "fault": None if done.fault is None else _fault(done.fault),
        "expectations": [_comparison(item) for item in done.comparisons],
        "buffers": [_buffer(*pair) for pair in zip(done.buffers, done.changes, strict=True)],
        "counters": None if result is None else _counters(result.counters, done.lines),
        "resources": done.resources.to_dict(),
        "occupancy": None if done.occupancy is None else done.occupancy.to_dict(),
        "steps": None if result is None else result.steps,
        "seconds": None if result is None else round(result.seconds, 6),
    }


def _arguments(done: Emulated) -> list[dict[str, Any]]:
    """`given` is null for Triton's scratch pointers that were left out."""
    texts = [*done.request.arguments, *[None] * len(explicit_arguments(done.kernel))]
    names = [*(item.name for item in done.given), *[None] * len(texts)]
    return [
        {"offset": item.offset, "size": item.size, "kind": item.kind, "name": name, "given": text}
        for item, name, text in zip(explicit_arguments(done.kernel), names, texts, strict=False)
    ]


def _fault(fault: EmulationError) -> dict[str, Any]:
    place = fault.place
    unsupported = fault.found if isinstance(fault, UnsupportedInstructions) else ()
    return {
        "error": type(fault).__name__,
        "detail": fault.detail,
        "kernel": place.kernel if place else None,
        "address": place.address if place else None,
        "instruction": place.instruction if place else None,
        "source": (place.source or None) if place else None,
        "unsupported": [asdict(item) for item in unsupported],
    }


def _comparison(item: Comparison) -> dict[str, Any]:
    first = None
    if item.first is not None:
        index, actual, expected = item.first
        first = {"index": list(index), "actual": _finite(actual), "expected": _finite(expected)}
    said = {"name": item.name, "file": item.file, "elements": item.elements, "wrong": item.wrong}
    return {**said, "first": first, "largest_error": item.largest_error}


def _buffer(buffer: Buffer, change: Change) -> dict[str, Any]:
    said = {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.elements.shape)}
    return {**said, "bytes": buffer.elements.nbytes, "writable": buffer.writable, **asdict(change)}


def _counters(counters: Counters, lines: SourceLines) -> dict[str, Any]:
    def with_source(item: Any) -> dict[str, Any]:
        return {**asdict(item), "source": lines.find(item.address) or None}

    return {
        "waves": counters.waves,
        "workgroups": counters.workgroups,
        "executed_instructions": {**counters.instructions, "all": counters.total},
        "memory": {kind: _traffic(traffic) for kind, traffic in traffic_by_kind(counters).items()},
        "memory_instructions": [with_source(item) for item in counters.memory],
        "bank_conflict_cycles": counters.bank_conflict_cycles,
        "lds_instructions": [with_source(item) for item in counters.lds],
    }


def _traffic(traffic: Traffic) -> dict[str, Any]:
    segments = {f"segments_{size}": count for size, count in zip(SEGMENTS, traffic.segments, strict=True)}
    ratios = {f"coalescing_{size}": traffic.coalescing(size) for size in SEGMENTS}
    return {"waves": traffic.waves, "bytes": traffic.bytes, **segments, **ratios}


def _finite(value: int | float) -> int | float | str:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
