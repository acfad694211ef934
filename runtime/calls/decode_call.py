"""What a decode call is given: its tensors, in one order everywhere, and its options."""

from __future__ import annotations

from typing import Any

from assay.bundle.record import Record

from ..executing import Steering

STAGE_1, MERGE, UNSPLIT = "decode_attention", "merge_splits", "decode_attention_unsplit"


class Inputs(Record):
    """The tensors of a call; None: not given."""

    __slots__ = ()

    q: Any
    k_cache: Any
    v_cache: Any
    k_scale: Any
    v_scale: Any
    indptr: Any
    indices: Any
    q_positions: Any
    num_kv_splits: Any
    sinks: Any
    partial_out: Any
    partial_lse: Any
    out: Any
    lse: Any
    workspace: Any


NAMES = Inputs._fields
STAGE_1_TENSORS = (
    "q", "k_cache", "v_cache", "k_scale", "v_scale", "indptr", "indices", "q_positions", "num_kv_splits",
    "partial_out", "partial_lse",
)  # fmt: skip
MERGE_TENSORS = ("partial_out", "partial_lse", "num_kv_splits", "sinks", "out", "lse")
UNSPLIT_TENSORS = (
    "q", "k_cache", "v_cache", "k_scale", "v_scale", "indptr", "indices", "q_positions", "sinks", "out", "lse",
)  # fmt: skip
REQUIRED = ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")
INDICES, COUNTS, PARTIAL_OUT, PARTIAL_LSE, LSE, WORKSPACE = map(
    NAMES.index, ("indices", "num_kv_splits", "partial_out", "partial_lse", "lse", "workspace")
)

# What the kernels write, the partial results between them included.
WRITTEN = ("partial_out", "partial_lse", "out", "lse", "workspace")
WRITTEN_INDICES = frozenset(map(NAMES.index, WRITTEN))
WRITTEN_BITS = sum(1 << index for index in WRITTEN_INDICES)


class Options(Record):
    """What steers a call apart from its tensors.

    splits: of each request; None: chosen here, or told by a tensor.  logit_cap: the largest magnitude of a score.
    """

    __slots__ = ()

    window: int | None
    logit_cap: float | None
    splits: int | None
    steering: Steering


def numbers(options: Options, sm_scale: float) -> tuple[float, ...]:
    """The scalars of stage 1, in the order of its arguments."""
    given = (sm_scale, options.window, options.logit_cap)
    return tuple(number for number in given if number is not None)
