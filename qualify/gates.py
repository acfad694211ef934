"""The static gates: what a binary must say of itself before it may ship.

Every gate is independent and reports every budget it finds broken.  A figure that the binary does not tell is broken
too: `actual` is None then, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assay import objects
from assay.codegen.predicates import holds
from assay.codegen.records import Outcome, Variant
from assay.codegen.spec_checks import target_facts
from assay.codegen.spec_models import FamilyFile, InstructionRule, TargetFile, Waiver

from .executing import FAIL, Execution

# Triton appends two pointers to every kernel's arguments: global scratch and profile scratch, 8 bytes each.
HIDDEN_ARGUMENTS = 2
_HIDDEN_BYTES = 8


@dataclass(frozen=True, slots=True)
class Reason:
    """One broken budget.  limit: what would have passed; actual: what the binary says, None where it does not tell."""

    budget: str
    limit: int | str
    actual: int | str | None
    detail: str = ""

    @property
    def excess(self) -> float:
        """How far over, relative to the limit where it is not zero; infinite where nothing was measured."""
        if isinstance(self.limit, int) and isinstance(self.actual, int):
            return abs(self.actual - self.limit) / max(self.limit, 1)
        return float("inf")

    def __str__(self) -> str:
        if self.actual is None:
            return f"{self.budget}: unknown, limit {self.limit}"
        if isinstance(self.limit, int) and isinstance(self.actual, int):
            difference = self.actual - self.limit
            sign, word = (">", "over") if difference > 0 else ("<", "short")
            return f"{self.budget} {self.actual:,} {sign} {self.limit:,} ({abs(difference):,} {word})"
        text = f"{self.budget}: {self.actual}, must be {self.limit}"
        return f"{text} ({self.detail})" if self.detail else text


@dataclass(frozen=True, slots=True)
class Waived:
    """A broken budget that a waiver let pass."""

    waiver: Waiver
    reason: Reason


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one variant's binary: qualified when no reason against it is left after waivers.

    executions: by the levels that ran, the weakest first; one that failed is among the reasons, under its level's name.
    """

    variant: Variant
    outcome: Outcome
    resources: objects.Resources | None
    kernel: objects.Kernel | None
    reasons: tuple[Reason, ...]
    waived: tuple[Waived, ...] = ()
    executions: tuple[Execution, ...] = ()

    @property
    def qualified(self) -> bool:
        return not self.reasons

    @property
    def did_not_compile(self) -> bool:
        """Whether there is no code to judge, which fails a run; a complaint beside code rejects its candidate alone."""
        return self.outcome.status in ("compile_error", "crashed", "timed_out")

    @property
    def static_evidence(self) -> str:
        """`pass`, `fail`, or by which waivers it passed."""
        levels = {execution.level for execution in self.executions}
        if any(reason.budget not in levels for reason in self.reasons):
            return "fail"
        return f"waived({','.join(item.waiver.name for item in self.waived)})" if self.waived else "pass"

    @property
    def evidence(self) -> dict[str, str]:
        """Verdict by level, of the levels that were produced."""
        return {"static": self.static_evidence, **{item.level: item.verdict for item in self.executions}}

    def execution(self, level: str) -> Execution | None:
        """What executing it at a level gave, None where it was not."""
        return next((item for item in self.executions if item.level == level), None)


@dataclass(frozen=True, slots=True)
class _Case:
    variant: Variant
    outcome: Outcome
    kernel: objects.Kernel
    resources: objects.Resources
    target: TargetFile
    family: FamilyFile


def judge(variant: Variant, outcome: Outcome, target: TargetFile, family: FamilyFile) -> Judgement:
    """All that is wrong with what a compilation gave.  Never raises for a bad binary: that is a reason."""
    if outcome.status == "abandoned":
        detail = "known before the last compiler stages, which were left out"
        limit = budgets(target, family)["lds_total_bytes"]
        reason = Reason("lds_total_bytes", limit, outcome.shared_bytes, detail)
        return Judgement(variant, outcome, None, None, (reason,))
    if outcome.status != "compiled":
        reason = Reason("compilation", "compiled", outcome.status.replace("_", " "), outcome.messages)
        return Judgement(variant, outcome, None, None, (reason,))
    try:
        code_object = objects.read_object(outcome.code, where=f"code object of {variant.id}")
    except objects.ObjectError as error:
        return Judgement(variant, outcome, None, None, (Reason("code_object", "readable", "unreadable", str(error)),))
    named = [kernel for kernel in code_object.kernels if kernel.name == outcome.symbol]
    if len(code_object.kernels) != 1 or not named:
        found = ", ".join(kernel.name for kernel in code_object.kernels)
        reason = Reason("kernels", f"exactly one, {outcome.symbol}", found)
        return Judgement(variant, outcome, None, None, (reason,))
    resources = _with_build_figures(named[0].resources, outcome)
    case = _Case(variant, outcome, named[0], resources, target, family)
    reasons = tuple(reason for gate in GATES for reason in gate(case))
    return Judgement(variant, outcome, resources, named[0], reasons)


def _with_build_figures(resources: objects.Resources, outcome: Outcome) -> objects.Resources:
    """The figures that are in no file: launch-time LDS, the assembler's report, counts from the disassembly."""
    if outcome.shared_bytes is not None:
        resources = resources.with_launch(outcome.shared_bytes)
    if outcome.assembler_spills is not None:
        resources = resources.with_assembler_report(*outcome.assembler_spills)
    if outcome.sass_local is not None:
        loads, stores = outcome.sass_local
        resources = replace(resources, local_load_count=loads, local_store_count=stores)
    return resources


def with_execution(judgement: Judgement, execution: Execution) -> Judgement:
    """A judgement with what executing it gave; a case that failed is a reason against it.

    What a level cannot execute is no reason: other levels judge it, and its evidence never says pass.
    """
    executed = replace(judgement, executions=(*judgement.executions, execution))
    if execution.verdict != FAIL:
        return executed
    first = f"{execution.faults[0][0]}: {execution.faults[0][1]}" if execution.faults else "no case was run"
    actual = f"{len(execution.faults)} of {execution.cases} cases failed"
    reason = Reason(execution.level, "every case passes", actual, first)
    return replace(executed, reasons=(*judgement.reasons, reason))


def budgets(target: TargetFile, family: FamilyFile) -> dict[str, int]:
    """The limits of a target, tightened where the family asks for less.

    A family is for both vendors: its budgets of what only the other one's kernels have are passed over.  Those of a
    target are not: it has one vendor, and a figure that is not there is unknown.
    """
    limits = target.budgets.given()
    limits["lds_total_bytes"] = min(target.limits.lds_bytes, limits.get("lds_total_bytes", target.limits.lds_bytes))
    foreign = objects.FOREIGN[target.backend]
    for name, limit in family.budgets.given().items():
        if name not in foreign:
            limits[name] = min(limit, limits.get(name, limit))
    return limits


def _budget_gate(case: _Case) -> list[Reason]:
    reasons = []
    for name, limit in budgets(case.target, case.family).items():
        actual = getattr(case.resources, name)
        if actual is None or actual > limit:
            reasons.append(Reason(name, limit, None if actual is None else int(actual)))
    return reasons


def _architecture_gate(case: _Case) -> list[Reason]:
    if case.kernel.arch == case.target.arch and case.kernel.backend == case.target.backend:
        return []
    given = f"{case.kernel.backend} {case.kernel.arch}"
    return [Reason("architecture", f"{case.target.backend} {case.target.arch}", given)]


def _threads_gate(case: _Case) -> list[Reason]:
    wanted_warps, launched_warps = case.variant.request.num_warps, case.outcome.num_warps
    wavefront, max_threads = case.resources.wavefront_size, case.resources.max_threads
    threads = wanted_warps * case.target.wavefront_size
    reasons = []
    if launched_warps != wanted_warps:
        reasons.append(Reason("num_warps", wanted_warps, launched_warps))
    if wavefront != case.target.wavefront_size:
        reasons.append(Reason("wavefront_size", case.target.wavefront_size, wavefront))
    if threads > case.target.limits.threads:
        reasons.append(Reason("threads", case.target.limits.threads, threads))
    # The binary was compiled for a workgroup of exactly this size; another one would index wrong lanes.
    if max_threads != threads:
        reasons.append(Reason("max_threads", threads, max_threads))
    return reasons


def _kernarg_gate(case: _Case) -> list[Reason]:
    """The binary's arguments against the spec's: folded or reordered arguments would be read at wrong offsets."""
    expected = [(item.offset, item.size) for item in case.variant.arguments]
    end = expected[-1][0] + expected[-1][1] if expected else 0
    for _ in range(HIDDEN_ARGUMENTS):
        end = -(-end // _HIDDEN_BYTES) * _HIDDEN_BYTES
        expected.append((end, _HIDDEN_BYTES))
        end += _HIDDEN_BYTES
    actual = [(argument.offset, argument.size) for argument in case.kernel.arguments]
    if actual == expected:
        return []
    names = [*(item.name for item in case.variant.arguments), *["hidden"] * HIDDEN_ARGUMENTS]
    return [
        Reason(
            "kernarg_layout", _spell_layout(expected), _spell_layout(actual), _first_difference(names, expected, actual)
        )
    ]


def _spell_layout(layout: list[tuple[int, int]]) -> str:
    end = max((offset + size for offset, size in layout), default=0)
    return f"{len(layout)} arguments in {end} bytes"


def _first_difference(names: list[str], expected: list[tuple[int, int]], actual: list[tuple[int, int]]) -> str:
    for index, (name, wanted) in enumerate(zip(names, expected, strict=True)):
        found = actual[index] if index < len(actual) else None
        if found != wanted:
            given = f"offset {found[0]} size {found[1]}" if found else "nothing"
            return f"argument {index}, {name}: offset {wanted[0]} size {wanted[1]} expected, {given} found"
    return f"{len(actual) - len(expected)} more than the spec has"


def _scratch_pointer_gate(case: _Case) -> list[Reason]:
    """The runtime passes null for Triton's scratch pointers, so a kernel that needs either cannot be launched."""
    figures = {
        "global_scratch_bytes": case.outcome.global_scratch_bytes,
        "profile_scratch_bytes": case.outcome.profile_scratch_bytes,
    }
    return [Reason(name, 0, actual) for name, actual in figures.items() if actual != 0]


def _instruction_gate(case: _Case) -> list[Reason]:
    facts = {**target_facts(case.target), **dict(case.variant.candidate.problem.axes)}
    facts |= dict(case.variant.candidate.launch)
    rules = [rule for rule in case.family.instructions if holds(rule.when, facts)]
    if rules and case.outcome.instructions is None:
        return [Reason("instructions", "counted", None)]
    counts = case.outcome.instructions or {}
    return [reason for rule in rules for reason in _instruction_reasons(rule, counts)]


def _instruction_reasons(rule: InstructionRule, counts: Mapping[str, int]) -> list[Reason]:
    reasons = [
        Reason(f"instruction {name}", least, found, rule.reason)
        for name, least in rule.require.items()
        if (found := count_instruction(counts, name)) < least
    ]
    reasons += [
        Reason(f"instruction {name}", 0, found, rule.reason)
        for name in rule.forbid
        if (found := count_instruction(counts, name)) > 0
    ]
    return reasons


def count_instruction(counts: Mapping[str, int], name: str) -> int:
    """How often an instruction or a longer form occurs: `v_wmma` stands for `v_wmma_f32_…`, `HMMA` for `HMMA.…`."""
    return sum(
        count for opcode, count in counts.items() if opcode == name or opcode.startswith((f"{name}_", f"{name}."))
    )


GATES: tuple[Callable[[_Case], list[Reason]], ...] = (
    _architecture_gate,
    _budget_gate,
    _threads_gate,
    _kernarg_gate,
    _scratch_pointer_gate,
    _instruction_gate,
)
