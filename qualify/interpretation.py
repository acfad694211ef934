"""Running a variant's qualification cases in Triton's interpreter: one request in, one verdict out, in a worker.

TRITON_INTERPRET must be set before this is imported.
"""

from __future__ import annotations

import contextlib
import functools
import io
import linecache
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from assay.codegen.worker import load_kernel
from assay.reference import Case, Strided
from assay.reference.judging import CaseResult

from .case_runs import CallRequest, judge_case, number_of
from .interpreter_builder import NotInterpretable, StrictBuilder, install
from .interpreter_memory import BoundedMemory

_NUMBERS = {"i32": (np.int32, tl.int32), "i64": (np.int64, tl.int64), "f32": (np.float32, tl.float32)}
_RENDERED = "<rendered "


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretationRequest(CallRequest):
    """All that decides a verdict, next to what judges.  constants: compile-time arguments by name."""

    source: str
    kernel: str
    constants: tuple[tuple[str, int], ...]


def interpret_in_worker(request: dict[str, Any]) -> dict[str, Any]:
    """Run the cases, up to one that cannot be interpreted; returns {cases, refusal, seconds}.

    Never raises for what a kernel does.
    """
    started = time.perf_counter()
    wanted = InterpretationRequest(**request)
    builder = _builder()
    function = load_kernel(wanted.source, wanted.kernel)
    results: list[CaseResult] = []
    refusal = ""
    for case in wanted.cases():
        try:
            results.append(judge_case(wanted, case, functools.partial(_execute, function, builder, wanted, case)))
        except NotInterpretable as reason:
            refusal = str(reason)
            break
    seconds = time.perf_counter() - started
    return {"cases": [asdict(result) for result in results], "refusal": refusal, "seconds": seconds}


@functools.cache
def _builder() -> StrictBuilder:
    return install()


def _execute(function: Any, builder: StrictBuilder, request: InterpretationRequest, case: Case) -> str:
    """Runs one case in place; what went wrong.  Raises NotInterpretable."""
    builder.memory = BoundedMemory({name: tensor.storage for name, tensor in case.tensors.items()})
    arguments = _arguments(request, case)
    try:
        with _quiet():
            function[request.grid_of(case)](**arguments, **dict(request.constants))
    except Exception as error:  # whatever the interpreted kernel raises
        cause = _cause_of(error)
        if isinstance(cause, MemoryError):  # says nothing of the kernel
            raise cause from None
        if isinstance(cause, NotImplementedError | NotInterpretable):
            raise NotInterpretable(f"{cause}{_place_of(cause)}") from None
        return f"{type(cause).__name__}: {cause}{_place_of(cause)}"
    return ""


def _arguments(request: InterpretationRequest, case: Case) -> dict[str, Any]:
    """By name: tensors over the case's own memory, and numbers of exactly the type that the compiled kernel takes."""
    return {
        argument[0]: _tensor(case.tensors[argument[0]], argument[2])
        if argument[1] == "pointer"
        else _number(number_of(argument, case), argument[2])
        for argument in request.arguments
    }


def _tensor(strided: Strided, dtype: str) -> torch.Tensor:
    memory = torch.from_numpy(strided.storage)
    elements = memory.view(torch.bfloat16) if dtype == "bf16" else memory
    return elements.as_strided(strided.shape, strided.strides, strided.offset)


def _number(value: int | float, dtype: str) -> tl.tensor:
    number_type, scalar = _NUMBERS[dtype]
    return tl.tensor(TensorHandle(np.array([value], number_type), scalar), scalar)


@contextlib.contextmanager
def _quiet() -> Any:
    """A kernel's prints, and numpy's warnings of what GPUs compute silently, such as -inf minus -inf."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _cause_of(error: BaseException) -> BaseException:
    """Triton wraps what was raised once for each function that was called."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _place_of(error: BaseException) -> str:
    """The innermost line of the rendered source on the way to an error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_RENDERED)]
    if not frames:
        return ""
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return f"; line {frames[-1].lineno} of the rendered source: {line}"
