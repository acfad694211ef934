"""Reports of builds made up for tests, as report.json spells them."""

from __future__ import annotations

from typing import Any

from assay.qualify.upgrading.reading import side_of

TOOLCHAIN = {"triton": "0", "triton_wheel_sha256": "0" * 64, "python": "CPython"}
RESOURCES = {"vgpr_count": 100, "sgpr_count": 40, "vgpr_spill_count": 0, "sgpr_spill_count": 0, "code_bytes": 4000}


def chosen(launch=0, *, ir="same", code="same", executed=1000, instructions=100, waves=8, error=0.001, **resources):
    """A chosen variant; executed None: on a target without an emulator."""
    emulation = {"cases": 3, "largest_error": error, "executed_instructions": {"valu": executed}} if executed else None
    return {
        "id": f"variant{launch}",
        "launch": {"block_n": launch, "num_stages": 1, "num_warps": 4},
        "resources": {**RESOURCES, **resources},
        "occupancy": {"waves": waves},
        "emulation": emulation,
        "interpretation": None,
        "machine_code_sha256": code,
        "ir_sha256": ir,
        "instructions": {"v_add_f32": instructions},
    }


def rejected(launch=0, *, ir="same", code="same", spills=20, detail=""):
    """A rejected candidate that spills; spills None: one that did not compile."""
    reason = {"budget": "vgpr_spill_count", "limit": 0, "actual": spills, "detail": detail}
    if spills is None:
        reason = {"budget": "compilation", "limit": "compiled", "actual": "compile error", "detail": detail}
    return {
        "variant": f"variant{launch}",
        "launch": {"block_n": launch, "num_stages": 1, "num_warps": 4},
        "resources": None if spills is None else {**RESOURCES, "vgpr_spill_count": spills},
        "reasons": [reason],
        "machine_code_sha256": code,
        "ir_sha256": ir,
    }


def problem(name, found=None, *before):
    """A problem `width=name`, what was chosen for it, and what was rejected before."""
    return {"family": "scale", "problem": {"width": name}, "chosen": found, "rejected": list(before)}


def side(version, *problems: dict[str, Any], workarounds=None, seconds=10.0, cached=0, target="gfx1201"):
    """One side of an upgrade, read from a report of these problems."""
    report = {
        "toolchain": TOOLCHAIN,
        "build": {"candidates": 4, "from_cache": cached, "compile_seconds": 99.0, "cpu_seconds": seconds},
        "problems": list(problems),
        "workarounds": workarounds,
    }
    return side_of(version, target, report)


def workaround(verdict, plain_executed):
    """A workaround with one comparison, whose plain form lacks the hardware instruction where it is kept."""
    kept = verdict == "keep"
    comparison = {
        "problem": {"width": 64},
        "verdict": verdict,
        "criteria": [{"name": "hardware instruction present", "holds": not kept, "said": "0 of v_cvt"}],
        "workaround": {"executed": 1000},
        "plain": {"executed": plain_executed},
    }
    return {"family": "scale", "name": "packed", "verdict": verdict, "comparisons": [comparison]}
