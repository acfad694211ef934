"""Decode attention as a whole, both stages in one: calls of any size and the float64 reference.

It knows nothing of splits: however a call is cut, the answer is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import E4M3FN_NAN, NAN_BF16, e4m3fn_values, finite_e4m3fn_codes, from_bf16, to_bf16
from .tensors import Case, dense

FORMATS = ("bf16", "fp8_per_token_head")
# Row scales of codes lie this far apart inside one request.
_SCALES = (1e-13, 5e-3)
_SLOTS_UNUSED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """What a call varies.  keys: of each request.  kv_format: one of FORMATS.

    window: keys that a query sees, None for all of them.  splits: None leaves the number to the runtime.
    """

    head_dim: int
    gqa: int
    kv_format: str
    keys: tuple[int, ...]
    kv_heads: int = 1
    window: int | None = None
    sinks: bool = False
    splits: int | None = None
    seed: int = 0

    @property
    def label(self) -> str:
        """Sizes in words."""
        keys = f"{self.keys[0]}" if len(set(self.keys)) == 1 else "/".join(map(str, self.keys))
        said = [f"batch {len(self.keys)}", f"keys {keys}", f"KV heads {self.kv_heads}"]
        said += [f"window {self.window}"] if self.window is not None else []
        said += ["sinks"] if self.sinks else []
        return ", ".join([*said, f"splits {self.splits or 'by default'}"])


def call(shape: CallShape) -> Case:
    """Random inputs over scattered slots, and outputs full of NaN.  Slots that no request lists hold NaN.

    Outputs: out [batch, q_heads, head_dim] BF16, lse [batch, q_heads] FP32.
    """
    rng = np.random.default_rng([shape.seed, shape.head_dim, shape.gqa, *shape.keys])
    batch, keys, q_heads = len(shape.keys), sum(shape.keys), shape.kv_heads * shape.gqa
    slots = keys + _SLOTS_UNUSED
    indices = rng.permutation(slots)[:keys].astype(np.int32)
    unused = np.setdiff1d(np.arange(slots), indices)
    arrays = {
        "q": to_bf16(rng.standard_normal((batch, q_heads, shape.head_dim))),
        **_cache(rng, shape, slots, unused, "k"),
        **_cache(rng, shape, slots, unused, "v"),
        "indptr": np.cumsum([0, *shape.keys]).astype(np.int32),
        "indices": indices,
        "q_positions": np.array(shape.keys, np.int64) - 1,
        "out": np.full((batch, q_heads, shape.head_dim), NAN_BF16, np.uint16),
        "lse": np.full((batch, q_heads), np.nan, np.float32),
    }
    if shape.sinks:
        arrays["sinks"] = rng.uniform(-3, 3, q_heads).astype(np.float32)
    scalars: dict[str, int | float] = {"sm_scale": shape.head_dim**-0.5}
    if shape.window is not None:
        scalars["window_length"] = shape.window
    dims = {"batch": batch, "kv_heads": shape.kv_heads, "q_heads": q_heads}
    if shape.splits is not None:
        dims["splits"] = shape.splits
    tensors = {name: dense(array) for name, array in arrays.items()}
    return Case(shape.label, tensors, scalars, dims, ("out", "lse"), {"quantised": shape.kv_format != "bf16"})


def _cache(
    rng: np.random.Generator, shape: CallShape, slots: int, unused: NDArray[np.integer], name: str
) -> dict[str, NDArray[Any]]:
    """Rows [slots, kv_heads, head_dim], and their scales [slots, kv_heads] where they are codes."""
    size = (slots, shape.kv_heads, shape.head_dim)
    if shape.kv_format == "bf16":
        rows = to_bf16(np.float32(0.5) * rng.standard_normal(size, np.float32))
        rows[unused] = NAN_BF16
        return {f"{name}_cache": rows}
    codes = rng.choice(finite_e4m3fn_codes(), size)
    codes[unused] = E4M3FN_NAN[0]
    scales = (10.0 ** rng.uniform(*map(math.log10, _SCALES), size[:2])).astype(np.float32)
    scales[unused] = np.nan
    return {f"{name}_cache": codes, f"{name}_scale": scales}


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """softmax(sm_scale q K^T) V and its log-sum-exp, the sink's weight in both; 0 and -inf without keys."""
    q = from_bf16(case.tensors["q"].view)
    indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
    k, v = _rows(case, "k"), _rows(case, "v")
    out, lse = np.zeros(q.shape), np.full(q.shape[:2], -np.inf)
    group = q.shape[1] // case.dims["kv_heads"]
    for request in range(q.shape[0]):
        last = int(case.tensors["q_positions"].view[request])
        first = max(0, last + 1 - int(case.scalars.get("window_length", last + 1)))
        slots = indices[indptr[request] : indptr[request + 1]][first : last + 1]
        if len(slots) == 0:
            continue
        for kv_head in range(case.dims["kv_heads"]):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            scores = float(case.scalars["sm_scale"]) * (q[request, heads] @ k(slots, kv_head).T)
            with np.errstate(invalid="ignore"):
                lse[request, heads] = np.logaddexp.reduce(scores, axis=1)
            if "sinks" in case.tensors:
                lse[request, heads] = np.logaddexp(lse[request, heads], case.tensors["sinks"].view[heads])
            out[request, heads] = np.exp(scores - lse[request, heads, None]) @ v(slots, kv_head)
    return {"out": out, "lse": lse}


def _rows(case: Case, cache: str) -> Callable[[NDArray[np.integer], int], NDArray[np.float64]]:
    """Rows [keys, head_dim] of given slots and a KV head, decoded."""
    rows = case.tensors[f"{cache}_cache"].view
    if not case.facts["quantised"]:
        return lambda slots, head: from_bf16(rows[slots, head])
    values, scales = e4m3fn_values(), case.tensors[f"{cache}_scale"].view
    return lambda slots, head: values[rows[slots, head]] * scales[slots, head, None].astype(np.float64)
