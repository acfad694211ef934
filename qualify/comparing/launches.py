"""How a variant of a bundle is started, and whether two are started alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.runtime.contract import Contract

from .records import Built


def same_launch(left: Built, right: Built) -> bool:
    """Whether both are started alike: grid, waves, shared memory and the layout of arguments."""
    one, other = left.row, right.row
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("grid", "num_warps", "wavefront_size", "lds_bytes", "arguments", "hidden_arguments")
    )


def emulation_request(built: Built) -> dict[str, Any]:
    """The fields of emulation.EmulationRequest, from what a bundle says of a variant."""
    contract, axes = Contract(built.row.family, built.contract), dict(built.record.problem)
    explicit = [item.name for item in built.row.arguments if item.kind != "hidden"]
    return {
        "family": built.row.family,
        "axes": axes,
        "arguments": tuple(_argument(contract, name, axes) for name in explicit),
        "grid": tuple(tuple(axis) for axis in built.row.grid),
        "tolerance": (0.0, 0.0),
        "code": built.code,
        "symbol": built.row.symbol,
        "num_warps": built.row.num_warps,
        "lds_bytes": built.row.lds_bytes,
    }


def _argument(contract: Contract, name: str, axes: Mapping[str, Any]) -> tuple[Any, ...]:
    """(name, kind, dtype, of, index of its dimension), as case_runs.CallArgument."""
    if name in contract.pointers:
        return name, "pointer", contract.pointers[name].dtype_for(axes) or "", None, None
    if name in contract.scalars:
        return name, "scalar", contract.scalars[name], None, None
    kind, (of, dim) = ("stride", contract.strides[name]) if name in contract.strides else ("size", contract.sizes[name])
    return name, kind, "", of, contract.pointers[of].shape.index(dim)
