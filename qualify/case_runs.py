"""One case of a family's qualification, run by whatever executes it and judged the same way at every level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay import reference
from assay.bundle.picking import grid_size
from assay.reference import Case
from assay.reference.judging import CaseResult, compare

# (name, kind, dtype, pointer that a stride or size is of, index of its dimension)
CallArgument = tuple[str, str, str, str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What calls of a variant look like.  arguments: explicit ones in order.  grid: the row's.

    tolerance: (absolute, relative).
    """

    family: str
    axes: dict[str, Any]
    arguments: tuple[CallArgument, ...]
    grid: tuple[tuple[str, ...], ...]
    tolerance: tuple[float, float]
    every_case: bool = False

    def cases(self) -> list[Case]:
        """The family's cases for these axes."""
        return reference.cases(self.family, self.axes, every=self.every_case)

    def grid_of(self, case: Case) -> tuple[int, ...]:
        """Programs by axis."""
        return tuple(grid_size(axis, case.dims) for axis in self.grid)


def judge_case(request: CallRequest, case: Case, execute: Callable[[], str]) -> CaseResult:
    """`execute` runs the case in place and returns what went wrong, '' where nothing did."""
    expected = reference.expected(request.family, case)
    before = {name: tensor.storage.copy() for name, tensor in case.tensors.items()}
    if fault := execute():
        return CaseResult(case.name, None, fault)
    dtypes = {name: dtype for name, kind, dtype, _, _ in request.arguments if kind == "pointer"}
    return compare(case, dtypes, expected, before, *request.tolerance)


def number_of(argument: CallArgument, case: Case) -> int | float:
    """The value of a stride, size or scalar argument."""
    name, kind, _, of, dim = argument
    if of is None:
        return case.scalars[name]
    tensor = case.tensors[of]
    return (tensor.shape if kind == "size" else tensor.strides)[dim or 0]
