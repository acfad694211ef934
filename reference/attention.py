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

FORMATS = ("bf16", "fp8_per_token_head", "int8_per_token_head")
# Row scales of codes lie this far apart inside one request.
_SCALES = {"k": (1e-13, 5e-3), "v": (1e-13, 1e-3)}
# A cap that scores reach: of caches of either kind they are of the order of 0.5.
CAP = 1.0
# One key in so many, or each where a query sees few, has scales from the upper half.  Were they fewer, or V as large
# for few keys as for many, outputs would be lost in the tolerance, or kernels that round weights would break it.
_HEAVY = 4
_SLOTS_UNUSED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """What a call varies.  keys: of each request.  kv_format: one of FORMATS.

    rows: queries of each request.  window: keys that a query sees, None for all of them.
    logit_cap: None for none.  splits: None leaves the number to the runtime.
    """

    head_dim: int
    gqa: int
    kv_format: str
    keys: tuple[int, ...]
    kv_heads: int = 1
    rows: int = 1
    window: int | None = None
    logit_cap: float | None = None
    sinks: bool = False
    splits: int | None = None
    seed: int = 0

    @property
    def label(self) -> str:
        """Sizes in words."""
        keys = f"{self.keys[0]}" if len(set(self.keys)) == 1 else "/".join(map(str, self.keys))
        said = [f"batch {len(self.keys)}", f"keys {keys}", f"KV heads {self.kv_heads}"]
        said += [f"queries {self.rows}"] if self.rows > 1 else []
        said += [f"window {self.window}"] if self.window is not None else []
        said += [f"cap {self.logit_cap:g}"] if self.logit_cap is not None else []
        said += ["sinks"] if self.sinks else []
        return ", ".join([*said, f"splits {self.splits or 'by default'}"])


def call(shape: CallShape) -> Case:
    """Random inputs over scattered slots, and outputs full of NaN.  Slots that no request lists hold NaN.

    Outputs: out [batch, q_heads, head_dim] BF16, lse [batch, q_heads] FP32; with several queries a request these have
    a dimension more, behind the batch.
    """
    rng = np.random.default_rng([shape.seed, shape.head_dim, shape.gqa, *shape.keys])
    batch, keys, q_heads = len(shape.keys), sum(shape.keys), shape.kv_heads * shape.gqa
    slots = keys + _SLOTS_UNUSED
    indices = rng.permutation(slots)[:keys].astype(np.int32)
    unused = np.setdiff1d(np.arange(slots), indices)
    size = (batch, shape.rows, q_heads, shape.head_dim) if shape.rows > 1 else (batch, q_heads, shape.head_dim)
    last = np.array(shape.keys, np.int64) - 1
    growth, heavy = _weights(shape, slots, indices)
    arrays = {
        "q": to_bf16(rng.standard_normal(size)),
        **_cache(rng, shape, unused, "k", np.ones(slots), heavy),
        **_cache(rng, shape, unused, "v", growth, heavy),
        "indptr": np.cumsum([0, *shape.keys]).astype(np.int32),
        "indices": indices,
        "q_positions": last if shape.rows == 1 else last[:, None] - np.arange(shape.rows - 1, -1, -1),
        "out": np.full(size, NAN_BF16, np.uint16),
        "lse": np.full(size[:-1], np.nan, np.float32),
    }
    if shape.sinks:
        arrays["sinks"] = rng.uniform(-3, 3, q_heads).astype(np.float32)
    scalars: dict[str, int | float] = {"sm_scale": shape.head_dim**-0.5}
    if shape.window is not None:
        scalars["window_length"] = shape.window
    if shape.logit_cap is not None:
        scalars["logit_cap"] = shape.logit_cap
    dims = {"batch": batch, "kv_heads": shape.kv_heads, "q_heads": q_heads}
    if shape.splits is not None:
        dims["splits"] = shape.splits
    tensors = {name: dense(array) for name, array in arrays.items()}
    return Case(shape.label, tensors, scalars, dims, ("out", "lse"), {"kv_format": shape.kv_format})


def _weights(
    shape: CallShape, slots: int, indices: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Of each slot's V: its magnitude, as the square root of the keys that average it out, and whether it is heavy."""
    growth, heavy, first = np.ones(slots), np.zeros(slots, bool), 0
    for keys in shape.keys:
        listed = indices[first : first + keys]
        seen = min(keys, shape.window or keys)
        growth[listed] = math.sqrt(seen)
        heavy[listed[::-1][:: _HEAVY if seen > 2 * _HEAVY else 1]] = True
        first += keys
    return growth, heavy


def _cache(
    rng: np.random.Generator,
    shape: CallShape,
    unused: NDArray[np.integer],
    name: str,
    growth: NDArray[np.float64],
    heavy: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Rows [slots, kv_heads, head_dim], and their scales [slots, kv_heads] where they are codes."""
    size = (len(growth), shape.kv_heads, shape.head_dim)
    if shape.kv_format == "bf16":
        spread = {"k": 0.5, "v": 0.15}[name]
        rows = to_bf16(np.float32(spread) * growth[:, None, None] * rng.standard_normal(size))
        rows[unused] = NAN_BF16
        return {f"{name}_cache": rows}
    if shape.kv_format == "int8_per_token_head":
        codes, poison = rng.integers(-127, 128, size).astype(np.int8), -128
    else:
        codes, poison = rng.choice(finite_e4m3fn_codes(), size), E4M3FN_NAN[0]
    codes[unused] = poison
    low, high = _SCALES[name]
    scales = 10.0 ** rng.uniform(math.log10(low), math.log10(high), size[:2])
    scales = np.where(heavy[:, None], high * rng.uniform(0.5, 1.0, size[:2]), scales)
    scales = (scales * growth[:, None]).astype(np.float32)
    scales[unused] = np.nan
    return {f"{name}_cache": codes, f"{name}_scale": scales}


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """softmax(sm_scale q K^T) V and its log-sum-exp, the sink's weight in both; 0 and -inf without keys."""
    q = from_bf16(case.tensors["q"].view)
    positions = case.tensors["q_positions"].view.reshape(len(q), -1)
    by_row = q.reshape(*positions.shape, *q.shape[-2:])
    out, lse = np.zeros(by_row.shape), np.full(by_row.shape[:-1], -np.inf)
    for request, row in np.ndindex(positions.shape):
        slots = _seen(case, request, int(positions[request, row]))
        if len(slots):
            out[request, row], lse[request, row] = _attend(case, by_row[request, row], slots)
    return {"out": out.reshape(q.shape), "lse": lse.reshape(q.shape[:-1])}


def _seen(case: Case, request: int, position: int) -> NDArray[np.integer]:
    """Slots of the keys that a query at this position sees."""
    indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
    first = max(0, position + 1 - int(case.scalars.get("window_length", position + 1)))
    return indices[indptr[request] : indptr[request + 1]][first : max(0, position + 1)]


def _attend(
    case: Case, q: NDArray[np.float64], slots: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Output [q_heads, head_dim] and LSE [q_heads] of one query."""
    k, v = _rows(case, "k"), _rows(case, "v")
    out, lse = np.zeros(q.shape), np.zeros(q.shape[0])
    group = q.shape[0] // case.dims["kv_heads"]
    for kv_head in range(case.dims["kv_heads"]):
        heads = slice(kv_head * group, (kv_head + 1) * group)
        scores = float(case.scalars["sm_scale"]) * (q[heads] @ k(slots, kv_head).T)
        if "logit_cap" in case.scalars:
            scores = case.scalars["logit_cap"] * np.tanh(scores / case.scalars["logit_cap"])
        with np.errstate(invalid="ignore"):
            lse[heads] = np.logaddexp.reduce(scores, axis=1)
            if "sinks" in case.tensors:
                lse[heads] = np.logaddexp(lse[heads], case.tensors["sinks"].view[heads])
        out[heads] = np.exp(scores - lse[heads, None]) @ v(slots, kv_head)
    return out, lse


def _rows(case: Case, cache: str) -> Callable[[NDArray[np.integer], int], NDArray[np.float64]]:
    """Rows [keys, head_dim] of given slots and a KV head, decoded."""
    rows = case.tensors[f"{cache}_cache"].view
    if case.facts["kv_format"] == "bf16":
        return lambda slots, head: from_bf16(rows[slots, head])
    integers = case.facts["kv_format"] == "int8_per_token_head"
    values, scales = np.arange(256.0) if integers else e4m3fn_values(), case.tensors[f"{cache}_scale"].view
    values[128:] -= 256.0 * integers
    return lambda slots, head: values[rows[slots, head]] * scales[slots, head, None].astype(np.float64)
