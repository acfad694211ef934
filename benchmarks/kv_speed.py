"""GPU time of storing and reconstructing cache rows from a bundle, next to a plain copy of as many bytes in that run.

    python benchmarks/kv_speed.py BUNDLE [--rows 65536] [--head-dims 64,128,256] [--rounds 9] [--seed 0] [--out FILE]

A row is one (token, KV head) pair; K and V of all rows are handled in one call, over scattered slots.  Every call of a
graph works on other memory, as every turn of the copy does, so that nothing is in the second-level cache; rounds visit
the candidates in a shuffled order.  Results are compared with torch's conversions, bit for bit, before any is timed;
a wrong one is not timed and fails the run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gpu import Timed, measure

import assay.runtime

SCHEMA = "assay.benchmark.kv/1"
FORMATS = {"bf16": torch.bfloat16, "fp8_per_token_head": torch.uint8, "int8_per_token_head": torch.int8}
LARGEST = {"fp8_per_token_head": 448.0, "int8_per_token_head": 127.0}
KV_HEADS = 8
TURNS = 8


class Rows:
    """New rows and outputs [TURNS, tokens, heads, head_dim], and a cache of as many slots as all turns have tokens."""

    def __init__(self, kv_format: str, rows: int, head_dim: int, seed: int):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        tokens, held = rows // KV_HEADS, FORMATS[kv_format]
        size, cache = (TURNS, tokens, KV_HEADS, head_dim), (TURNS * tokens, KV_HEADS, head_dim)
        self.kv_format = kv_format
        self.new = {
            name: torch.randn(size, generator=generator, device="cuda", dtype=torch.bfloat16) for name in "kv"
        }  # fmt: skip
        self.caches = {f"{name}_cache": torch.zeros(cache, device="cuda", dtype=held) for name in "kv"}
        self.scales = {}
        if kv_format != "bf16":
            self.scales = {f"{name}_scale": torch.zeros(cache[:2], device="cuda") for name in "kv"}
        self.slots = torch.randperm(TURNS * tokens, generator=generator, device="cuda").view(TURNS, tokens)
        self.out = {f"{name}_out": torch.zeros(size, device="cuda", dtype=torch.bfloat16) for name in "kv"}
        # Read and written: BF16 rows one way, cache rows and scales the other, and the list of slots.
        self.bytes = 2 * rows * (head_dim * (2 + held.itemsize) + (4 if self.scales else 0)) + 8 * tokens

    def store(self, kernels: Any, turn: int) -> None:
        new = {name: rows[turn] for name, rows in self.new.items()}
        kernels.kv_store(**new, slots=self.slots[turn], **self.caches, **self.scales)

    def reconstruct(self, kernels: Any, turn: int) -> None:
        out = {name: rows[turn] for name, rows in self.out.items()}
        scales = self.scales or {"k_scale": None, "v_scale": None}
        kernels.kv_reconstruct(**self.caches, **scales, slots=self.slots[turn], **out)

    def quantised(self, name: str) -> tuple[Any, Any]:
        """Codes and scales of the new rows, by torch: IEEE division, multiplication and casts."""
        rows = self.new[name][0].float()
        largest = torch.tensor(LARGEST[self.kv_format], device="cuda")
        magnitude = rows.abs().amax(-1)
        numbers = rows * (largest / magnitude)[..., None]
        if self.kv_format == "int8_per_token_head":
            return numbers.round().clamp(-127, 127).to(torch.int8), magnitude / largest
        return numbers.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8), magnitude / largest

    def wrong(self, kernels: Any) -> str:
        """What one store, and what one reconstruction of it, gave that torch does not; '' where nothing."""
        slots = self.slots[0]
        self.store(kernels, 0)
        self.reconstruct(kernels, 0)
        for name in "kv":
            cache, out = self.caches[f"{name}_cache"][slots], self.out[f"{name}_out"][0]
            if not self.scales:
                if not torch.equal(cache, self.new[name][0]) or not torch.equal(out, self.new[name][0]):
                    return f"{name}_cache or {name}_out"
                continue
            codes, scales = self.quantised(name)
            if not torch.equal(cache, codes) or not torch.equal(self.scales[f"{name}_scale"][slots], scales):
                return f"{name}_cache or its scales"
            codes = codes.view(torch.float8_e4m3fn) if codes.dtype == torch.uint8 else codes
            if not torch.equal(out, (codes.float() * scales[..., None]).to(torch.bfloat16)):
                return f"{name}_out"
        return ""


def main() -> int:
    """Measure, print a table, write the figures; 1 if any result was wrong."""
    options = _parser().parse_args()
    kernels = assay.runtime.load(options.bundle, device="cuda:0")
    kernels.preload(("kv_store", "kv_reconstruct"))
    found = [row for head_dim in options.head_dims for row in _head_dim(kernels, head_dim, options)]
    document = {
        "schema": SCHEMA,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "bundle": kernels.identity,
        "driver": kernels.driver.describe(),
        "rows_each_of_k_and_v": options.rows,
        "kv_heads": KV_HEADS,
        "seed": options.seed,
        "results": found,
    }
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any("wrong" in row for row in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle")
    parser.add_argument("--rows", type=int, default=1 << 16, help="(token, KV head) pairs, each of K and of V")
    parser.add_argument("--head-dims", type=lambda text: [int(n) for n in text.split(",")], default=[64, 128, 256])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return parser


def _head_dim(kernels: Any, head_dim: int, options: Any) -> list[dict[str, Any]]:
    """Every call of one head size, and a copy of as many bytes beside each, in shuffled rounds."""
    found, timed, sizes = [], {}, {}
    for kv_format in FORMATS:
        rows = Rows(kv_format, options.rows, head_dim, options.seed)
        if wrong := rows.wrong(kernels):
            print(f"D {head_dim} {kv_format}: WRONG: {wrong}", flush=True)
            found.append({"head_dim": head_dim, "kv_format": kv_format, "wrong": wrong})
            continue
        calls: dict[str, Callable[[Any, int], None]] = {"kv_store": rows.store, "kv_reconstruct": rows.reconstruct}
        for family, call in calls.items():
            timed[f"{family} {kv_format}"] = Timed(lambda turn, call=call: call(kernels, turn), TURNS)
            timed[f"copy for {family} {kv_format}"] = Timed(_copy(rows.bytes), TURNS)
            sizes[f"{family} {kv_format}"] = rows.bytes
    samples = measure(timed, options.rounds, options.seed)
    print(f"\nD {head_dim}, {options.rows} rows of K and of V", flush=True)
    for name, size in sizes.items():
        mine, copy = samples[name], samples[f"copy for {name}"]
        share = copy["median_us"] / mine["median_us"]
        family, kv_format = name.split(" ", 1)
        found.append(
            {"head_dim": head_dim, "family": family, "kv_format": kv_format, "bytes": size, "share_of_copy": share,
             "call": mine, "copy": copy}
        )  # fmt: skip
        speed = size / mine["median_us"] / 1e6
        print(
            f"  {name:36s} {mine['median_us']:8.1f} µs  {speed:6.2f} TB/s  {100 * share:5.1f} % of the copy", flush=True
        )
    return found


def _copy(size: int) -> Callable[[int], None]:
    """`copy_` that reads half of the bytes and writes as many, each turn elsewhere."""
    half = size // 2
    source, target = (torch.zeros((TURNS, half), device="cuda", dtype=torch.uint8) for _ in range(2))
    return lambda turn: target[turn].copy_(source[turn])


if __name__ == "__main__":
    sys.exit(main())
