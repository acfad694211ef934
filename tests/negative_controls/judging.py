"""What a mutant does: whether any output of any case changes in an unchecked run, and whether the gate notices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from assay.emulator import Program
from assay.emulator.decode import decode_one
from assay.emulator.registry import make_step
from assay.emulator.semantics.control import CONTROL

from .mutations import NOP, Mutant, program_of
from .subject import Subject, Trial, run_as_gate, run_unchecked, storages, values


@dataclass(frozen=True, slots=True)
class Verdict:
    """changed: the first case found in which an unchecked run differs from the kernel's own, and how; '' if in none.
    noticed: the first case in which the gate finds a fault, and which; '' if it passes.  share: of a change that is
    not noticed, the largest deviation from the kernel's own output in any case, as a share of the tolerance.
    """

    mutant: Mutant
    changed: str
    noticed: str
    share: float | None = None


def judge(subject: Subject, mutant: Mutant) -> Verdict:
    """Stops at the first case that the gate notices, and at the first that changes.

    Checks decide when a run stops and never what it computes: where the gate's run reaches its end, what it leaves is
    what an unchecked run leaves, and only where a check stops it the case is run again without.
    """
    if not _has_effect(subject, mutant):
        return Verdict(mutant, "", "")
    program = program_of(subject.kernel, mutant.code)
    changed, noticed, stopped = "", "", list(subject.trials)
    for trial in subject.trials:
        result = run_as_gate(subject, trial, program)
        if result.largest_error is not None:
            stopped.remove(trial)
            changed = changed or _difference(trial)
        if result.fault:
            noticed = f"{trial.case.name}: {result.fault}"
            break
    changed = changed or _change(subject, stopped, program)
    share = _share(subject, program) if changed and not noticed else None
    return Verdict(mutant, changed, noticed, share)


def _has_effect(subject: Subject, mutant: Mutant) -> bool:
    """Whether the emulator gives the deleted instruction any meaning: to leave out a hint is to leave out nothing."""
    old = decode_one(subject.kernel.code, mutant.address)
    is_nothing = old.opcode not in CONTROL and make_step(old) is make_step(decode_one(NOP, 0))
    return mutant.kind != "deleted" or not is_nothing


def _change(subject: Subject, trials: Iterable[Trial], program: Program) -> str:
    """The first of the cases that comes out differently without checks, or does not come to its end."""
    for trial in trials:
        result = run_unchecked(subject, trial, program)
        if result.largest_error is None:
            return f"{trial.case.name}: {result.fault}"
        if difference := _difference(trial):
            return difference
    return ""


def _difference(trial: Trial) -> str:
    found = storages(trial.case)
    different = [name for name in found if found[name] != trial.golden[name]]
    return f"{trial.case.name}: {' and '.join(different)} differ" if different else ""


def _share(subject: Subject, program: Program) -> float:
    """The largest |mutant - kernel| / (absolute + relative * |kernel|) of any output element of any case."""
    largest = 0.0
    for trial in subject.trials:
        run_unchecked(subject, trial, program)
        for name, found in values(subject.request, trial.case).items():
            kept = trial.values[name]
            absolute, relative = trial.case.limits.get(name, subject.request.tolerance)
            with np.errstate(invalid="ignore", divide="ignore"):
                deviation = np.where(found == kept, 0.0, np.abs(found - kept) / (absolute + relative * np.abs(kept)))
            largest = max(largest, float(np.nanmax(deviation, initial=0.0)))
    return largest
