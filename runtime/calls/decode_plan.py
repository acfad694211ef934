"""What a decode call of one shape needs: its kernels, bound, and where partial results and split counts lie."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .decode_call import COUNTS, INDICES, LSE, NAMES, PARTIAL_LSE, PARTIAL_OUT, WORKSPACE

if TYPE_CHECKING:
    from ..prepared import Prepared

_F32 = 4
# An address for a workspace that is not there yet, divisible by whatever a row may ask for.
ANY_ADDRESS = 1 << 20


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
