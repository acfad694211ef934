"""What binds a row to a call's tensors by its family's contract, and whether the row and the device take those."""

from __future__ import annotations

from collections.abc import Mapping

from assay.bundle.faults import Fault
from assay.bundle.picking import grid_size
from assay.bundle.records import Row

from .contract import Contract
from .drivers.driver import Driver, LaunchGrid, Pointer
from .errors import ArgumentError
from .prepared import Layout
from .tensors import TensorView


def layout_of(contract: Contract, row: Row, views: Mapping[str, TensorView]) -> Layout:
    """The argument block of the row for these tensors."""
    pointers = tuple(
        Pointer(a.name, a.offset, views[a.name].extent_bytes, contract.pointers[a.name].written)
        for a in row.arguments
        if a.kind == "pointer"
    )
    return Layout(row.arguments, contract.scalars, lambda name: contract.number_of(name, views), pointers)


def number_faults(contract: Contract, row: Row, views: Mapping[str, TensorView]) -> list[Fault]:
    """Strides and sizes that the row's own number types cannot hold."""
    faults = []
    for argument in row.arguments:
        if argument.kind == "i32" and argument.name not in contract.scalars:
            value = contract.number_of(argument.name, views)
            if value > 2**31 - 1:
                faults.append(Fault(argument.name, f"{value} elements", "at most 2147483647 for this row"))
    return faults


def grid_of(row: Row, dims: Mapping[str, int], driver: Driver) -> LaunchGrid:
    """The launch grid for a call with these dimensions.  Raises ArgumentError where the device has no such grid."""
    sizes = [grid_size(axis, dims) for axis in row.grid] + [1] * (3 - len(row.grid))
    faults = [
        Fault(f"{row.family}, grid axis {'xyz'[axis]}", f"{size} ({' x '.join(row.grid[axis])})", f"at most {limit}")
        for axis, (size, limit) in enumerate(zip(sizes, driver.grid_limit, strict=True))
        if size > limit
    ]  # fmt: skip
    if faults:
        raise ArgumentError(faults)
    return sizes[0], sizes[1], sizes[2]
