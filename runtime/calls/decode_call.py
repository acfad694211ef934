"""What a decode call is made of: its tensors, in one order everywhere, its options, and its plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from assay.bundle.record import Record

from ..limits import LARGEST_F32
from ..steering import Steering

if TYPE_CHECKING:
    from ..prepared import Prepared

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
_F32 = 4
# An address for a workspace that is not there yet, divisible by whatever a row may ask for.
ANY_ADDRESS = 1 << 20
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


class Parts:
    """Offsets into the workspace in bytes; -1 where the caller gave a buffer.  size: bytes needed.

    One after the other: partial outputs [batch, rows, q_heads, splits, head_dim] FP32, their LSEs [batch, rows,
    q_heads, splits] FP32, the merged LSE [batch, rows, q_heads] FP32; what the caller gives buffers for takes no room.
    """

    __slots__ = ("lse", "partial_lse", "partial_out", "shape", "size")

    def __init__(self, shape: tuple[int, int, int, int, int], given: Collection[str]):
        """shape: [batch, rows, q_heads, splits, head_dim].  given: the names of the call's tensors."""
        batch, queries, q_heads, splits, head_dim = shape
        rows = batch * queries * q_heads
        at, offsets = 0, {}
        for name, size in (("partial_out", rows * splits * head_dim), ("partial_lse", rows * splits), ("lse", rows)):
            offsets[name] = -1 if name in given else at
            at += 0 if name in given else _F32 * size
        self.shape = shape
        self.partial_out = offsets["partial_out"]
        self.partial_lse = offsets["partial_lse"]
        self.lse = offsets["lse"]
        self.size = at

    def placed(self, base: int) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Address and shape of the parts that lie in the workspace, for one at address `base`."""
        offsets = {"partial_out": self.partial_out, "partial_lse": self.partial_lse, "lse": self.lse}
        shapes = {"partial_out": self.shape, "partial_lse": self.shape[:4], "lse": self.shape[:3]}
        return {name: (base + offset, shapes[name]) for name, offset in offsets.items() if offset >= 0}


class Plan:
    """The kernels for calls of one shape: stage 1 and the merge, or the unsplit one.

    picks: of each kernel, its pointers from a call's addresses.  counts: address of the split counts where the caller
    gives none.  launched: whether a call has been through.  whole: whether the rows of its kernels have all of their
    fields.
    """

    __slots__ = ("_extents", "_index_bytes", "counts", "launched", "parts", "picks", "stages", "whole")

    def __init__(
        self, stages: tuple[Prepared, ...], parts: Parts, counts: int, given: Mapping[str, Any], *, whole: bool
    ):
        """given: views of the call's own tensors."""
        self.whole = whole
        self.stages = stages
        self.parts = parts
        self.counts = counts
        self.launched = False
        self.picks = tuple(_picker(stage.pointer_names) for stage in stages)
        self._extents = [given[name].extent_bytes if name in given else 0 for name in NAMES]
        self._index_bytes = given["indices"].item_bytes

    def extents(self, keys: int) -> list[int]:
        """Bytes of each tensor given, in the order of NAMES; 0: none.  keys: length of `indices`, no part of a plan."""
        extents = self._extents.copy()
        extents[INDICES] = keys * self._index_bytes
        return extents

    def complete(self, addresses: list[int]) -> None:
        """Fill in the addresses of what lies in the workspace, and of the split counts."""
        base, parts = addresses[WORKSPACE], self.parts
        if self.counts:
            addresses[COUNTS] = self.counts
        for at, offset in ((PARTIAL_OUT, parts.partial_out), (PARTIAL_LSE, parts.partial_lse), (LSE, parts.lse)):
            if offset >= 0:
                addresses[at] = base + offset


def _picker(names: Sequence[str]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    return itemgetter(*(NAMES.index(name) for name in names))
