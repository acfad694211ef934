"""A decode call's workspace: what a call needs, what its parts look like, and whether a caller's own will do."""

from __future__ import annotations

from assay.bundle.faults import Fault

from ..errors import ArgumentError
from ..tensors import TensorView
from ..terms import contiguous_strides
from .decode_call import Parts

_ALIGNMENT = 16


def workspace_bytes(*, batch: int, rows: int, q_heads: int, head_dim: int, splits: int) -> int:
    """Bytes that a call needs which is given neither partial buffers nor one for the LSE."""
    return Parts((batch, rows, q_heads, splits, head_dim), ()).size


def part_views(parts: Parts, base: int, device: tuple[str, int]) -> dict[str, TensorView]:
    """The parts that lie in the workspace, for one at address `base`."""
    return {
        name: TensorView(address, "f32", shape, contiguous_strides(shape), device)
        for name, (address, shape) in parts.placed(base).items()
    }


def check_workspace(parts: Parts, workspace: TensorView) -> None:
    """Whether a caller's workspace is dense, aligned and large enough.  Raises ArgumentError."""
    faults = []
    given = workspace.extent_bytes
    if 0 not in workspace.shape and workspace.strides != contiguous_strides(workspace.shape):
        faults.append(Fault("workspace", f"strides {list(workspace.strides)}", "a contiguous tensor"))
    if given < parts.size:
        batch, rows, q_heads, splits, head_dim = parts.shape
        queries = f" of {rows} queries" if rows > 1 else ""
        cut = f"{splits} splits" if splits else "not split"
        why = f"for {batch} requests{queries}, {q_heads} heads, {cut}, head_dim {head_dim}"
        faults.append(Fault("workspace", f"{given} bytes", f"at least {parts.size} bytes {why}"))
    if workspace.address % _ALIGNMENT:
        faults.append(Fault("workspace", f"address {workspace.address:#x}", f"a multiple of {_ALIGNMENT} bytes"))
    if workspace.read_only:
        faults.append(Fault("workspace", "read-only memory", "memory that can be written"))
    if faults:
        raise ArgumentError(faults)
