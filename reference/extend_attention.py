"""Prefill attention over a history and the chunk that extends it: cases and the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .number_formats import NAN_BF16, from_bf16, to_bf16
from .tensors import LSE_LIMITS, Case, Strided, dense, spaced

_POISON = np.float32(np.nan)
# Rows of q, chunk and history that belong to no request: before the first one's and behind the last one's.
_STRANGERS = (3, 5)


@dataclass(frozen=True)
class _Shape:
    """What a case varies.  window, sinks and logit_cap are used where the problem has them.

    histories, chunks: keys before the chunk, and new tokens, of each request.  sinks: logits of the first and the last
    head, the others between.  nan: in one query of the first request, in a history key of the second and in a new key
    of the third.  equal_scores: all of them are 0, and each key's value is one of its own.
    """

    name: str
    histories: tuple[int, ...]
    chunks: tuple[int, ...]
    gqa: int
    kv_heads: int = 1
    window: int = 19
    sinks: tuple[float, float] = (-3.0, 6.0)
    logit_cap: float = 5.0
    sm_scale: float | None = None
    layout: str = "padded"
    nan: bool = False
    equal_scores: bool = False


_CHOSEN = (
    _Shape("one token behind a long history", (517,), (1,), 8, window=300, layout="dense"),
    _Shape("history and chunk, at and off the edges of tiles", (70, 0, 64, 129), (33, 18, 64, 1), 4, window=40),
    _Shape("a chunk of many tiles without a history", (0,), (161,), 2, window=65, layout="dense"),
    # Of what all rows of the last tile see, and of the history below, one key is left over less than a whole tile has.
    _Shape("a key short of another whole tile", (0,), (200,), 1, window=198),
    _Shape("a window of one key", (250, 0), (7, 9), 3, kv_heads=2, window=1),
    _Shape("a window as long as the first query's keys", (64, 31), (34, 2), 6, window=65),
    _Shape("a window longer than any request", (40, 3, 127), (23, 70, 5), 1, kv_heads=3, window=2**31 - 1),
    # As a batch pads them; the rest must be as if they were not there.
    _Shape("requests without tokens between others", (7, 9, 0, 0, 2), (5, 0, 1, 0, 4), 5, window=4),
    _Shape("twelve requests, two of them empty", (1,) * 12, (2, 0, 1, 3, 1, 1, 2, 1, 1, 4, 0, 1), 2, window=2),
    _Shape("no request has tokens", (4, 0), (0, 0), 2),
    _Shape(
        "equal scores, windows a key longer and shorter", (0, 0, 0, 2), (3, 4, 5, 4), 1, window=4, equal_scores=True
    ),
    _Shape("large scores", (90, 17), (20, 3), 4, window=33, sm_scale=64.0, sinks=(-5000.0, 5000.0), logit_cap=50.0),
    _Shape("sinks beyond any exponential", (30, 0), (6, 40), 8, window=9, sinks=(-300.0, 300.0), logit_cap=0.25),
    _Shape("NaN in a query, and in two keys", (20, 33, 3), (9, 8, 40), 2, kv_heads=2, window=16, nan=True),
)
_HISTORIES = (0, 1, 63, 64, 65, 257)
_CHUNKS = (1, 2, 31, 32, 33, 65)
_WINDOWS = (1, 17, 64, 1000)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """About a dozen ragged batches; with `every`, each history x chunk in one batch x window x GQA x layout besides."""
    shapes = list(_CHOSEN)
    if every:
        pairs = [(history, chunk) for history in _HISTORIES for chunk in _CHUNKS]
        histories, chunks = zip(*pairs, strict=True)
        shapes += [
            _Shape(
                f"every length, window {window}, GQA {gqa}, {layout}", histories, chunks, gqa, 1, window, layout=layout
            )
            for window in (_WINDOWS if axes["window"] else _WINDOWS[-1:])
            for gqa, layout in ((1, "dense"), (7, "padded"))
        ]
    return [_make(axes, shape, number) for number, shape in enumerate(shapes)]


def _make(axes: Mapping[str, Any], shape: _Shape, number: int) -> Case:
    rng = np.random.default_rng([number, axes["head_dim"]])
    tokens = sum(_STRANGERS) + sum(shape.chunks)
    contents = {
        "q": rng.standard_normal((tokens, shape.kv_heads * shape.gqa, axes["head_dim"])),
        **_keys_and_values(rng, axes, shape, "new", tokens),
        **_keys_and_values(rng, axes, shape, "hist", sum(_STRANGERS) + sum(shape.histories)),
    }
    if shape.equal_scores:
        contents["q"][:] = 0
    rows = {name: to_bf16(values) for name, values in contents.items()}
    if shape.nan:
        _put_nan(rows, shape)
    for name, values in rows.items():
        values[: _STRANGERS[0]] = values[len(values) - _STRANGERS[1] :] = NAN_BF16
        rows[name] = values
    tensors = {name: _place(values, shape, gap) for gap, (name, values) in enumerate(rows.items(), 1)}
    tensors["q_indptr"] = _offsets(shape.chunks)
    tensors["hist_indptr"] = _offsets(shape.histories)
    tensors |= _outputs(contents["q"].shape, shape)
    if axes["sinks"]:
        tensors["sinks"] = dense(np.linspace(*shape.sinks, shape.kv_heads * shape.gqa).astype(np.float32))
    dims = {"batch": len(shape.chunks), "kv_heads": shape.kv_heads, "max_rows": max(shape.chunks) * shape.gqa}
    return Case(
        shape.name, tensors, _scalars(axes, shape), dims, ("out", "lse"), {"sinks": axes["sinks"]}, {"lse": LSE_LIMITS}
    )


def _keys_and_values(
    rng: np.random.Generator, axes: Mapping[str, Any], shape: _Shape, part: str, rows: int
) -> dict[str, NDArray[np.float64]]:
    """Rows [rows, kv_heads, head_dim].  As large as values of real caches: few keys have weights in BF16 that count."""
    size = (rows, shape.kv_heads, axes["head_dim"])
    values = 0.5 * rng.standard_normal(size)
    if shape.equal_scores:
        values = np.broadcast_to(np.eye(rows, axes["head_dim"])[:, None], size)
    return {f"k_{part}": 0.5 * rng.standard_normal(size), f"v_{part}": values}


def _put_nan(rows: dict[str, NDArray[np.uint16]], shape: _Shape) -> None:
    first = _STRANGERS[0]
    rows["q"][first + 2, -1, 3] = NAN_BF16
    rows["k_hist"][first + shape.histories[0] + 30, -1, 5] = NAN_BF16
    rows["k_new"][first + shape.chunks[0] + shape.chunks[1] + 11, 0, 7] = NAN_BF16


def _place(values: NDArray[np.uint16], shape: _Shape, gap: int) -> Strided:
    """Steps of 16 bytes; gaps differ from tensor to tensor, so that no stride can stand in for another's."""
    if shape.layout == "dense":
        return spaced(values, NAN_BF16, tail=0)
    return spaced(values, NAN_BF16, lead=8, gaps=(16 * gap, 8 * gap), tail=8)


def _offsets(lengths: tuple[int, ...]) -> Strided:
    return dense((_STRANGERS[0] + np.cumsum([0, *lengths])).astype(np.int32))


def _outputs(size: tuple[int, ...], shape: _Shape) -> dict[str, Strided]:
    """Poison everywhere, which must remain where no request's tokens are."""
    gaps = ((), ()) if shape.layout == "dense" else ((24, 8), (3, 2))
    return {
        "out": spaced(np.full(size, NAN_BF16, np.uint16), NAN_BF16, gaps=gaps[0], tail=64),
        "lse": spaced(np.full(size[:2], _POISON), _POISON, gaps=gaps[1], tail=64),
    }


def _scalars(axes: Mapping[str, Any], shape: _Shape) -> dict[str, int | float]:
    scalars: dict[str, int | float] = {"sm_scale": shape.sm_scale or axes["head_dim"] ** -0.5, "gqa": shape.gqa}
    if axes["window"]:
        scalars["window_length"] = shape.window
    if axes["soft_cap"]:
        scalars["logit_cap"] = shape.logit_cap
    return scalars


def expected(case: Case) -> dict[str, NDArray[np.float64]]:
    """Output [tokens, q_heads, head_dim] and LSE [tokens, q_heads], the sink in both; NaN for tokens of no request."""
    q = from_bf16(case.tensors["q"].view)
    rows = {name: from_bf16(case.tensors[name].view) for name in ("k_new", "v_new", "k_hist", "v_hist")}
    q_indptr, hist_indptr = case.tensors["q_indptr"].view, case.tensors["hist_indptr"].view
    out, lse = np.full(q.shape, np.nan), np.full(q.shape[:2], np.nan)
    for request in range(case.dims["batch"]):
        history = slice(hist_indptr[request], hist_indptr[request + 1])
        chunk = slice(q_indptr[request], q_indptr[request + 1])
        k, v = (np.concatenate([rows[f"{name}_hist"][history], rows[f"{name}_new"][chunk]]) for name in "kv")
        for token in range(chunk.start, chunk.stop):
            last = history.stop - history.start + token - chunk.start
            first = max(0, last + 1 - int(case.scalars.get("window_length", last + 1)))
            for head in range(q.shape[1]):
                kv_head = head // int(case.scalars["gqa"])
                scores = _scores(case, k[first : last + 1, kv_head] @ q[token, head])
                terms = [*scores, *([float(case.tensors["sinks"].view[head])] if case.facts["sinks"] else [])]
                with np.errstate(invalid="ignore"):
                    lse[token, head] = np.logaddexp.reduce(terms)
                out[token, head] = np.exp(scores - lse[token, head]) @ v[first : last + 1, kv_head]
    return {"out": out, "lse": lse}


def _scores(case: Case, products: NDArray[np.float64]) -> NDArray[np.float64]:
    scores = float(case.scalars["sm_scale"]) * products
    if "logit_cap" not in case.scalars:
        return scores
    return case.scalars["logit_cap"] * np.tanh(scores / case.scalars["logit_cap"])
