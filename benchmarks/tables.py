"""Markdown tables of what was measured on a GPU, from the JSON in benchmarks/results.

python benchmarks/tables.py > benchmarks/results/sm90.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def main() -> int:
    """Print the page."""
    decode = json.loads((RESULTS / "decode-sm90.json").read_text())
    launch = json.loads((RESULTS / "launch-sm90.json").read_text())
    evidence = json.loads((RESULTS / "sm90.device.json").read_text())
    print(f"# {decode['device']}: the sm90 bundle\n")
    print("Written by `python benchmarks/tables.py` from the JSON beside it, which has every sample.\n")
    _evidence(evidence)
    _decode(decode)
    _launch(launch)
    return 0


def _evidence(document: dict[str, Any]) -> None:
    variants = document["variants"]
    passed = sum(item["device"] == "pass" for item in variants.values())
    print("## Correctness\n")
    print(
        f"`assay qualify-device`: {document['verdict']}; {passed} of {len(variants)} variants passed every case, each "
        f"launched directly and replayed from a CUDA graph. Bundle {document['bundle']['identity'][:16]}, "
        f"driver {document['device']['kernel_driver_version']}. The raw figures are in `sm90.device.json`, for "
        "`assay attest`.\n"
    )


def _decode(document: dict[str, Any]) -> None:
    bandwidth = document["read_bandwidth_bytes_per_second"]
    print("## Decode, stage 1 and merge together\n")
    rounds = len(document["rows"][0]["samples_us"])
    print(
        f"Microseconds, medians of {rounds} rounds in turns, graphs of several calls; 32 query heads, scattered slots "
        "of page size 1, splits by default. 'cold' calls read other slots than the call before. SDPA is PyTorch "
        f"{document['torch']} on contiguous BF16. Read bandwidth in the same run: {bandwidth / 1e12:.2f} TB/s; the "
        "share is of that, by the bytes of keys, values and scales.\n"
    )
    print("| batch x keys | SDPA | BF16 warm / cold | share | x SDPA | FP8 warm / cold | share | x SDPA | FP8 x BF16 |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for shape in dict.fromkeys(row["shape"] for row in document["rows"]):
        rows = {row["name"]: row for row in document["rows"] if row["shape"] == shape}
        sdpa = rows["sdpa"]["median_us"]
        cells = [_cells(rows, name, sdpa, bandwidth) for name in ("bf16", "fp8")]
        ratio = rows["sm90 bf16 warm"]["median_us"] / rows["sm90 fp8 warm"]["median_us"]
        print(f"| {shape} | {sdpa:.1f} | {cells[0]} | {cells[1]} | {ratio:.2f} |")
    print()


def _cells(rows: dict[str, Any], kv_format: str, sdpa: float, bandwidth: float) -> str:
    warm, cold = (rows[f"sm90 {kv_format} {way}"] for way in ("warm", "cold"))
    share = warm["cache_bytes"] / (warm["median_us"] * 1e-6) / bandwidth
    times = f"{warm['median_us']:.1f} / {cold['median_us']:.1f}"
    return f"{times} | {100 * share:.0f} % | {sdpa / warm['median_us']:.2f}"


def _launch(document: dict[str, Any]) -> None:
    jit = document["host_us"]["jit (2 kernels)"]["median"]
    print("## Host cost\n")
    print(f"Microseconds a call, medians; the JIT is Triton {document['triton']}, on the bundle's own sources.\n")
    print("| way | µs | of the JIT's two kernels |\n|---|--:|--:|")
    for name, figures in document["host_us"].items():
        print(f"| {name} | {figures['median']:.1f} | {figures['median'] / jit:.2f} |")
    print("\n## First result in a fresh process, torch started\n\n| way | ms |\n|---|--:|")
    for name, figures in document["first_call_ms"].items():
        print(f"| {name} | {figures['median']:.1f} |")
    if parts := document.get("first_call_parts_ms"):
        print("\nassay's by part; those below 'synchronize' are within the call:\n\n| part | ms |\n|---|--:|")
        for name, figures in parts.items():
            print(f"| {name} | {figures['median']:.2f} |")
    print(f"\nOpening the bundle takes {document['open_ms']:.2f} ms.")


if __name__ == "__main__":
    sys.exit(main())
