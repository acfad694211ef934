"""Running a variant's qualification cases on the emulator: one request in, one verdict out, in a worker process."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from assay import reference
from assay.emulator import EmulationError, Memory, Program
from assay.reference import Case

from .numerics import CaseResult, compare


@dataclass(frozen=True, slots=True)
class EmulationRequest:
    """All that decides a verdict, next to the sources of emulator and references.

    arguments: (name, kind, dtype, pointer that a stride is of, index of its dimension), explicit ones in order.
    grid: the family's, by dimension names.  tolerance: (absolute, relative).
    """

    code: bytes
    symbol: str
    num_warps: int
    lds_bytes: int
    family: str
    axes: dict[str, Any]
    arguments: tuple[tuple[str, str, str, str | None, int | None], ...]
    grid: tuple[tuple[str, ...], ...]
    tolerance: tuple[float, float]
    every_case: bool = False


def emulate_in_worker(request: dict[str, Any]) -> dict[str, Any]:
    """Run every case; returns {cases, instructions, seconds}.  Never raises for what a kernel does."""
    started = time.perf_counter()
    wanted = EmulationRequest(**request)
    executed: Counter[str] = Counter()
    try:
        program = Program.load(wanted.code, where=wanted.family, kernel=wanted.symbol)
    except EmulationError as error:
        return _result([CaseResult("load", None, str(error))], executed, started)
    results = [
        _run_case(program, wanted, case, executed)
        for case in reference.cases(wanted.family, wanted.axes, every=wanted.every_case)
    ]
    return _result(results, executed, started)


def _result(results: list[CaseResult], executed: Counter[str], started: float) -> dict[str, Any]:
    return {
        "cases": [asdict(result) for result in results],
        "instructions": dict(executed),
        "seconds": time.perf_counter() - started,
    }


def _run_case(program: Program, request: EmulationRequest, case: Case, executed: Counter[str]) -> CaseResult:
    expected = reference.expected(request.family, case)
    before = {name: tensor.storage.copy() for name, tensor in case.tensors.items()}
    memory = Memory()
    try:
        result = program.launch(
            grid=[_product(axis, case) for axis in request.grid],
            num_warps=request.num_warps,
            arguments=_arguments(request, case, memory),
            memory=memory,
            lds_bytes=request.lds_bytes,
            count_transactions=False,
        )
    except EmulationError as error:
        return CaseResult(case.name, None, str(error))
    executed.update(result.counters.instructions)
    dtypes = {name: dtype for name, kind, dtype, _, _ in request.arguments if kind == "pointer"}
    return compare(case, dtypes, expected, before, *request.tolerance)


def _product(axis: tuple[str, ...], case: Case) -> int:
    return int(np.prod([case.dims[name] for name in axis], dtype=np.int64))


def _arguments(request: EmulationRequest, case: Case, memory: Memory) -> list[int | float]:
    """The explicit arguments in order; a pointer is the address of its tensor's first element."""
    addresses = {
        name: memory.add(name, tensor.storage, writable=name in case.outputs) + tensor.offset * tensor.storage.itemsize
        for name, tensor in case.tensors.items()
    }
    values: list[int | float] = []
    for name, kind, _, of, dim in request.arguments:
        if kind == "pointer":
            values.append(addresses[name])
        elif kind == "stride":
            values.append(case.tensors[of or ""].strides[dim or 0])
        else:
            values.append(case.scalars[name])
    return values
