"""The kernels that are made wrong, compiled from the shipped specs or from a changed copy of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from assay.codegen.records import Outcome, Variant
from assay.codegen.specs import load_specs
from assay.codegen.worker import compile_in_worker
from assay.qualify.emulating import emulation_request
from assay.qualify.emulation import EmulationRequest
from tests.kernels.running import variant_for
from tests.specs import SHIPPED

# These are rows of gfx1201's core bundle.  The cases have groups below the block, so that heads are masked; a window.
DECODE = {
    "family": "decode_attention",
    "head_dim": 64,
    "block_m": 8,
    "kv_format": "fp8_per_token_head",
    "window": True,
    "alignment": 16,
    "offset_bits": 32,
    "reader": "packed",
}
EXTEND = {"family": "extend_attention", "head_dim": 64, "window": True, "sinks": True, "soft_cap": False}
# Up to eight queries of a request in blocks of 64 query rows, a cap, and integers for codes.
QUERIES = {
    "family": "decode_attention",
    "profile": "full",
    "head_dim": 64,
    "rows": 8,
    "block_m": 64,
    "kv_format": "int8_per_token_head",
    "window": True,
    "soft_cap": True,
    "alignment": 16,
    "offset_bits": 64,
}
UNSPLIT = {
    "family": "decode_attention_unsplit",
    "head_dim": 64,
    "block_m": 8,
    "kv_format": "fp8_per_token_head",
    "window": True,
    "sinks": True,
    "reader": "packed",
}
MERGE = {"family": "merge_splits", "head_dim": 64, "sinks": True, "most_splits": 128}


def compiled(axes: dict[str, Any], specs: Path = SHIPPED) -> tuple[Variant, EmulationRequest]:
    """The first candidate for these axes on gfx1201, and what the emulated gate is asked about its binary.

    Raises RuntimeError with the compiler's words where it does not compile.
    """
    variant = variant_for(target="gfx1201", specs_folder=specs, **axes)
    with tempfile.TemporaryDirectory() as folder:
        outcome = compile_in_worker(variant.request.to_dict(), str(Path(folder) / "scratch"))
    if outcome["status"] != "compiled":
        raise RuntimeError(f"{variant.id}: {outcome['status']}: {outcome['messages']}")
    model = load_specs(specs).families[axes["family"]].model
    return variant, EmulationRequest(**emulation_request(variant, Outcome(**outcome), model))


def sampled(mutations: dict[str, Any]) -> dict[str, Any]:
    """Every third of them, so that CI ends in time; all with ASSAY_EVERY_CONTROL=1."""
    step = 1 if os.environ.get("ASSAY_EVERY_CONTROL") == "1" else 3
    return {name: mutations[name] for name in list(mutations)[::step]}
