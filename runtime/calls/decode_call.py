"""What a decode call is given: its tensors, in one order everywhere, and its options."""

from __future__ import annotations

from typing import Any

from assay.bundle.record import Record

from ..limits import LARGEST_F32
from ..steering import Steering

STAGE_1, MERGE, UNSPLIT = "decode_attention", "merge_splits", "decode_attention_unsplit"
LARGEST_WINDOW = 2**31 - 1
# A capped score errs by 2**-23 of the cap, where an LSE may err by 0.002; models cap at 30 to 50.
SMALLEST_CAP, LARGEST_CAP = 2.0**-20, 2.0**13


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


def numbers_hold(options: Options, sm_scale: Any) -> bool:
    """Whether the numbers that change from call to call are such as a call can have; `decode_checks` says why not."""
    return is_window(options.window) and is_cap(options.logit_cap) and is_scale(sm_scale)


def is_window(window: Any) -> bool:
    """A window is a count of keys, the query's own included; or there is none."""
    return window is None or (type(window) is int and 1 <= window <= LARGEST_WINDOW)


def is_cap(cap: Any) -> bool:
    """A cap is a positive number that FP32 holds; or there is none."""
    # Comparisons take integers of any size, and are false for NaN.
    return cap is None or (_is_number(cap) and SMALLEST_CAP <= cap <= LARGEST_CAP)


def is_scale(sm_scale: Any) -> bool:
    """The scores' factor is a number that FP32 holds."""
    return _is_number(sm_scale) and -LARGEST_F32 <= sm_scale <= LARGEST_F32


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
