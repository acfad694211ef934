"""GPU time of prefill over a history (extend_attention) from bundles, next to PyTorch's SDPA in the same run.

    python benchmarks/extend_speed.py LABEL=BUNDLE [LABEL=BUNDLE …] [--shapes all|0,2] [--rounds 15] [--out FILE]

Head dimension 128, BF16.  SDPA gets contiguous keys and a lower-right causal mask; each of its backends is tried with
shared KV heads and with expanded ones.  Every candidate is compared with FP64 attention of a few heads before it is
timed; a wrong one is not timed, and fails the run if it is a bundle's.  Rounds are shuffled, seeded; all samples kept.
'LABEL over FP8' reconstructs the history from a scattered FP8 cache first, as an engine does once a layer.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import protocol
import torch
from gpu import Timed, measure
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

import assay.runtime

SCHEMA = "assay.benchmark.extend/2"
HEAD_DIM = 128
SM_SCALE = HEAD_DIM**-0.5
ABSOLUTE, RELATIVE = 0.002, 0.02
TURNS = 4
SEED = 20
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True)
class Shape:
    """A prefill call: requests, keys before each chunk, new tokens of each, heads."""

    batch: int
    history: int
    chunk: int
    q_heads: int
    kv_heads: int

    def __str__(self) -> str:
        return f"{self.batch} x ({self.history} + {self.chunk}), {self.q_heads} heads over {self.kv_heads}"

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products, of the keys that each query sees."""
        keys = self.chunk * self.history + self.chunk * (self.chunk + 1) // 2
        return 4 * HEAD_DIM * self.q_heads * self.batch * keys


SHAPES = [
    Shape(1, 8192, 2048, 32, 8),
    Shape(1, 8192, 2048, 32, 4),
    Shape(1, 0, 4096, 32, 8),
    Shape(1, 0, 4096, 32, 4),
    Shape(4, 2048, 512, 32, 8),
    Shape(4, 2048, 512, 32, 4),
    Shape(1, 8192, 8192, 32, 8),
]


@dataclass(frozen=True)
class Inputs:
    """q, k, v: [batch, heads, keys, head_dim], q of the chunk alone.  packed: the same as a runtime's call has it."""

    shape: Shape
    q: Any
    k: Any
    v: Any
    packed: dict[str, Any]


def main() -> int:
    """Measure, print a table, write the figures; 1 if a bundle's result was wrong."""
    options = _parser().parse_args()
    bundles = dict(item.split("=", 1) for item in options.bundles)
    shapes = SHAPES if options.shapes == "all" else [SHAPES[int(index)] for index in options.shapes.split(",")]
    kernels = {label: assay.runtime.load(path, device="cuda:0") for label, path in bundles.items()}
    rows = [row for shape in shapes for row in _measured(shape, kernels, options)]
    document = {
        "schema": SCHEMA,
        "protocol": protocol.declared(options.rounds, options.seed),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "bundles": {label: loaded.identity for label, loaded in kernels.items()},
        "driver": next(iter(kernels.values())).driver.describe(),
        "rows": rows,
    }
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(row.get("wrong") and row["name"] in bundles for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundles", nargs="+", metavar="LABEL=BUNDLE")
    parser.add_argument("--shapes", default="all", help="all, or numbers from 0, separated by commas")
    protocol.add_options(parser, rounds=15)
    parser.add_argument("--out", type=Path)
    return parser


def _measured(shape: Shape, kernels: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """All candidates of one shape, checked, then timed in shuffled rounds."""
    inputs = _inputs(shape)
    rows, timed = [], {}
    for name, function in _candidates(inputs, kernels):
        if wrong := _wrong(inputs, function):
            rows.append({"shape": asdict(shape), "name": name, "wrong": wrong})
        else:
            timed[name] = Timed(lambda _, function=function: function(), TURNS)
    for label, loaded in kernels.items():
        if label in timed and shape.history and "kv_reconstruct" in loaded.families():
            timed[f"{label} over FP8"] = Timed(_over_codes(loaded, inputs), TURNS)
    for name, figures in measure(timed, options.rounds, options.seed).items():
        teraflops = shape.operations / figures["median_us"] * 1e-6
        rows.append({"shape": asdict(shape), "name": name, "teraflops": teraflops, **figures})
    _print(shape, rows)
    return rows


def _inputs(shape: Shape) -> Inputs:
    generator = torch.Generator(device="cuda").manual_seed(SEED)

    def rows(heads: int, keys: int) -> Any:
        size = (shape.batch, heads, keys, HEAD_DIM)
        return torch.randn(size, generator=generator, device="cuda", dtype=torch.bfloat16)

    q = rows(shape.q_heads, shape.chunk)
    k, v = (rows(shape.kv_heads, shape.history + shape.chunk) for _ in range(2))
    packed = {"q": _packed(q), "q_indptr": _offsets(shape.batch, shape.chunk)}
    for name, values in (("k", k), ("v", v)):
        packed[f"{name}_new"] = _packed(values[:, :, shape.history :])
        if shape.history:
            packed[f"{name}_hist"] = _packed(values[:, :, : shape.history])
    if shape.history:
        packed["hist_indptr"] = _offsets(shape.batch, shape.history)
    packed["out"] = torch.empty_like(packed["q"])
    packed["lse"] = torch.empty(packed["q"].shape[:2], device="cuda", dtype=torch.float32)
    return Inputs(shape, q, k, v, packed)


def _packed(values: Any) -> Any:
    """[batch, heads, keys, head_dim] to rows [batch * keys, heads, head_dim]."""
    return values.transpose(1, 2).reshape(-1, values.shape[1], HEAD_DIM).contiguous()


def _offsets(batch: int, length: int) -> Any:
    return torch.arange(0, (batch + 1) * length, length, device="cuda", dtype=torch.int32)


def _candidates(inputs: Inputs, kernels: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """By name, functions that give [batch, q_heads, chunk, head_dim]."""
    shape = inputs.shape
    for label, loaded in kernels.items():
        yield label, lambda loaded=loaded: _extend(loaded, inputs)
    mask = causal_lower_right(shape.chunk, shape.history + shape.chunk)
    expanded = [values.repeat_interleave(shape.q_heads // shape.kv_heads, 1) for values in (inputs.k, inputs.v)]
    for name, backend in BACKENDS.items():
        for keys, (k, v) in {"shared": (inputs.k, inputs.v), "expanded": expanded}.items():
            yield f"sdpa {name} {keys}", lambda b=backend, k=k, v=v: _sdpa(b, inputs.q, k, v, mask)


def _extend(loaded: Any, inputs: Inputs) -> Any:
    given = dict(inputs.packed)
    required = [given.pop(name) for name in ("q", "k_new", "v_new", "q_indptr")]
    out = loaded.extend_attention(*required, SM_SCALE, max_chunk=inputs.shape.chunk, **given)
    return out.view(inputs.shape.batch, inputs.shape.chunk, inputs.shape.q_heads, HEAD_DIM).transpose(1, 2)


def _over_codes(loaded: Any, inputs: Inputs) -> Callable[[int], Any]:
    """The same call behind the reconstruction of its history from a cache of E4M3FN codes over scattered slots."""
    history = {name: inputs.packed[f"{name}_hist"] for name in "kv"}
    rows, heads, _ = history["k"].shape
    generator = torch.Generator(device="cuda").manual_seed(SEED)
    slots = torch.randperm(rows, generator=generator, device="cuda").to(torch.int32)
    cache = {f"{name}_cache": torch.zeros(rows, heads, HEAD_DIM, device="cuda", dtype=torch.uint8) for name in "kv"}
    cache |= {f"{name}_scale": torch.zeros(rows, heads, device="cuda") for name in "kv"}
    loaded.kv_store(**history, slots=slots, **cache)
    workspace = {name: torch.empty_like(values) for name, values in history.items()}
    packed = {**inputs.packed, **{f"{name}_hist": values for name, values in workspace.items()}}
    again = replace(inputs, packed=packed)

    def call(_: int) -> Any:
        loaded.kv_reconstruct(**cache, slots=slots, **{f"{name}_out": values for name, values in workspace.items()})
        return _extend(loaded, again)

    return call


def _sdpa(backend: SDPBackend, q: Any, k: Any, v: Any, mask: Any) -> Any:
    with sdpa_kernel([backend]):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=k.shape[1] != q.shape[1])


def _wrong(inputs: Inputs, function: Callable[[], Any]) -> str:
    """What is wrong with a candidate's result; '' if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = function()
        torch.cuda.synchronize()
    except (RuntimeError, TypeError, ValueError, assay.runtime.AssayRuntimeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    for request, head in {(0, 0), (inputs.shape.batch - 1, inputs.shape.q_heads - 1)}:
        wanted = _reference(inputs, request, head)
        error = (out[request, head].double() - wanted).abs()
        # The comparison is false for NaN.
        if not bool((error <= ABSOLUTE + RELATIVE * wanted.abs()).all()):
            return f"request {request}, head {head}: off by {float(error.max()):.3g}"
    return ""


def _reference(inputs: Inputs, request: int, head: int) -> Any:
    """FP64 attention of one head of one request, [chunk, head_dim]."""
    shape = inputs.shape
    kv_head = head // (shape.q_heads // shape.kv_heads)
    scores = inputs.q[request, head].double() @ inputs.k[request, kv_head].double().T * SM_SCALE
    seen = torch.ones_like(scores, dtype=torch.bool).tril(shape.history)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
    return weights @ inputs.v[request, kv_head].double()


def _print(shape: Shape, rows: list[dict[str, Any]]) -> None:
    print(f"\n{shape}", flush=True)
    fastest = min(
        (row["median_us"] for row in rows if row["name"].startswith("sdpa") and "wrong" not in row), default=0
    )
    for row in rows:
        if "wrong" in row:
            print(f"  {row['name']:28s} not timed: {row['wrong']}", flush=True)
            continue
        us = row["median_us"]
        said = f"{us:9.1f} µs  {row['teraflops']:6.1f} TFLOP/s  {fastest / us:5.2f} x the fastest SDPA"
        print(f"  {row['name']:28s} {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
