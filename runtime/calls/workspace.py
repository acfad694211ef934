"""Where a decode call's partial results lie in its workspace.

One after the other: partial outputs [batch, rows, q_heads, splits, head_dim] FP32, their LSEs [batch, rows, q_heads,
splits] FP32, the merged LSE [batch, rows, q_heads] FP32; what the caller gives buffers for takes no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from assay.bundle.faults import Fault
from assay.bundle.record import Record

from ..errors import ArgumentError
from ..tensors import TensorView, contiguous_strides

_F32 = 4
_ALIGNMENT = 16
# An address for what is not there yet, divisible by whatever a row may ask for.
ANY_ADDRESS = 1 << 20


def workspace_bytes(*, batch: int, rows: int, q_heads: int, head_dim: int, splits: int) -> int:
    """Bytes that a call needs which is given neither partial buffers nor one for the LSE."""
    return _F32 * batch * rows * q_heads * (splits * (head_dim + 1) + 1)


class Parts(Record):
    """Offsets into the workspace in bytes; -1 where the caller gave a buffer.  size: bytes needed."""

    __slots__ = ()

    shape: tuple[int, int, int, int, int]
    partial_out: int
    partial_lse: int
    lse: int
    size: int

    @classmethod
    def of(cls, shape: tuple[int, int, int, int, int], given: Mapping[str, TensorView]) -> Self:
        """shape: [batch, rows, q_heads, splits, head_dim].  given: the call's tensors."""
        batch, queries, q_heads, splits, head_dim = shape
        rows = batch * queries * q_heads
        at, offsets = 0, {}
        for name, size in (("partial_out", rows * splits * head_dim), ("partial_lse", rows * splits), ("lse", rows)):
            offsets[name] = -1 if name in given else at
            at += 0 if name in given else _F32 * size
        return cls(shape, offsets["partial_out"], offsets["partial_lse"], offsets["lse"], at)

    def views(self, base: int, device: tuple[str, int]) -> dict[str, TensorView]:
        """The parts that lie in the workspace, for one at address `base`."""
        shapes = {"partial_out": self.shape, "partial_lse": self.shape[:4], "lse": self.shape[:3]}
        offsets = {"partial_out": self.partial_out, "partial_lse": self.partial_lse, "lse": self.lse}
        return {
            name: TensorView(base + offset, "f32", shapes[name], contiguous_strides(shapes[name]), device)
            for name, offset in offsets.items()
            if offset >= 0
        }

    def check(self, workspace: TensorView) -> None:
        """Whether a caller's workspace is dense, aligned and large enough.  Raises ArgumentError."""
        faults = []
        given = workspace.extent_bytes
        if 0 not in workspace.shape and workspace.strides != contiguous_strides(workspace.shape):
            faults.append(Fault("workspace", f"strides {list(workspace.strides)}", "a contiguous tensor"))
        if given < self.size:
            batch, rows, q_heads, splits, head_dim = self.shape
            queries = f" of {rows} queries" if rows > 1 else ""
            why = f"for {batch} requests{queries}, {q_heads} heads, {splits} splits, head_dim {head_dim}"
            faults.append(Fault("workspace", f"{given} bytes", f"at least {self.size} bytes {why}"))
        if workspace.address % _ALIGNMENT:
            faults.append(Fault("workspace", f"address {workspace.address:#x}", f"a multiple of {_ALIGNMENT} bytes"))
        if workspace.read_only:
            faults.append(Fault("workspace", "read-only memory", "memory that can be written"))
        if faults:
            raise ArgumentError(faults)
