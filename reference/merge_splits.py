"""Merge of split attention, stage 2: cases and the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import NAN_BF16
from .tensors import LSE_LIMITS, Case, dense, spaced

_POISON = np.float32(np.nan)


@dataclass(frozen=True)
class _Shape:
    """What a case varies.

    splits: of each request; width: splits in the workspace; rows: queries of each request.  empty: share of splits
    without keys.  keyless: requests all of whose splits have none.  nan: requests of which the last head's first split
    has an LSE of NaN.  spread: log-sum-exps lie in -spread to spread.  sinks: logits of the first and the last
    head, the others between; used where the problem has sinks.
    """

    name: str
    splits: tuple[int, ...]
    width: int
    heads: int
    rows: int = 1
    empty: float = 0.0
    keyless: tuple[int, ...] = ()
    nan: tuple[int, ...] = ()
    spread: float = 30.0
    sinks: tuple[float, float] = (-3.0, 40.0)
    layout: str = "padded"


_SHAPES = (
    _Shape("one split", (1,), 1, 2, layout="dense"),
    _Shape("a few splits, some empty", (8, 3, 1), 8, 3, empty=0.3),
    _Shape("sixty-four splits, two queries", (64, 40), 64, 2, 2, 0.5),
    _Shape("a hundred and twenty-eight splits", (128,), 128, 2, spread=3.0, sinks=(-1.0, 4.0)),
    _Shape("requests without keys between others", (2, 4, 1, 3), 4, 4, keyless=(1, 2)),
    _Shape(
        "NaN between others, alone and beside splits without keys", (3, 1, 5, 1), 5, 2, keyless=(2, 3), nan=(0, 1, 2)
    ),
    _Shape("all requests without keys", (2, 1), 2, 2, keyless=(0, 1)),
    _Shape("only the last split has keys", (9,), 9, 2, empty=1.0, layout="dense"),
    _Shape("sinks beyond any exponential, three queries", (5, 2), 5, 4, 3, 0.2, sinks=(-300.0, 300.0)),
    _Shape("scores beyond any exponential", (17,), 20, 3, spread=5000.0, sinks=(-5000.0, 5000.0)),
)
# One request, one head, two splits of weights 1 and 3, outputs 0 and 1: three quarters, or 3/5 with a sink of weight 1.
_BY_HAND = "three quarters"
_FULL_SPLITS = (1, 2, 3, 7, 8, 31, 64, 127, 128)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """Calls with random partial results, and one made by hand; with `every`, more split counts and layouts besides.

    No call has more splits than the problem's `most_splits`, where it has that axis.

    Splits without keys hold NaN rows, and so does what lies behind a request's splits.
    """
    shapes = list(_SHAPES)
    if every:
        shapes += [
            _Shape(f"{count} splits, {empty} empty, {layout}", (count, 1), count, 2, empty=empty, layout=layout)
            for count in _FULL_SPLITS
            for empty in (0.0, 0.5, 1.0)
            for layout in ("dense", "padded")
        ]
    return [_by_hand(axes), *(_make(axes, number, shape) for number, shape in enumerate(shapes))]


def _make(axes: Mapping[str, Any], number: int, shape: _Shape) -> Case:
    rng = np.random.default_rng([number, axes["head_dim"]])
    most = axes.get("most_splits", max(shape.splits))
    shape = replace(shape, splits=tuple(min(count, most) for count in shape.splits), width=min(shape.width, most))
    batch, head_dim = len(shape.splits), axes["head_dim"]
    size = (batch, shape.rows, shape.heads, shape.width)
    partial = rng.standard_normal((*size, head_dim)).astype(np.float32)
    lse = rng.uniform(-shape.spread, shape.spread, size).astype(np.float32)
    without = rng.random(lse.shape) < shape.empty
    # Where all are to be empty, the last one is not: that is what `keyless` is for.
    without[np.arange(batch), :, :, np.array(shape.splits) - 1] &= shape.empty < 1
    lse[without] = -np.inf
    lse[list(shape.keyless)] = -np.inf
    lse[list(shape.nan), -1, -1, 0] = np.nan
    sinks = np.linspace(*shape.sinks, shape.heads).astype(np.float32)
    return _case(axes, shape.name, partial, lse, shape.splits, sinks, shape.layout)


def _by_hand(axes: Mapping[str, Any]) -> Case:
    partial = np.zeros((1, 1, 1, 2, axes["head_dim"]), np.float32)
    partial[..., 1, :] = 1
    lse = np.log([[[[1.0, 3.0]]]]).astype(np.float32)
    return _case(axes, _BY_HAND, partial, lse, (2,), np.zeros(1, np.float32), "dense")


def _case(
    axes: Mapping[str, Any],
    name: str,
    partial: NDArray[np.float32],
    lse: NDArray[np.float32],
    splits: tuple[int, ...],
    sinks: NDArray[np.float32],
    layout: str,
) -> Case:
    batch, rows, heads, width, head_dim = partial.shape
    lse[np.broadcast_to(np.arange(width) >= np.array(splits)[:, None, None, None], lse.shape)] = np.nan
    partial[~np.isfinite(lse)] = np.nan
    # Rows of a workspace that is wider than the splits in use, in steps of 16 bytes.
    spread = layout == "padded"
    poison = np.uint16(NAN_BF16) if axes["out_dtype"] == "bf16" else np.float16(np.nan)
    out = np.full((batch, rows, heads, head_dim), poison, poison.dtype)
    tensors = {
        "partial_out": spaced(partial, _POISON, gaps=(16, 12, 8, 4) if spread else (), tail=4),
        "partial_lse": spaced(lse, _POISON, gaps=(4, 3, 2, 1) if spread else (), tail=4),
        "num_kv_splits": dense(np.array(splits, np.int32)),
        "out": spaced(out, poison, gaps=(7, 5, 3) if spread else (), tail=32),
        "lse": spaced(np.full((batch, rows, heads), _POISON), _POISON, gaps=(3, 2, 1) if spread else (), tail=32),
    }
    if axes["sinks"]:
        tensors["sinks"] = dense(sinks)
    dims, facts = {"batch": batch, "rows": rows, "q_heads": heads}, {"sinks": axes["sinks"]}
    return Case(name, tensors, {}, dims, ("out", "lse"), facts, {"lse": LSE_LIMITS})


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Output [batch, rows, q_heads, head_dim] and LSE [batch, rows, q_heads] with the sink; 0 and -inf without keys."""
    partial = case.tensors["partial_out"].view.astype(np.float64)
    lse = case.tensors["partial_lse"].view.astype(np.float64)
    counts = case.tensors["num_kv_splits"].view
    out, merged = np.zeros((*partial.shape[:3], partial.shape[4])), np.full(lse.shape[:3], -np.inf)
    for request, row, head in np.ndindex(merged.shape):
        at = (request, row, head)
        with_keys = [s for s in range(int(counts[request])) if lse[(*at, s)] != -np.inf]
        if not with_keys:
            continue
        weights = lse[at][with_keys]
        terms = [*weights, float(case.tensors["sinks"].view[head])] if case.facts["sinks"] else list(weights)
        with np.errstate(invalid="ignore"):
            merged[at] = np.logaddexp.reduce(terms)
        out[at] = np.exp(weights - merged[at]) @ partial[at][with_keys]
    return {"out": out, "lse": merged}
