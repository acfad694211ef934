"""What is launched: a case on one kernel, or on the whole decode call, with all that judging it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assay import reference
from assay.bundle import Fault
from assay.reference import Case, attention
from assay.reference.attention import CallShape
from assay.runtime import Kernels
from assay.runtime.calls.decode_call import MERGE, STAGE_1
from assay.runtime.contract import Contract

from .errors import BadRequest

__all__ = ["MERGE", "STAGE_1", "Call", "case_calls", "decode_call", "tolerance_of"]


@dataclass(frozen=True, slots=True)
class Call:
    """Something to launch.  start: given the tensors there, launches and returns the ids of the rows that answered.

    dtypes: of outputs, as the contract names them.  expected: computed when called.  tolerance: (absolute, relative).
    """

    case: Case
    start: Callable[[Mapping[str, Any]], tuple[str, ...]]
    expected: Callable[[], Mapping[str, Any]]
    dtypes: Mapping[str, str]
    tolerance: tuple[float, float]


def tolerance_of(kernels: Kernels, family: str) -> tuple[float, float]:
    """(absolute, relative) as the bundle's contract states them."""
    stated = kernels.contract(family)["tolerance"]
    return float(stated["absolute"]), float(stated["relative"])


def case_calls(
    kernels: Kernels,
    family: str,
    problem: Mapping[str, Any],
    force_row: str | None,
    cases: Iterable[Case] | None = None,
) -> list[Call]:
    """Every chosen case of a problem, or these.  force_row: None leaves the choice to the dispatch.

    Raises NoReference.
    """
    contract = Contract(family, kernels.contract(family))
    # Alignments and sizes are seen on the tensors; what was promised for the row must not stand in for them.
    measured = {pointer.alignment_axis for pointer in contract.pointers.values()}
    measured.update(*(pointer.shape for pointer in contract.pointers.values()))
    known = set(kernels.fields(family)) - measured
    facts = {name: value for name, value in problem.items() if name in known}

    def made(case: Case) -> Call:
        def start(views: Mapping[str, Any]) -> tuple[str, ...]:
            dims = {name: case.dims[name] for name in contract.dimensions}
            return (kernels.launch(family, views, case.scalars, facts, dims=dims, force_row=force_row),)

        dtypes = {name: contract.pointers[name].dtype_for(problem) or "" for name in case.outputs}
        return Call(case, start, lambda: reference.expected(family, case), dtypes, tolerance_of(kernels, family))

    return [made(case) for case in (reference.cases(family, problem) if cases is None else cases)]


def decode_call(kernels: Kernels, shape: CallShape, force_row: str | None = None) -> Call:
    """`kernels.decode_attention` at one size.  Raises BadRequest for a cache format without a reference."""
    if shape.kv_format not in attention.FORMATS:
        raise BadRequest(Fault("kv_format", shape.kv_format, ", ".join(attention.FORMATS)))
    case = attention.call(shape)

    def start(views: Mapping[str, Any]) -> tuple[str, ...]:
        given = dict(views)
        required = [
            given.pop(name) for name in ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")
        ]  # fmt: skip
        before = kernels.usage()
        kernels.decode_attention(
            *required, case.scalars["sm_scale"], sliding_window=shape.window, logit_cap=shape.logit_cap,
            num_splits=shape.splits, force_row=force_row, **given,
        )  # fmt: skip
        return tuple(id for id, count in kernels.usage().items() if count > before.get(id, 0))

    dtypes = {"out": "bf16", "lse": "f32"}
    return Call(case, start, lambda: attention.expected(case), dtypes, tolerance_of(kernels, MERGE))
