"""Both sides of a pair executed by the emulator on the same cases: one task in, what differs out, in a worker."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from assay.emulator import EmulationError, Program
from assay.reference import Case, NoReference

from ..emulation import EmulationRequest, execute
from .case_sets import made_cases
from .output_bits import first_difference


def compare_in_worker(left: dict[str, Any], right: dict[str, Any], case_set: str) -> dict[str, Any]:
    """left, right: fields of EmulationRequest. Returns {cases, fault, difference}: the first case that differs ends it.

    fault: what kept a side from running, '' where nothing did; never raises for what a kernel does.
    """
    requests = EmulationRequest(**left), EmulationRequest(**right)
    programs = []
    for side, request in zip(("left", "right"), requests, strict=True):
        try:
            programs.append(Program.load(request.code, where=side, kernel=request.symbol))
        except EmulationError as error:
            return {"cases": 0, "fault": str(error), "difference": None}
    try:
        return _compared(requests, programs, case_set)
    except NoReference as error:
        return {"cases": 0, "fault": str(error), "difference": None}


def _compared(
    requests: tuple[EmulationRequest, EmulationRequest], programs: list[Program], case_set: str
) -> dict[str, Any]:
    count = 0
    for case in made_cases(requests[0].family, requests[0].axes, case_set):
        done = []
        for side, program, request in zip(("left", "right"), programs, requests, strict=True):
            ran = _copy(case)
            try:
                fault = execute(program, request, ran, Counter())
            except LookupError as error:
                fault = f"the case has no argument {error}"
            if fault:
                return {"cases": count, "fault": f"{case.name}: {side}: {fault}", "difference": None}
            done.append(ran)
        count += 1
        dtypes = {name: dtype for name, kind, dtype, _, _ in requests[0].arguments if kind == "pointer"}
        if difference := first_difference(*done, dtypes):
            return {"cases": count, "fault": "", "difference": difference.to_dict()}
    return {"cases": count, "fault": "", "difference": None}


def _copy(case: Case) -> Case:
    """The same case in memory of its own."""
    tensors = {
        name: dataclasses.replace(tensor, storage=tensor.storage.copy()) for name, tensor in case.tensors.items()
    }
    return dataclasses.replace(case, tensors=tensors)
