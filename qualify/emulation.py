"""Running a variant's qualification cases on the emulator: one request in, one verdict out, in a worker process."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from assay.emulator import EmulationError, Memory, Program
from assay.reference import Case
from assay.reference.judging import CaseResult

from .case_runs import CallRequest, judge_case, number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationRequest(CallRequest):
    """All that decides a verdict, next to the sources of emulator and references.  lds_bytes: at launch."""

    code: bytes
    symbol: str
    num_warps: int
    lds_bytes: int


def emulate_in_worker(request: dict[str, Any]) -> dict[str, Any]:
    """Run every case; returns {cases, instructions, seconds}.  Never raises for what a kernel does."""
    started = time.perf_counter()
    wanted = EmulationRequest(**request)
    executed: Counter[str] = Counter()
    try:
        program = Program.load(wanted.code, where=wanted.family, kernel=wanted.symbol)
    except EmulationError as error:
        return _result([CaseResult("load", None, str(error))], executed, started)
    results = [run_case(program, wanted, case, executed) for case in wanted.cases()]
    return _result(results, executed, started)


def _result(results: list[CaseResult], executed: Counter[str], started: float) -> dict[str, Any]:
    return {
        "cases": [asdict(result) for result in results],
        "instructions": dict(executed),
        "seconds": time.perf_counter() - started,
    }


def run_case(program: Program, request: EmulationRequest, case: Case, executed: Counter[str]) -> CaseResult:
    """One case, in place in its tensors.  Instructions are added to `executed` by class."""
    return judge_case(request, case, lambda: execute(program, request, case, executed))


def execute(program: Program, request: EmulationRequest, case: Case, executed: Counter[str]) -> str:
    """Runs a case in place, unjudged; what went wrong, '' where nothing did."""
    memory = Memory()
    try:
        result = program.launch(
            grid=list(request.grid_of(case)),
            num_warps=request.num_warps,
            arguments=_arguments(request, case, memory),
            memory=memory,
            lds_bytes=request.lds_bytes,
            count_transactions=False,
        )
    except EmulationError as error:
        return str(error)
    executed.update(result.counters.instructions)
    return ""


def _arguments(request: EmulationRequest, case: Case, memory: Memory) -> list[int | float]:
    """The explicit arguments in order; a pointer is the address of its tensor's first element."""
    addresses = {
        name: memory.add(name, tensor.storage, writable=name in case.outputs) + tensor.offset * tensor.storage.itemsize
        for name, tensor in case.tensors.items()
    }
    return [
        addresses[argument[0]] if argument[1] == "pointer" else number_of(argument, case)
        for argument in request.arguments
    ]
