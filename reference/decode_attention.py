"""Split-KV decode attention, stage 1: cases and the float64 reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import E4M3FN_NAN, NAN_BF16, e4m3fn_values, finite_e4m3fn_codes, from_bf16, to_bf16
from .tensors import Case, Strided, dense, padded, poisoned

_POISON = np.float32(np.nan)
# A split covers a multiple of this many keys of what its query sees.
SPLIT_GRANULE = 32


@dataclass(frozen=True)
class _Shape:
    """What a case varies.  window is used where the problem has one; layout where its alignment class allows it."""

    name: str
    lengths: tuple[int, ...]
    splits: tuple[int, ...]
    grid_splits: int
    window: int
    kv_heads: int = 1
    layout: str = "dense"
    scales: tuple[float, float] = (1e-4, 5e-3)
    sm_scale: float | None = None


# Chosen pairwise from length class, split count, window class and layout: lengths around tile and granule edges, empty
# and one-key requests among others, splits without keys, windows of one key, odd ones, and larger than all keys.
_CHOSEN = (
    _Shape("one key", (1,), (1,), 1, 1),
    _Shape("seventeen keys, more splits than keys", (17,), (8,), 8, 5, kv_heads=2, layout="padded"),
    _Shape("around the granule", (31, 32, 33), (1, 2, 3), 3, 33, layout="offset"),
    _Shape("empty and one-key requests", (5, 0, 1, 0), (2, 1, 8, 3), 8, 3, kv_heads=2),
    _Shape("tile edges", (63, 64, 65, 127, 129), (1, 1, 2, 2, 1), 3, 64, layout="padded"),
    _Shape("long, eight splits", (513,), (8,), 8, 257, layout="offset"),
    _Shape("long, sixty-four splits with empty ones", (513, 40), (64, 64), 64, 511, layout="padded"),
    _Shape("two thousand keys", (2048,), (16,), 16, 2049),
    _Shape("window empties the first splits", (200, 77), (4, 4), 4, 35, kv_heads=2, layout="offset"),
    _Shape("scales over ten orders of magnitude", (96, 150), (2, 3), 3, 90, scales=(1e-13, 5e-3), layout="padded"),
    _Shape("large scores", (70,), (2,), 2, 70, sm_scale=4.0),
    _Shape("every code", (257,), (3,), 3, 255, kv_heads=1, scales=(1e-3, 1e-3), layout="padded"),
)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """About a dozen calls for a problem; all layouts of each with `every`."""
    shapes = list(_CHOSEN)
    if every:
        layouts = ("dense", "padded", "offset")
        shapes = [replace(shape, layout=layout) for shape in _CHOSEN for layout in layouts]
    return [_make(axes, shape, number) for number, shape in enumerate(shapes)]


def _make(axes: Mapping[str, Any], shape: _Shape, number: int) -> Case:
    rng = np.random.default_rng([number, axes["head_dim"], axes["gqa"]])
    batch, head_dim, kv_heads = len(shape.lengths), axes["head_dim"], shape.kv_heads
    q_heads = kv_heads * axes["gqa"]
    keys = sum(shape.lengths)
    slots = keys + 5
    indices = rng.permutation(slots)[:keys].astype(np.int32)
    quantised = axes["kv_format"] != "bf16"
    tensors = {
        "q": _place(to_bf16(rng.standard_normal((batch, q_heads, head_dim))), axes, shape, NAN_BF16),
        "indptr": dense(np.cumsum([0, *shape.lengths]).astype(np.int32)),
        "indices": _with_tail(indices, slots + 1000),
        "q_positions": dense(np.array(shape.lengths, np.int64) - 1),
        "num_kv_splits": dense(np.array(shape.splits, np.int32)),
        "partial_out": poisoned((batch, q_heads, shape.grid_splits, head_dim), np.float32, _POISON, tail=64),
        "partial_lse": poisoned((batch, q_heads, shape.grid_splits), np.float32, _POISON, tail=64),
    }
    for cache in ("k", "v"):
        rows = _rows(rng, (slots, kv_heads, head_dim), quantised, every_code=shape.name == "every code")
        unused = np.setdiff1d(np.arange(slots), indices)
        rows[unused] = E4M3FN_NAN[0] if quantised else NAN_BF16
        tensors[f"{cache}_cache"] = _place(rows, axes, shape, E4M3FN_NAN[1] if quantised else NAN_BF16)
        if quantised:
            low, high = (math.log10(limit) for limit in shape.scales)
            scale = (10.0 ** rng.uniform(low, high, (slots, kv_heads))).astype(np.float32)
            scale[unused] = np.nan
            tensors[f"{cache}_scale"] = dense(scale)
    scalars: dict[str, int | float] = {"sm_scale": shape.sm_scale or head_dim**-0.5}
    if axes["window"]:
        scalars["window_length"] = shape.window
    dims = {"batch": batch, "kv_heads": kv_heads, "splits": shape.grid_splits}
    return Case(shape.name, tensors, scalars, dims, ("partial_out", "partial_lse"), {"quantised": quantised})


def _rows(rng: np.random.Generator, shape: tuple[int, ...], quantised: bool, *, every_code: bool) -> NDArray[Any]:
    if not quantised:
        # As large as values of real caches: with few keys, weights in BF16 cost up to 2**-9 of |v|, of 0.002 allowed.
        return to_bf16(0.5 * rng.standard_normal(shape))
    if every_code:
        codes = finite_e4m3fn_codes()
        return np.resize(codes, shape)
    return rng.choice(finite_e4m3fn_codes(), shape)


def _place(values: NDArray[Any], axes: Mapping[str, Any], shape: _Shape, filler: int) -> Strided:
    """The layout that the case asks for, as far as the problem's alignment class promises less than it needs."""
    step = max(1, axes["alignment"] // values.itemsize)
    if shape.layout == "dense":
        return dense(values)
    lead = step if shape.layout == "offset" else 0
    return padded(values, lead=lead, row=step, plane=3 * step, filler=filler)


def _with_tail(indices: NDArray[np.int32], beyond: int) -> Strided:
    """Indices with slots behind them that do not exist: using one too many is an access out of bounds."""
    storage = np.concatenate([indices, np.full(64, beyond, np.int32)])
    return Strided(storage, 0, indices.shape, (1,))


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Partial output [batch, q_heads, splits, head_dim] and LSE [batch, q_heads, splits]; 0 and -inf without keys."""
    q = from_bf16(case.tensors["q"].view)
    batch, q_heads, head_dim = q.shape
    kv_heads, grid_splits = case.dims["kv_heads"], case.dims["splits"]
    k, v = (_decode(case, cache) for cache in ("k", "v"))
    indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
    out = np.zeros((batch, q_heads, grid_splits, head_dim))
    lse = np.full((batch, q_heads, grid_splits), -np.inf)
    for request in range(batch):
        slots = indices[indptr[request] : indptr[request + 1]]
        position = int(case.tensors["q_positions"].view[request])
        window = case.scalars.get("window_length", len(slots) + 1)
        visible = slots[max(0, position - int(window) + 1) : position + 1]
        splits = int(case.tensors["num_kv_splits"].view[request])
        size = math.ceil(math.ceil(len(visible) / splits) / SPLIT_GRANULE) * SPLIT_GRANULE
        for split in range(grid_splits):
            chosen = visible[split * size : (split + 1) * size]
            if len(chosen) == 0:
                continue
            for head in range(q_heads):
                kv_head = head * kv_heads // q_heads
                scores = float(case.scalars["sm_scale"]) * (k(chosen, kv_head) @ q[request, head])
                top = scores.max()
                weights = np.exp(scores - top)
                lse[request, head, split] = top + math.log(weights.sum())
                out[request, head, split] = weights @ v(chosen, kv_head) / weights.sum()
    return {"partial_out": out, "partial_lse": lse}


def _decode(case: Case, cache: str) -> Any:
    """Rows [keys, head_dim] in float64 of given slots and a KV head."""
    rows = case.tensors[f"{cache}_cache"].view
    if not case.facts["quantised"]:
        return lambda slots, head: from_bf16(rows[slots, head])
    table, scales = e4m3fn_values(), case.tensors[f"{cache}_scale"].view
    return lambda slots, head: table[rows[slots, head]] * scales[slots, head, None].astype(np.float64)
