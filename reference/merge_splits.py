"""Merge of split attention, stage 2: cases and the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import NAN_BF16
from .tensors import Case, dense, padded, poisoned

# (name, splits of each request, splits in the workspace, heads, share of splits without keys)
_SHAPES = (
    ("one split", (1,), 1, 2, 0.0),
    ("a few splits, some empty", (8, 3, 1), 8, 3, 0.3),
    ("sixty-four splits", (64, 40), 64, 2, 0.5),
    ("requests without keys between others", (2, 4, 1, 3), 4, 4, 0.0),
    ("all requests without keys", (2, 1), 2, 2, 1.0),
)
_EMPTY_REQUESTS = {"requests without keys between others": (1, 2)}


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:  # noqa: ARG001 - there is one layout
    """Calls with random partial results; splits without keys hold NaN rows, and so does what lies behind."""
    return [_make(axes, number, *shape) for number, shape in enumerate(_SHAPES)]


def _make(
    axes: Mapping[str, Any], number: int, name: str, splits: tuple[int, ...], width: int, heads: int, empty: float
) -> Case:
    rng = np.random.default_rng([number, axes["head_dim"]])
    batch, head_dim = len(splits), axes["head_dim"]
    partial = rng.standard_normal((batch, heads, width, head_dim)).astype(np.float32)
    lse = rng.uniform(-30, 30, (batch, heads, width)).astype(np.float32)
    lse[rng.random(lse.shape) < empty] = -np.inf
    for request in _EMPTY_REQUESTS.get(name, ()):
        lse[request] = -np.inf
    behind = np.arange(width)[None, None, :] >= np.array(splits)[:, None, None]
    lse = np.where(behind, np.float32(np.nan), lse)
    partial[~np.isfinite(lse)] = np.nan
    # Rows of a workspace that is wider than the splits in use: 4 more floats after each split, 16-byte steps.
    flat = partial.reshape(batch * heads, width, head_dim)
    tensor = padded(flat, lead=0, row=4, plane=8, filler=np.float32(np.nan))
    plane, row, _ = tensor.strides
    tensors = {
        "partial_out": type(tensor)(tensor.storage, 0, (batch, heads, width, head_dim), (heads * plane, plane, row, 1)),
        "partial_lse": dense(lse),
        "num_kv_splits": dense(np.array(splits, np.int32)),
        "out": poisoned((batch, heads, head_dim), np.uint16, NAN_BF16, tail=32),
        "lse": poisoned((batch, heads), np.float32, np.float32(np.nan), tail=32),
    }
    if axes["sinks"]:
        tensors["sinks"] = dense(np.linspace(-3, 40, heads).astype(np.float32))
    return Case(name, tensors, {}, {"batch": batch, "q_heads": heads}, ("out", "lse"), {"sinks": axes["sinks"]})


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Output [batch, q_heads, head_dim] and LSE [batch, q_heads] with the sink in it; 0 and -inf without keys."""
    partial = case.tensors["partial_out"].view.astype(np.float64)
    lse = case.tensors["partial_lse"].view.astype(np.float64)
    counts = case.tensors["num_kv_splits"].view
    batch, heads, _, head_dim = partial.shape
    out, merged = np.zeros((batch, heads, head_dim)), np.full((batch, heads), -np.inf)
    for request in range(batch):
        for head in range(heads):
            with_keys = [s for s in range(int(counts[request])) if lse[request, head, s] != -np.inf]
            if not with_keys:
                continue
            weights = lse[request, head, with_keys]
            terms = [*weights, float(case.tensors["sinks"].view[head])] if case.facts["sinks"] else list(weights)
            merged[request, head] = np.logaddexp.reduce(terms)
            out[request, head] = np.exp(weights - merged[request, head]) @ partial[request, head, with_keys]
    return {"out": out, "lse": merged}
