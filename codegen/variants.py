"""From a candidate to a variant: rendered source, Triton signature, specialisation, expected argument layout, id."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .predicates import holds
from .records import (
    AxisItems,
    Candidate,
    CompileRequest,
    ExpectedArgument,
    Variant,
    canonical_json,
    sha256_hex,
    spell,
)
from .render import Renderer
from .spec_checks import target_facts
from .spec_models import ArgumentSpec, ConstantRule, FamilyFile, TargetFile

TRITON_SCALARS = {"bf16": "bf16", "f16": "fp16", "f32": "fp32", "u8": "u8", "i8": "i8", "i32": "i32", "i64": "i64"}
ITEM_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "u8": 1, "i8": 1, "i32": 4, "i64": 8}
# Sixteen hexadecimal digits keep ids readable in tables; a bundle refuses two variants with one id.
ID_DIGITS = 16


def make_variant(family: FamilyFile, target: TargetFile, candidate: Candidate, renderer: Renderer) -> Variant:
    """Everything needed to compile and to judge one candidate.  Raises TemplateError."""
    axes, launch = dict(candidate.problem.axes), dict(candidate.launch)
    values = {**target_facts(target), **axes, **launch}
    constants = {name: _constant(rule, values) for name, rule in family.constants.items()}
    source = renderer.render(family.template, {**axes, **launch, "constants": constants})
    arguments = arguments_of(family, candidate.problem.axes)
    signature = [(argument.name, _triton_type(argument, axes)) for argument in arguments]
    request = CompileRequest(
        source=source,
        kernel=family.kernel,
        backend=target.backend,
        compiler_arch=target.compiler_arch,
        wavefront_size=target.wavefront_size,
        signature=(*signature, *((name, "constexpr") for name in constants)),
        constants=tuple(constants.items()),
        divisibility=tuple(_divisibility(arguments, axes)),
        within_2gib=tuple(
            argument.name
            for argument in arguments
            if argument.within_2gib is not None and holds(argument.within_2gib, axes)
        ),
        num_warps=int(launch["num_warps"]),
        num_stages=int(launch["num_stages"]),
        shared_limit_bytes=target.limits.lds_bytes,
    )
    id = variant_id(
        family=family.family,
        problem=axes,
        launch=launch,
        target=target.target,
        specialisation=(request.divisibility, request.within_2gib),
        source=source,
    )
    grid = tuple(tuple(_grid_term(term, {**axes, **launch, **constants}) for term in terms) for terms in family.grid)
    return Variant(id, candidate, request, _layout(arguments, axes), grid)


def variant_id(
    *,
    family: str,
    problem: Mapping[str, Any],
    launch: Mapping[str, Any],
    target: str,
    specialisation: tuple[Sequence[tuple[str, int]], Sequence[str]],
    source: str,
) -> str:
    """The hash of all that makes a variant.

    specialisation: (argument, divisor) in the arguments' order, and the pointers within 2 GiB.
    """
    identity = {
        "family": family,
        "problem": problem,
        "launch": launch,
        "target": target,
        "specialisation": specialisation,
        "source": source,
    }
    return sha256_hex(canonical_json(identity))[:ID_DIGITS]


def expected_cost(request: CompileRequest) -> float:
    """A guess of relative compile time, good for ordering only: tile elements a thread, as they are unrolled into code.

    Unpromised alignment turns each wide load into many narrow ones; Spearman's rank correlation with measured
    seconds over the shipped gfx1201 candidates is in docs/build.md.
    """
    elements = math.prod(max(1, int(value)) for _, value in request.constants)
    per_thread = elements / (request.num_warps * request.wavefront_size)
    return per_thread / (1 + len(request.divisibility))


def arguments_of(family: FamilyFile, axes: AxisItems) -> list[ArgumentSpec]:
    """The arguments that the kernel of a problem has, in order."""
    return [argument for argument in family.arguments if holds(argument.when, dict(axes))]


def dtype_of(argument: ArgumentSpec, axes: dict[str, Any]) -> str:
    """The element type of an argument for a problem."""
    if argument.dtype is not None:
        return argument.dtype
    ((axis, choices),) = (argument.dtype_by or {}).items()
    return choices[spell(axes[axis])]


def alignment_bytes(argument: ArgumentSpec, axes: dict[str, Any]) -> int:
    """Bytes that divide the argument's address or stride, as the problem promises; 1 where nothing is promised."""
    if argument.alignment is None:
        return 1
    return argument.alignment.bytes or int(axes[argument.alignment.axis])


def _triton_type(argument: ArgumentSpec, axes: dict[str, Any]) -> str:
    scalar = TRITON_SCALARS[dtype_of(argument, axes)]
    return f"*{scalar}" if argument.kind == "pointer" else scalar


def _divisibility(arguments: list[ArgumentSpec], axes: dict[str, Any]) -> list[tuple[str, int]]:
    """What Triton may assume: bytes for a pointer, elements for a stride, both from a promise in bytes."""
    pointers = {argument.name: argument for argument in arguments if argument.kind == "pointer"}
    promises = []
    for argument in arguments:
        promised = alignment_bytes(argument, axes)
        if argument.kind == "stride":
            promised //= ITEM_BYTES[dtype_of(pointers[argument.of or ""], axes)]
        if promised > 1:
            promises.append((argument.name, promised))
    return promises


def _constant(rule: ConstantRule, values: dict[str, Any]) -> int:
    value = _constant_source(rule, values)
    if rule.at_least is not None and holds(rule.at_least.when, values):
        return max(value, rule.at_least.value)
    return value


def _constant_source(rule: ConstantRule, values: dict[str, Any]) -> int:
    if rule.literal is not None:
        return rule.literal
    if rule.value_of is not None:
        return values[rule.value_of]
    return 1 << (int(values[rule.next_power_of_two or ""]) - 1).bit_length()


def _grid_term(term: str, values: dict[str, Any]) -> str:
    dims, slash, per_program = term.partition("/")
    return f"{dims}/{values[per_program]}" if slash else dims


def _layout(arguments: list[ArgumentSpec], axes: dict[str, Any]) -> tuple[ExpectedArgument, ...]:
    layout, offset = [], 0
    for argument in arguments:
        kind = "pointer" if argument.kind == "pointer" else dtype_of(argument, axes)
        size = 8 if kind == "pointer" else ITEM_BYTES[kind]
        offset = -(-offset // size) * size
        layout.append(ExpectedArgument(argument.name, kind, offset, size))
        offset += size
    return tuple(layout)
