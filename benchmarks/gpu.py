"""What the GPU benchmarks share: inputs of a serving engine's decode call, and times of captured graphs.

Needs torch with a GPU, and `assay.runtime`; nothing of the toolchain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from protocol import sampled, summary

E4M3FN_LARGEST = 448.0
DEVICE = "cuda"


@dataclass(frozen=True)
class Shape:
    """A decode call: requests, keys of each, heads."""

    batch: int
    keys: int
    q_heads: int
    kv_heads: int
    head_dim: int

    @property
    def gqa(self) -> int:
        return self.q_heads // self.kv_heads

    def __str__(self) -> str:
        return f"{self.batch} x {self.keys}, GQA {self.gqa}, D {self.head_dim}"

    def cache_bytes(self, *, fp8: bool) -> int:
        """Bytes of keys, values and scales that the call must read."""
        row = self.head_dim + 4 if fp8 else 2 * self.head_dim
        return 2 * self.batch * self.keys * self.kv_heads * row


@dataclass
class Inputs:
    """One call's tensors, on the GPU.  copies: index sets over different slots, so that turns do not hit the cache."""

    shape: Shape
    q: Any
    caches: dict[str, Any]
    indptr: Any
    copies: list[Any]
    positions: Any

    @property
    def sm_scale(self) -> float:
        return self.shape.head_dim**-0.5

    def call(self, copy: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of `Kernels.decode_attention`."""
        scales = {name: self.caches[name] for name in ("k_scale", "v_scale") if name in self.caches}
        return (
            self.q, self.caches["k"], self.caches["v"], self.indptr, self.copies[copy], self.positions, self.sm_scale
        ), scales  # fmt: skip


def make_inputs(shape: Shape, *, fp8: bool, copies: int = 1, seed: int = 0) -> Inputs:
    """Scattered page-size-1 slots; `copies` index sets that share no slot."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    nnz = shape.batch * shape.keys
    slots = nnz * copies
    size = (slots, shape.kv_heads, shape.head_dim)
    values = {name: torch.randn(size, generator=generator, device=DEVICE, dtype=torch.bfloat16) for name in "kv"}
    caches: dict[str, Any] = {}
    for name, rows in values.items():
        if fp8:
            caches[name], caches[f"{name}_scale"] = quantised(rows)
        else:
            caches[name] = rows
    order = torch.randperm(slots, generator=generator, device=DEVICE).to(torch.int32)
    lengths = torch.full((shape.batch,), shape.keys, device=DEVICE, dtype=torch.int32)
    indptr = torch.zeros(shape.batch + 1, device=DEVICE, dtype=torch.int32)
    indptr[1:] = torch.cumsum(lengths, 0)
    q = torch.randn(
        (shape.batch, shape.q_heads, shape.head_dim), generator=generator, device=DEVICE, dtype=torch.bfloat16
    )
    sets = [order[copy * nnz : (copy + 1) * nnz].contiguous() for copy in range(copies)]
    return Inputs(shape, q, caches, indptr, sets, lengths.to(torch.int64) - 1)


def quantised(rows: Any) -> tuple[Any, Any]:
    """E4M3FN codes as uint8 and one FP32 scale a (slot, KV head) row."""
    scale = rows.abs().amax(-1).float().clamp_min(1e-12) / E4M3FN_LARGEST
    codes = (rows.float() / scale[..., None]).clamp(-E4M3FN_LARGEST, E4M3FN_LARGEST).to(torch.float8_e4m3fn)
    return codes.view(torch.uint8), scale


def dequantised(inputs: Inputs, name: str) -> Any:
    """A cache in FP32, [slots, kv_heads, head_dim]."""
    rows = inputs.caches[name]
    if f"{name}_scale" not in inputs.caches:
        return rows.float()
    return rows.view(torch.float8_e4m3fn).float() * inputs.caches[f"{name}_scale"][..., None]


def reference(inputs: Inputs, request: int, copy: int = 0) -> Any:
    """Attention of one request in FP64, [q_heads, head_dim]."""
    start, end = (int(inputs.indptr[request + step]) for step in (0, 1))
    slots = inputs.copies[copy][start:end].long()
    k, v = (dequantised_rows(inputs, name, slots) for name in "kv")
    q = inputs.q[request].double()
    heads = torch.arange(q.shape[0], device=q.device) // inputs.shape.gqa
    scores = torch.einsum("hd,nhd->hn", q, k[:, heads]) * inputs.sm_scale
    return torch.einsum("hn,nhd->hd", torch.softmax(scores, -1), v[:, heads])


def dequantised_rows(inputs: Inputs, name: str, slots: Any) -> Any:
    """Rows of a cache in FP64, [keys, kv_heads, head_dim]."""
    rows = inputs.caches[name][slots]
    if f"{name}_scale" not in inputs.caches:
        return rows.double()
    return rows.view(torch.float8_e4m3fn).double() * inputs.caches[f"{name}_scale"][slots][..., None].double()


class Timed:
    """A function captured in a CUDA graph of `turns` calls, timed by events."""

    def __init__(self, function: Callable[[int], None], turns: int):
        # Kept, because the graph works on the memory of the function's tensors.
        self._function = function
        for turn in range(turns):
            function(turn)
        torch.cuda.synchronize()
        self._turns = turns
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for turn in range(turns):
                function(turn)
        self._graph.replay()
        torch.cuda.synchronize()

    def once(self) -> float:
        """Microseconds of one call, over one replay of the graph."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / self._turns


def measure(candidates: dict[str, Timed], rounds: int, seed: int) -> dict[str, dict[str, Any]]:
    """Figures of several candidates by the protocol: shuffled rounds, every sample kept, drift judged."""
    taken = sampled({name: timed.once for name, timed in candidates.items()}, rounds, seed)
    return {name: summary(samples) for name, samples in taken.items()}


def said(error: BaseException) -> str:
    """An error in one line: its kind, and the first and the last line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    return f"{type(error).__name__}: {' … '.join(dict.fromkeys((lines[0], lines[-1])))}"


def read_bandwidth(rounds: int = 7) -> float:
    """Bytes a second of reading much more than the caches hold: the best of a few plain reductions."""
    data = torch.zeros(1 << 31, dtype=torch.uint8, device=DEVICE)
    best = math.inf
    for view in (data.view(torch.float32), data.view(torch.int32), data.view(torch.float32).view(-1, 1 << 20)):
        timed = Timed(lambda _, view=view: view.amax(-1) if view.ndim > 1 else view.amax(), 4)
        best = min(best, *(timed.once() for _ in range(rounds)))
    return data.numel() / (best * 1e-6)
