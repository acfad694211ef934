"""Decode attention in one kernel: the cases of stage 1, uncut, and the float64 reference of whole calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import attention, decode_attention
from .number_formats import NAN_BF16
from .tensors import LSE_LIMITS, Case, Strided, dense, spaced

_POISON = np.float32(np.nan)
# So far below every score that it takes no weight: for cases whose result must be exact.
_NO_SINK = np.float32(-1e30)
# What stage 1's cases are called whose names speak of splits.
_NAMES = {
    "two thousand keys in sixty-four splits": "two thousand keys",
    "most of sixty-four splits are empty": "a window of one key in five hundred",
    "an odd window that empties the first splits": "an odd window",
}


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """Stage 1's calls of one query a request; what is written is the output and its LSE."""
    return [_unsplit(axes, case, number) for number, case in enumerate(decode_attention.cases(axes, every))]


def _unsplit(axes: Mapping[str, Any], case: Case, number: int) -> Case:
    tensors = {name: tensor for name, tensor in case.tensors.items() if name != "num_kv_splits"}
    partial_out, partial_lse = tensors.pop("partial_out"), tensors.pop("partial_lse")
    size = (*partial_out.shape[:4], partial_out.shape[5])
    # Where stage 1's buffers have gaps, so have these: of whole alignment steps, as the heads' stride is promised too.
    gaps, lse_gaps = (
        ((), ()) if partial_lse.storage.size == np.prod(partial_lse.shape) + 64 else ((16, 8, 0, 8), (3, 2, 0, 1))
    )
    tensors["out"] = spaced(np.full(size, NAN_BF16, np.uint16), np.uint16(NAN_BF16), gaps=gaps, tail=64)
    tensors["lse"] = spaced(np.full(size[:4], _POISON), _POISON, gaps=lse_gaps, tail=64)
    exact = "partial_out" in case.limits
    if axes["sinks"]:
        tensors["sinks"] = _sinks(size, number, exact=exact)
    limits = {name.removeprefix("partial_"): limit for name, limit in case.limits.items()}
    dims = {name: count for name, count in case.dims.items() if name != "splits"}
    facts = {**case.facts, "sinks": axes["sinks"]}
    name, limits = _NAMES.get(case.name, case.name), {"lse": LSE_LIMITS, **limits}
    return replace(case, name=name, tensors=tensors, dims=dims, outputs=("out", "lse"), facts=facts, limits=limits)


def _sinks(size: tuple[int, ...], number: int, *, exact: bool) -> Strided:
    """One logit a query head, [kv_heads, gqa]."""
    heads = size[2:4]
    if exact:
        return dense(np.full(heads, _NO_SINK))
    # From no weight to all of it, in turn: in every third case beyond any exponential.
    limit = (3.0, 40.0, 5000.0)[number % 3]
    return dense(np.linspace(-limit, limit, int(np.prod(heads))).astype(np.float32).reshape(heads))


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Output [batch, rows, kv_heads, gqa, head_dim] and LSE [batch, rows, kv_heads, gqa]; 0 and -inf without keys."""
    q = case.tensors["q"].view
    tensors = {**case.tensors, "q": dense(np.ascontiguousarray(q).reshape(len(q), -1, q.shape[-1]))}
    if "sinks" in tensors:
        tensors["sinks"] = dense(tensors["sinks"].view.reshape(-1))
    whole = attention.expected(replace(case, tensors=tensors))
    return {"out": whole["out"].reshape(q.shape), "lse": whole["lse"].reshape(q.shape[:-1])}
