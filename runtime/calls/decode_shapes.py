"""A decode call's tensors in the shapes of the kernels' contracts.

Callers leave out what is one: a call with one query a request has no dimension for its queries. The kernels' contracts
have it, and all but the merge have the query heads apart by the KV head that they share.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..tensors import TensorView

# Ranks of a call with several queries a request, which have the queries behind the requests.
_RANKS = {"q": 4, "out": 4, "lse": 3, "q_positions": 2, "partial_out": 5, "partial_lse": 4}
# Where the query heads are then.
HEADS = {"q": 2, "partial_out": 2, "partial_lse": 2, "out": 2, "lse": 2, "sinks": 0}


def with_rows(views: Mapping[str, TensorView]) -> dict[str, TensorView]:
    """Every tensor with a dimension for the queries of a request."""
    return {name: _with_row(view) if len(view.shape) + 1 == _RANKS.get(name) else view for name, view in views.items()}


def by_kv_head(views: Mapping[str, TensorView], kv_heads: int) -> dict[str, TensorView]:
    """What stage 1 and the unsplit kernel take: [.., q_heads, ..] as [.., kv_heads, gqa, ..]."""
    return {name: _split(view, HEADS[name], kv_heads) if name in HEADS else view for name, view in views.items()}


def _with_row(view: TensorView) -> TensorView:
    # A stride over one element is never used.
    return view._replace(shape=(view.shape[0], 1, *view.shape[1:]), strides=(view.strides[0], 1, *view.strides[1:]))


def _split(view: TensorView, axis: int, kv_heads: int) -> TensorView:
    if len(view.shape) <= axis or view.shape[axis] % kv_heads:
        return view
    gqa, stride = view.shape[axis] // kv_heads, view.strides[axis]
    shape = (*view.shape[:axis], kv_heads, gqa, *view.shape[axis + 1 :])
    return view._replace(shape=shape, strides=(*view.strides[:axis], gqa * stride, *view.strides[axis:]))
