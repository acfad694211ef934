"""Both sides of a pair executed by the emulator on the same cases: one task in, what differs out, in a worker."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from assay.emulator import EmulationError, Program
from assay.reference import Case, NoReference

from ..emulation import EmulationRequest, execute
from .case_sets import made_cases
from .output_bits import first_difference, outcome, told


def compare_in_worker(left: dict[str, Any], right: dict[str, Any], case_set: str) -> dict[str, Any]:
    """left, right: fields of EmulationRequest. Returns {cases, fault, one_sided, difference}.

    The first case that differs ends it. fault: what kept a side from running, '' where nothing did; one_sided: whether
    the other side ran. Never raises for what a kernel does.
    """
    requests = EmulationRequest(**left), EmulationRequest(**right)
    try:
        programs = [Program.load(request.code, where="code", kernel=request.symbol) for request in requests]
        return _compared(requests, programs, case_set)
    except (NoReference, EmulationError) as error:
        return outcome(0, fault=str(error))


def _compared(
    requests: tuple[EmulationRequest, EmulationRequest], programs: list[Program], case_set: str
) -> dict[str, Any]:
    dtypes = {name: dtype for name, kind, dtype, _, _ in requests[0].arguments if kind == "pointer"}
    count = 0
    for case in made_cases(requests[0].family, requests[0].axes, case_set):
        ran = _copy(case), _copy(case)
        faults = [_fault(*one) for one in zip(programs, requests, ran, strict=True)]
        if any(faults):
            return outcome(count, fault=told(case.name, *faults), one_sided=not all(faults))
        count += 1
        if difference := first_difference(*ran, dtypes):
            return outcome(count, difference=difference)
    return outcome(count)


def _fault(program: Program, request: EmulationRequest, case: Case) -> str:
    """Runs the case in place; what went wrong."""
    try:
        return execute(program, request, case, Counter())
    except LookupError as error:
        return f"the case has no {error}"


def _copy(case: Case) -> Case:
    """The same case in memory of its own."""
    tensors = {
        name: dataclasses.replace(tensor, storage=tensor.storage.copy()) for name, tensor in case.tensors.items()
    }
    return dataclasses.replace(case, tensors=tensors)
