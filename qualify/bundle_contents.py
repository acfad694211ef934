"""From qualified results to what a bundle holds: dispatch rows, variant records, code objects, manifest."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from typing import Any

from assay.bundle import Condition, Contents, KernelArgument, Manifest, Row, TargetRecord, VariantRecord
from assay.codegen.predicates import holds
from assay.codegen.records import Problem, canonical_json
from assay.codegen.spec_checks import target_facts
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.toolchain import Toolchain

from .gates import HIDDEN_ARGUMENTS, Judgement
from .selection import ProblemResult

# Raised when the meaning of what we put into a bundle changes; the file format has its own version.
BUNDLE_VERSION = "1"
_OPERATORS = {"equal": "eq", "multiple_of": "multiple_of", "at_least": "at_least", "at_most": "at_most"}


def bundle_contents(
    specs: SpecSet, target: TargetFile, profile: str, toolchain: Toolchain, results: Iterable[ProblemResult]
) -> Contents:
    """Everything that ships: every result's chosen variant.  All results must be qualified."""
    chosen = [(result, result.chosen) for result in results if result.chosen is not None]
    families = {result.family.family: result.family for result, _ in chosen}
    manifest = Manifest(
        bundle_version=BUNDLE_VERSION,
        assay_version=importlib.metadata.version("assay"),
        toolchain=toolchain.to_dict(),
        profile=profile,
        targets=(target_record(target),),
        sources=dict(specs.sources),
        families={name: _contract(family) for name, family in sorted(families.items())},
    )
    return Contents(
        manifest=manifest,
        rows=tuple(_row(result.family, target, judgement) for result, judgement in chosen),
        variants=tuple(_variant_record(judgement) for _, judgement in chosen),
        objects={code_sha256(judgement): judgement.outcome.code for _, judgement in chosen},
        evidence=evidence_documents([judgement for _, judgement in chosen]),
    )


def evidence_documents(chosen: list[Judgement]) -> dict[str, bytes]:
    """A document a level that was produced; they stand behind the identity-bearing part."""
    documents = {"static": {judgement.variant.id: _static_evidence(judgement) for judgement in chosen}}
    for judgement in chosen:
        for execution in judgement.executions:
            figures = {execution.level: execution.verdict, **execution.figures()}
            documents.setdefault(execution.level, {})[judgement.variant.id] = figures
    return {
        level: canonical_json({"schema": "assay.evidence/1", "level": level, "variants": variants}).encode()
        for level, variants in documents.items()
    }


def _static_evidence(judgement: Judgement) -> dict[str, Any]:
    """Which gates a variant passed, and by which waivers."""
    waivers = [
        {**item.waiver.model_dump(), "limit": item.reason.limit, "actual": item.reason.actual}
        for item in judgement.waived
    ]
    return {"static": judgement.static_evidence, "waivers": waivers}


def code_sha256(judgement: Judgement) -> str:
    """Hash of the code object that was judged, in hexadecimal."""
    return hashlib.sha256(judgement.outcome.code).hexdigest()


def conditions(family: FamilyFile, target: TargetFile, problem: Problem) -> tuple[Condition, ...]:
    """What a call must bring for a problem's row to answer it, in the order of the family file.

    A promise of nothing (a multiple of 1) is no condition, so that the row behind all others is the less specific one.
    """
    axes = dict(problem.axes)
    facts = {**target_facts(target), **axes}
    asked = [(name, _OPERATORS[how], axes[name]) for name, how in family.dispatch.items()]
    for extra in family.conditions:
        if holds(extra.when, facts):
            ((how, limit),) = extra.limits().items()
            asked.append((extra.field, _OPERATORS[how], limit))
    return tuple(Condition(*item) for item in asked if item[1:] != ("multiple_of", 1))


def target_record(target: TargetFile) -> TargetRecord:
    """What a bundle says of a target."""
    return TargetRecord(
        name=target.target,
        backend=target.backend,
        arch=target.arch,
        lds_limit=target.limits.lds_bytes,
        wavefront_size=target.wavefront_size,
        runs_on=tuple(target.runs_on),
    )


def _contract(family: FamilyFile) -> dict[str, Any]:
    """What a caller must know of a family: its arguments, its grid, what its axes mean, how exact it is."""
    arguments = [
        {key: value for key, value in argument.model_dump(exclude_none=True).items() if value != {}}
        for argument in family.arguments
    ]
    return {
        "summary": family.summary,
        "axes": {name: axis.about for name, axis in family.axes.items()},
        "arguments": arguments,
        "extents": _extents(family),
        "products": {item.field: item.product_of for item in family.conditions if item.product_of},
        "dimensions": family.dimensions,
        "grid": family.grid,
        # Decimal text: the manifest holds no floats, whose spelling could differ between writers.
        "tolerance": {"absolute": repr(family.tolerance.absolute), "relative": repr(family.tolerance.relative)},
    }


def _extents(family: FamilyFile) -> dict[str, list[str]]:
    """Of which tensors a condition's field is the largest extent."""
    extents: dict[str, list[str]] = {}
    for condition in family.conditions:
        names = extents.setdefault(condition.field, [])
        names += [name for name in condition.extent_of if name not in names]
    return {field: names for field, names in extents.items() if names}


def _row(family: FamilyFile, target: TargetFile, judgement: Judgement) -> Row:
    variant, problem = judgement.variant, judgement.variant.candidate.problem
    facts = {**target_facts(target), **dict(problem.axes)}
    preference = sum(item.preference for item in family.preferences if holds(item.when, facts))
    return Row(
        id=variant.id,
        family=family.family,
        target=target.target,
        conditions=conditions(family, target, problem),
        preference=preference,
        symbol=judgement.outcome.symbol,
        object=code_sha256(judgement),
        grid=variant.grid,
        num_warps=variant.request.num_warps,
        wavefront_size=target.wavefront_size,
        lds_bytes=judgement.outcome.shared_bytes or 0,
        arguments=_kernel_arguments(judgement),
        hidden_arguments=HIDDEN_ARGUMENTS,
        launch=dict(variant.candidate.launch),
        specialisation=variant.specialisation,
    )


def _kernel_arguments(judgement: Judgement) -> tuple[KernelArgument, ...]:
    """The spec's names on the binary's own offsets; the kernarg gate has seen that they agree."""
    kernel = judgement.kernel
    assert kernel is not None, "only a judged kernel is put into a bundle"
    explicit = judgement.variant.arguments
    arguments = [KernelArgument(item.name, item.offset, item.size, item.kind) for item in explicit]
    for number, hidden in enumerate(kernel.arguments[len(explicit) :]):
        arguments.append(KernelArgument(f"hidden_{number}", hidden.offset, hidden.size, "hidden"))
    return tuple(arguments)


def _variant_record(judgement: Judgement) -> VariantRecord:
    variant, problem = judgement.variant, judgement.variant.candidate.problem
    assert judgement.resources is not None, "only a judged kernel is put into a bundle"
    source = variant.request.source
    counts = judgement.outcome.instructions
    return VariantRecord(
        id=variant.id,
        family=problem.family,
        problem=dict(problem.axes),
        launch=dict(variant.candidate.launch),
        target=problem.target,
        specialisation=variant.specialisation,
        resources=judgement.resources.to_dict(),
        source_sha256=hashlib.sha256(source.encode()).hexdigest(),
        code_sha256=code_sha256(judgement),
        source=source,
        instructions=dict(sorted(counts.items())) if counts is not None else None,
    )
