"""A kernel with its qualification cases, and the two ways of running a program on them: unchecked, and as the gate."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import reference
from assay.codegen.records import Variant
from assay.emulator import Checks, Program
from assay.emulator.checks import NO_CHECKS
from assay.objects import Kernel, read_object
from assay.qualify.emulation import EmulationRequest, run_case
from assay.reference import Case
from assay.reference.judging import CaseResult
from assay.reference.number_formats import from_bf16

from .coverage import recording
from .kernels import DECODE, MERGE, compiled

# A mutant that takes so many times the steps of the kernel does not end.
_STEPS = 20


@dataclass(frozen=True, eq=False)
class Trial:
    """One case.  before: storages of its outputs before any run.  golden: what the kernel itself leaves there
    unchecked, and values: the outputs' elements in float64.  steps: how many it takes.
    """

    case: Case
    before: Mapping[str, NDArray[Any]]
    golden: Mapping[str, bytes]
    values: Mapping[str, NDArray[np.float64]]
    steps: int


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel of the core profile.  trials: the case of the fewest steps first.  executed: addresses, in any case."""

    name: str
    variant: Variant
    request: EmulationRequest
    kernel: Kernel
    program: Program
    trials: tuple[Trial, ...]
    executed: frozenset[int]


@dataclass(frozen=True)
class _Launcher:
    """A program for the gate's own `run_case`, with checks of the caller's choice; it notes each launch's steps."""

    program: Program
    checks: Checks
    steps: list[int]

    def launch(self, **call: Any) -> Any:
        result = self.program.launch(checks=self.checks, **call)
        self.steps.append(result.steps)
        return result


@functools.cache
def decode() -> Subject:
    return _make(DECODE)


@functools.cache
def merge() -> Subject:
    return _make(MERGE)


SUBJECTS = {"decode_attention": decode, "merge_splits": merge}


def _make(axes: dict[str, Any]) -> Subject:
    """The kernel, compiled here, run once on each of its cases."""
    variant, request = compiled(axes)
    kernel = next(item for item in read_object(request.code, where=variant.id).kernels if item.name == request.symbol)
    program = Program.of_kernel(kernel, where=variant.id)
    addresses: set[int] = set()
    cases = reference.cases(request.family, request.axes)
    trials = [_trial(recording(program, addresses), request, case) for case in cases]
    name = " ".join(f"{axis}={str(value).lower()}" for axis, value in axes.items() if axis != "family")
    in_order = tuple(sorted(trials, key=lambda trial: trial.steps))
    return Subject(f"{request.family} {name}", variant, request, kernel, program, in_order, frozenset(addresses))


def _trial(program: Program, request: EmulationRequest, case: Case) -> Trial:
    before = {name: case.tensors[name].storage.copy() for name in case.outputs}
    launcher = _Launcher(program, NO_CHECKS, [])
    result = run_case(launcher, request, case, Counter())
    if not result.passed:
        raise RuntimeError(f"{request.family}: the kernel itself fails {case.name}: {result.fault}")
    return Trial(case, before, storages(case), values(request, case), launcher.steps[0])


def storages(case: Case) -> dict[str, bytes]:
    """What outputs hold, and what lies around them."""
    return {name: case.tensors[name].storage.tobytes() for name in case.outputs}


def values(request: EmulationRequest, case: Case) -> dict[str, NDArray[np.float64]]:
    """The elements of the outputs."""
    dtypes = {name: dtype for name, _, dtype, _, _ in request.arguments}
    views = {name: case.tensors[name].view for name in case.outputs}
    with np.errstate(invalid="ignore"):
        return {
            name: from_bf16(view) if dtypes[name] == "bf16" else view.astype(np.float64) for name, view in views.items()
        }


def run_unchecked(subject: Subject, trial: Trial, program: Program) -> CaseResult:
    """With every check off, which leaves the outputs in the case's tensors.  It may stop for want of an end."""
    return _run(subject, trial, program, replace(NO_CHECKS, step_budget=_STEPS * trial.steps))


def run_as_gate(subject: Subject, trial: Trial, program: Program) -> CaseResult:
    """With every check on, as `--evidence emulated` runs it, but for a step budget that fits the case."""
    return _run(subject, trial, program, Checks(step_budget=_STEPS * trial.steps))


def _run(subject: Subject, trial: Trial, program: Program, checks: Checks) -> CaseResult:
    for name, storage in trial.before.items():
        trial.case.tensors[name].storage[...] = storage
    return run_case(_Launcher(program, checks, []), subject.request, trial.case, Counter())
