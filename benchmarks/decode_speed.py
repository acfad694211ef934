"""GPU time of decode attention (stage 1 and merge together) from bundles, next to PyTorch's SDPA in the same run.

    python benchmarks/decode_speed.py LABEL=BUNDLE [LABEL=BUNDLE …] [--shapes all|long|short] [--out FILE]

Scattered page-size-1 slots, 32 query heads.  'warm': one graph of several calls on the same keys; 'cold': each call of
the graph reads other slots, more than the second-level cache holds.  SDPA reads contiguous BF16 keys.  Every result is
compared with FP64 attention before it is timed; a wrong one is not timed and fails the run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from gpu import Inputs, Shape, Timed, make_inputs, measure, read_bandwidth, reference

import assay.runtime

SCHEMA = "assay.benchmark.decode/1"
ABSOLUTE, RELATIVE = 0.002, 0.02
SHAPES = {
    "long": [Shape(8, 32768, 32, 4, 128), Shape(8, 32768, 32, 8, 128)],
    "batches": [
        Shape(1, 8192, 32, 4, 128), Shape(1, 8192, 32, 8, 128), Shape(1, 32768, 32, 4, 128),
        Shape(1, 32768, 32, 8, 128), Shape(32, 8192, 32, 4, 128), Shape(32, 8192, 32, 8, 128),
    ],
    "short": [Shape(1, 512, 32, 4, 128), Shape(8, 512, 32, 4, 128), Shape(32, 512, 32, 4, 128)],
    "wide": [
        Shape(1, 8192, 32, 4, 256), Shape(8, 8192, 32, 4, 256), Shape(8, 512, 32, 4, 256), Shape(8, 8192, 32, 4, 64),
    ],
}  # fmt: skip
TURNS = 8
NOT_COVERED = "no row of this bundle"
# More than the second-level cache of any card this runs on.
_CACHE_BYTES = 128 << 20
_MOST_COPIES = 16


def main() -> int:
    """Measure, print a table, write the figures; 1 if any result was wrong."""
    options = _parser().parse_args()
    bundles = dict(item.split("=", 1) for item in options.bundles)
    names = list(SHAPES) if options.shapes == "all" else options.shapes.split(",")
    bandwidth = read_bandwidth()
    print(f"{torch.cuda.get_device_name()}: read bandwidth {bandwidth / 1e12:.3f} TB/s", flush=True)
    kernels = {label: assay.runtime.load(path, device="cuda:0") for label, path in bundles.items()}
    rows = [row for name in names for shape in SHAPES[name] for row in _shape(shape, kernels, options, bandwidth)]
    document = {
        "schema": SCHEMA,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "bundles": {label: loaded.identity for label, loaded in kernels.items()},
        "driver": next(iter(kernels.values())).driver.describe(),
        "read_bandwidth_bytes_per_second": bandwidth,
        "rows": rows,
    }
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(row.get("wrong") for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundles", nargs="+", metavar="LABEL=BUNDLE")
    parser.add_argument("--shapes", default="all", help=f"all, or some of {', '.join(SHAPES)}, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--splits", type=lambda text: [int(n) for n in text.split(",")], default=[])
    parser.add_argument("--formats", default="bf16,fp8")
    parser.add_argument("--stages", action="store_true", help="time each stage by itself too")
    parser.add_argument("--out", type=Path)
    return parser


def _shape(shape: Shape, kernels: dict[str, Any], options: Any, bandwidth: float) -> list[dict[str, Any]]:
    """All candidates of one shape, timed in turns."""
    found: list[dict[str, Any]] = []
    timed: dict[str, Timed] = {"sdpa": Timed(_sdpa(shape), TURNS)}
    facts: dict[str, dict[str, Any]] = {"sdpa": {"format": "bf16", "splits": None}}
    for fp8 in [name == "fp8" for name in options.formats.split(",")]:
        size = shape.cache_bytes(fp8=fp8)
        copies = max(2, min(_MOST_COPIES, -(-_CACHE_BYTES // size) + 1))
        inputs = make_inputs(shape, fp8=fp8, copies=copies)
        for label, loaded in kernels.items():
            for splits in [None, *options.splits]:
                name = f"{label} {'fp8' if fp8 else 'bf16'}" + (f" s{splits}" if splits else "")
                fact = {"label": label, "format": "fp8" if fp8 else "bf16", "splits": splits, "cache_bytes": size}
                plans, error = _plans(loaded, inputs, splits)
                if error == NOT_COVERED:
                    continue
                if error:
                    print(f"  {name}: WRONG: {error}", flush=True)
                    found.append({"shape": str(shape), "name": name, "wrong": error})
                    continue
                ways = {
                    "warm": lambda _, plan=plans[0]: plan.launch(),
                    "cold": lambda turn, plans=plans: plans[turn % len(plans)].launch(),
                }
                if options.stages:
                    ways["stage 1"] = lambda _, start=plans[0].starts[0]: start(_stream())
                    ways["merge"] = lambda _, start=plans[0].starts[1]: start(_stream())
                for way, function in ways.items():
                    timed[f"{name} {way}"] = Timed(function, TURNS)
                    facts[f"{name} {way}"] = fact
        del inputs
    results = measure(timed, options.rounds)
    _print(shape, results, facts, bandwidth)
    return found + [{"shape": str(shape), "name": name, **facts[name], **result} for name, result in results.items()]


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream


def _plans(loaded: Any, inputs: Inputs, splits: int | None) -> tuple[list[Any], str]:
    """A bound call for each copy of the keys, checked; or what is wrong."""
    plans = []
    for copy in range(len(inputs.copies)):
        arguments, scales = inputs.call(copy)
        try:
            plans.append(loaded.plan(*arguments, **scales, num_splits=splits))
        except assay.runtime.NoMatchError:
            return [], NOT_COVERED
    plans[0].launch()
    torch.cuda.synchronize()
    for request in {0, inputs.shape.batch - 1}:
        wanted = reference(inputs, request)
        error = (plans[0].out[request].double() - wanted).abs()
        worst = float((error - RELATIVE * wanted.abs()).max())
        if not worst <= ABSOLUTE:
            return [], f"request {request}: off by {float(error.max()):.3g}"
    return plans, ""


def _sdpa(shape: Shape) -> Any:
    """PyTorch's own attention on contiguous BF16 keys."""
    q = torch.randn(shape.batch, shape.q_heads, 1, shape.head_dim, device="cuda", dtype=torch.bfloat16)
    k, v = (
        torch.randn(shape.batch, shape.kv_heads, shape.keys, shape.head_dim, device="cuda", dtype=torch.bfloat16)
        for _ in range(2)
    )
    return lambda _: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _print(shape: Shape, results: dict[str, Any], facts: dict[str, Any], bandwidth: float) -> None:
    sdpa = results["sdpa"]["median_us"]
    print(f"\n{shape}", flush=True)
    for name, result in results.items():
        us = result["median_us"]
        size = facts[name].get("cache_bytes")
        share = f"{100 * size / (us * 1e-6) / bandwidth:5.1f} % of bandwidth" if size else " " * 20
        print(f"  {name:34s} {us:9.1f} µs  {share}  {sdpa / us:5.2f} x SDPA", flush=True)


if __name__ == "__main__":
    sys.exit(main())
