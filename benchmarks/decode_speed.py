"""GPU time of decode attention (all kernels of a call together) from bundles, next to others in the same run.

    python benchmarks/decode_speed.py LABEL=BUNDLE [LABEL=BUNDLE …] [--shapes all|long|short] [--out FILE]

Scattered page-size-1 slots, 32 query heads.  'warm': one graph of several calls on the same keys; 'cold': each call of
the graph reads other slots, more than the second-level cache holds.  Next to the bundles: PyTorch's SDPA, which reads
contiguous BF16 keys; the bundle's own sources under Triton's JIT as installed here; FlashInfer where it is installed;
and, for the larger shapes, the gather, which reads the same rows and nothing else.  Every output is compared with FP64
attention before it is timed; a wrong one is not timed and fails the run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import sys
from pathlib import Path
from typing import Any

import candidates
import peers
import protocol
import torch
from candidates import Candidates
from gpu import Inputs, Shape, make_inputs, measure, read_bandwidth

import assay.runtime

SCHEMA = "assay.benchmark.decode/2"
SHAPES = {
    "long": [Shape(8, 32768, 32, 4, 128), Shape(8, 32768, 32, 8, 128)],
    "batches": [
        Shape(1, 8192, 32, 4, 128), Shape(1, 8192, 32, 8, 128), Shape(1, 32768, 32, 4, 128),
        Shape(1, 32768, 32, 8, 128), Shape(32, 8192, 32, 4, 128), Shape(32, 8192, 32, 8, 128),
    ],
    "many": [Shape(40, 2048, 32, 4, 128), Shape(64, 1024, 32, 8, 128), Shape(128, 1024, 32, 4, 128)],
    "short": [
        Shape(1, 512, 32, 4, 128), Shape(8, 512, 32, 4, 128), Shape(32, 512, 32, 4, 128), Shape(128, 256, 32, 4, 128),
    ],
    "wide": [
        Shape(1, 8192, 32, 4, 256), Shape(8, 8192, 32, 4, 256), Shape(8, 512, 32, 4, 256), Shape(8, 8192, 32, 4, 64),
    ],
}  # fmt: skip
# Elsewhere the keys are too few for reading them to be what takes the time.
GATHERED = ("long", "batches")
# More than the second-level cache of any card this runs on.
_CACHE_BYTES = 128 << 20
_MOST_COPIES = 16


def main() -> int:
    """Measure, print a table, write the figures; 1 if any result was wrong."""
    options = _parser().parse_args()
    bundles = dict(item.split("=", 1) for item in options.bundles)
    names = list(SHAPES) if options.shapes == "all" else options.shapes.split(",")
    kernels = {label: assay.runtime.load(path, device="cuda:0") for label, path in bundles.items()}
    document = _document(kernels, options)
    # The gate is on file before anything is measured, and a run that is cut short keeps what it has.
    _write(document, options.out)
    bandwidth = document["read_bandwidth_bytes_per_second"] = read_bandwidth()
    print(f"{document['device']}: read bandwidth {bandwidth / 1e12:.3f} TB/s; {_beside(document)}", flush=True)
    for name in names:
        for shape in SHAPES[name]:
            document["rows"] += _shape(shape, kernels, options, document, gathered=name in GATHERED)
            _write(document, options.out)
    document["complete"] = True
    _write(document, options.out)
    return int(any(row.get("wrong") for row in document["rows"]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundles", nargs="+", metavar="LABEL=BUNDLE")
    parser.add_argument("--shapes", default="all", help=f"all, or some of {', '.join(SHAPES)}, separated by commas")
    protocol.add_options(parser, rounds=9)
    parser.add_argument("--splits", type=lambda text: [int(n) for n in text.split(",")], default=[])
    parser.add_argument("--formats", default="bf16,fp8")
    parser.add_argument("--stages", action="store_true", help="time each stage by itself too")
    parser.add_argument("--no-jit", dest="jit", action="store_false", help="leave out the sources under Triton's JIT")
    parser.add_argument("--no-gather", dest="gather", action="store_false", help="leave out reading the rows alone")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="do not look for other decode kernels")
    parser.add_argument("--out", type=Path)
    return parser


def _document(kernels: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Everything but what is measured.  peers: None where they were not looked for."""
    looked = {"looked_for": list(peers.PEERS), "installed": peers.installed()} if options.peers else None
    return {
        "schema": SCHEMA,
        "protocol": protocol.declared(options.rounds, options.seed),
        "complete": False,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": _triton_version(),
        "python": platform.python_version(),
        "peers": looked,
        "bundles": {label: loaded.identity for label, loaded in kernels.items()},
        "driver": next(iter(kernels.values())).driver.describe(),
        "rows": [],
    }


def _triton_version() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return None
    return str(importlib.import_module("triton").__version__)


def _beside(document: dict[str, Any]) -> str:
    found = document["peers"]
    there = [f"{name} {version}" for name, version in found["installed"].items()] if found else []
    others = "not looked for" if found is None else ", ".join(there) or "none installed"
    return f"torch {document['torch']}; JIT: Triton {document['triton'] or 'not installed'}; other kernels: {others}"


def _write(document: dict[str, Any], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(document, indent=1) + "\n")


def _shape(
    shape: Shape, kernels: dict[str, Any], options: argparse.Namespace, document: dict[str, Any], *, gathered: bool
) -> list[dict[str, Any]]:
    """All candidates of one shape, timed by the protocol."""
    print(f"\n{shape}", flush=True)
    found = Candidates(shape)
    candidates.add_sdpa(found)
    for kv_format in options.formats.split(","):
        inputs = _inputs(shape, fp8=kv_format == "fp8")
        for label, loaded in kernels.items():
            _add_bundle(found, label, loaded, inputs, options)
        if kv_format == "bf16" and document["peers"] and "flashinfer" in document["peers"]["installed"]:
            candidates.add_flashinfer(found, inputs)
        if gathered and options.gather:
            candidates.add_gather(found, inputs)
    results = measure(found.timed, options.rounds, options.seed)
    _print(results, found.facts, document["read_bandwidth_bytes_per_second"])
    timed = [{"shape": str(shape), "name": name, **found.facts[name], **result} for name, result in results.items()]
    return found.left_out + timed


def _inputs(shape: Shape, *, fp8: bool) -> Inputs:
    size = shape.cache_bytes(fp8=fp8)
    copies = max(2, min(_MOST_COPIES, -(-_CACHE_BYTES // size) + 1))
    return make_inputs(shape, fp8=fp8, copies=copies)


def _add_bundle(found: Candidates, label: str, loaded: Any, inputs: Inputs, options: argparse.Namespace) -> None:
    """A bundle's kernels, at the splits asked for too; and the JIT's at those chosen by default."""
    covered = candidates.add_bundle(found, label, loaded, inputs, splits=None, stages=options.stages)
    if not covered:
        return
    if options.jit:
        candidates.add_jit(found, label, loaded, inputs)
    for splits in options.splits:
        candidates.add_bundle(found, label, loaded, inputs, splits=splits, stages=options.stages)


def _print(results: dict[str, Any], facts: dict[str, Any], bandwidth: float) -> None:
    sdpa = results["sdpa"]["median_us"]
    for name, result in results.items():
        us = result["median_us"]
        size = facts[name].get("cache_bytes")
        share = f"{100 * size / (us * 1e-6) / bandwidth:5.1f} % of bandwidth" if size else " " * 20
        print(f"  {name:34s} {us:9.1f} µs  {share}  {sdpa / us:5.2f} x SDPA{protocol.mark(result)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
