"""The shape of target, profile and family files, as pydantic models: what an editor's JSON Schema is made from.

These say what one file may contain.  What must hold between files (an axis that a predicate names, a template that
exists) is checked in `spec_checks`, where the positions of both sides are at hand.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,47}$")]
# A dimension, a product of some, or either by what a program takes of it, an axis, launch field or constant:
# `rows*gqa/BLOCK_M`.
_NAME = r"[A-Za-z][A-Za-z0-9_]{0,47}"
MNEMONIC = r"^[A-Za-z][A-Za-z0-9_.]*$"
GRID_TERM = rf"^{_NAME}(\*{_NAME})*(/{_NAME})?$"
GridTerm = Annotated[str, StringConstraints(pattern=GRID_TERM)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]

_AXIS_TEXT = r"[A-Za-z0-9_.+\-]{1,48}"


def _axis_value(value: Any) -> Any:
    """One error where a union would give three.  Texts stand in locks and `--only` lists, which split at such signs."""
    if type(value) in (bool, int) or (type(value) is str and re.fullmatch(_AXIS_TEXT, value)):
        return value
    raise ValueError("true, false, an integer or a word of letters, digits and _.+-")


def _integer(value: Any) -> Any:
    """`true` equals 1 and 4.0 equals 4, so that a literal alone would take them."""
    if type(value) is not int:
        raise ValueError("an integer")
    return value


AxisValue = Annotated[
    bool | int | str,
    BeforeValidator(_axis_value),
    WithJsonSchema(
        {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "string", "pattern": f"^{_AXIS_TEXT}$"}]}
    ),
]
Integer = BeforeValidator(_integer)
# A predicate: {name: value | [values] | {operator: value}}.  `predicates` parses it; `spec_schema` knows its title.
When = Annotated[
    dict[str, Any],
    Field(title="Predicate", description="names of axes, launch fields or target facts, and what each must be"),
]
Dtype = Literal["bf16", "f16", "f32", "u8", "i8", "i32", "i64"]
Limit = Annotated[int, Field(ge=0)]


class SpecModel(BaseModel):
    """Strict: no value is coerced, no key is ignored."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TargetLimits(SpecModel):
    lds_bytes: Annotated[
        int, Field(gt=0, description="shared memory a workgroup may use, static and launch-time, bytes")
    ]
    threads: Annotated[int, Field(gt=0, description="threads of one workgroup")]
    bundle_bytes: (
        Annotated[int, Field(gt=0, description="most that the target's code objects may take in a bundle, as stored")]
        | None
    ) = None
    vgprs: Annotated[int, Field(gt=0, description="vgpr_count that the encoding allows, AMD")] | None = None
    sgprs: Annotated[int, Field(gt=0, description="sgpr_count that the encoding allows, AMD")] | None = None
    registers: Annotated[int, Field(gt=0, description="register_count that the encoding allows, NVIDIA")] | None = None


class ComputeUnit(SpecModel):
    """What the waves of one workgroup share: AMD's WGP or CU, NVIDIA's SM."""

    simds: Annotated[int, Field(gt=0, description="SIMDs (NVIDIA: sub-partitions), each with registers of its own")]
    lds_bytes: Annotated[int, Field(gt=0, description="LDS (NVIDIA: shared memory) of the unit, bytes")]
    workgroups: Annotated[
        int | None, Field(gt=0, description="workgroups at once; left out where the wave slots always run out first")
    ] = None


class OccupancyFacts(SpecModel):
    """What decides how many waves are resident at once.  Registers are counted per lane, as the binary counts them."""

    per: Annotated[Literal["simd", "sm"], Field(description="what the vendor's tools count resident waves in")]
    registers: Annotated[int, Field(gt=0, description="registers of one SIMD, per lane")]
    register_granule: Annotated[int, Field(gt=0, description="a wave's registers are rounded up to this, per lane")]
    waves: Annotated[int, Field(gt=0, description="wave slots of one SIMD")]
    sgprs: (
        Annotated[int, Field(gt=0, description="SGPRs that the waves of one SIMD share; left out where each has all")]
        | None
    ) = None
    sgpr_granule: Annotated[int, Field(gt=0, description="a wave's SGPRs are rounded up to this")] = 1
    lds_granule_bytes: Annotated[int, Field(gt=0, description="a workgroup's LDS is rounded up to this, bytes")]
    lds_reserved_bytes: Annotated[int, Field(ge=0, description="LDS that the driver adds to every workgroup, bytes")]
    units: Annotated[
        dict[Literal["wgp", "cu", "sm"], ComputeUnit],
        Field(min_length=1, description="by the mode that the kernel descriptor names; NVIDIA has sm alone"),
    ]


class Budgets(SpecModel):
    """Highest value that still qualifies, by the name of the resource in the binary."""

    vgpr_spill_count: Limit | None = None
    sgpr_spill_count: Limit | None = None
    scratch_bytes: Limit | None = None
    dynamic_stack: Annotated[Literal[0], Integer, Field(description="a dynamic stack never qualifies")] | None = None
    stack_bytes: Limit | None = None
    local_load_count: Limit | None = None
    local_store_count: Limit | None = None
    spill_load_bytes: Limit | None = None
    spill_store_bytes: Limit | None = None
    lds_total_bytes: Limit | None = None
    vgpr_count: Limit | None = None
    sgpr_count: Limit | None = None
    register_count: Limit | None = None
    code_bytes: Limit | None = None

    def given(self) -> dict[str, int]:
        """The budgets that the file states, in the order of this class."""
        return self.model_dump(exclude_none=True)


class TargetFile(SpecModel):
    schema_: Annotated[Literal["assay.target/1"], Field(alias="schema")]
    target: Name
    summary: Text
    backend: Literal["hip", "cuda"]
    arch: Annotated[Name, Field(description="architecture as the binary spells it: gfx1201, sm_120a")]
    runs_on: Annotated[
        list[Name], Field(description="what devices that run this code call themselves, next to arch")
    ] = []
    compiler_arch: Annotated[str, Field(min_length=1, description="architecture as Triton takes it: gfx1201, 120")]
    wavefront_size: Annotated[Literal[32, 64], Integer]
    features: list[Name]
    limits: TargetLimits
    occupancy: OccupancyFacts
    budgets: Budgets
    evidence: Literal["static", "interpreted", "emulated"]


class ProfileFile(SpecModel):
    schema_: Annotated[Literal["assay.profile/1"], Field(alias="schema")]
    profile: Name
    summary: Text
    families: dict[Name, dict[Name, list[AxisValue]]]


class Axis(SpecModel):
    values: Annotated[list[AxisValue], Field(min_length=1)]
    about: Text


class LaunchAxis(Axis):
    """A field of a launch.  With `feature` the target decides it, and candidates do not give it."""

    feature: Annotated[
        Name | None, Field(description="the field is true where the target has this feature, and false elsewhere")
    ] = None


class Constraint(SpecModel):
    when: When
    require: When
    reason: Text


class Alignment(SpecModel):
    """Bytes that divide the address or the stride: a number, or the value of an axis."""

    bytes: Annotated[Literal[1, 2, 4, 8, 16], Integer] | None = None
    axis: Name | None = None


class ArgumentSpec(SpecModel):
    name: Name
    kind: Literal["pointer", "scalar", "size", "stride"]
    dtype: Dtype | None = None
    dtype_by: dict[Name, dict[str, Dtype]] | None = None
    role: Literal["input", "output", "inout"] | None = None
    shape: list[Name] | None = None
    of: Name | None = None
    dim: Name | None = None
    alignment: Alignment | None = None
    within_2gib: Annotated[
        When | None, Field(description="problems in which the caller promises that the tensor spans at most 2 GiB")
    ] = None
    when: When = {}
    about: Text | None = None


class LeastValue(SpecModel):
    """What a constant is raised to where a predicate on axes and target holds."""

    when: When
    value: int


class ConstantRule(SpecModel):
    """A compile-time constant of the kernel: an axis or launch value, its next power of two, or a literal."""

    value_of: Name | None = None
    next_power_of_two: Name | None = None
    literal: int | None = None
    at_least: LeastValue | None = None

    def source(self) -> dict[str, Any]:
        """Where the value comes from, by the rule's key: one entry in a sound rule."""
        return self.model_dump(include={"value_of", "next_power_of_two", "literal"}, exclude_none=True)


class Launch(SpecModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    num_stages: Annotated[int, Field(ge=1, le=8)]
    num_warps: Annotated[Literal[1, 2, 4, 8, 16, 32], Integer]


class CandidateGroup(SpecModel):
    when: When
    launches: Annotated[list[Launch], Field(min_length=1)]


class DispatchCondition(SpecModel):
    """A condition on something that is no axis: an extent, a batch.  Exactly one of the four limits."""

    when: When = {}
    field: Name
    extent_of: Annotated[
        list[Name], Field(description="tensors of which the field is the largest extent, in bytes from first to last")
    ] = []
    product_of: Annotated[list[Name], Field(description="dimensions of which the field is the product")] = []
    equal: AxisValue | None = None
    multiple_of: Annotated[int, Field(ge=1)] | None = None
    at_least: int | None = None
    at_most: int | None = None

    def limits(self) -> dict[str, bool | int | str]:
        """The limit that is given, by its operator."""
        return self.model_dump(include={"equal", "multiple_of", "at_least", "at_most"}, exclude_none=True)


class Preference(SpecModel):
    when: When
    preference: Annotated[int, Field(ge=0, le=1000)]


class InstructionRule(SpecModel):
    when: When
    require: dict[str, Annotated[int, Field(ge=1)]] = {}
    forbid: list[str] = []
    reason: Text


Mnemonic = Annotated[str, StringConstraints(pattern=MNEMONIC)]


class Workaround(SpecModel):
    """A form of the kernel that exists for a weakness of the compiler, and the plain form that it stands in for."""

    name: Name
    reason: Text
    since: Annotated[
        str,
        StringConstraints(pattern=r"^[0-9]+(\.[0-9]+){1,3}$"),
        Field(description="version of the compiler that was found to need it, quoted"),
    ]
    when: Annotated[When, Field(description="variants that have the workaround; excludes the alternative")]
    alternative: Annotated[
        dict[Name, AxisValue],
        Field(min_length=1, description="axis and launch values of the plain form; all else stays as it is"),
    ]
    hardware: Annotated[
        list[Mnemonic],
        Field(description="instructions of which the plain form must have one, or the compiler does it in software"),
    ] = []


class Tolerance(SpecModel):
    absolute: Annotated[float, Field(ge=0)]
    relative: Annotated[float, Field(ge=0)]
    against: Text


class FamilyFile(SpecModel):
    schema_: Annotated[Literal["assay.family/1"], Field(alias="schema")]
    family: Name
    summary: Text
    template: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.\-]+\.j2$")]
    kernel: Name
    axes: Annotated[dict[Name, Axis], Field(min_length=1)]
    constraints: list[Constraint] = []
    arguments: Annotated[list[ArgumentSpec], Field(min_length=1)]
    constants: dict[Name, ConstantRule] = {}
    dimensions: Annotated[
        dict[Name, Text], Field(description="sizes that the caller gives and no tensor has; the grid may use them")
    ] = {}
    grid: Annotated[list[list[GridTerm]], Field(min_length=1, max_length=3)]
    launch: dict[Name, LaunchAxis] = {}
    candidates: Annotated[list[CandidateGroup], Field(min_length=1)]
    dispatch: dict[Name, Literal["equal", "multiple_of", "at_least", "at_most"]]
    conditions: list[DispatchCondition] = []
    preferences: list[Preference] = []
    instructions: list[InstructionRule] = []
    workarounds: list[Workaround] = []
    budgets: Budgets = Budgets()
    tolerance: Tolerance


WaivableBudget = Literal[
    "vgpr_spill_count",
    "sgpr_spill_count",
    "scratch_bytes",
    "stack_bytes",
    "local_load_count",
    "local_store_count",
    "spill_load_bytes",
    "spill_store_bytes",
    "vgpr_count",
    "sgpr_count",
    "register_count",
    "code_bytes",
]


class Waiver(SpecModel):
    """One exception to one budget, for one variant and for a while.  Shared memory and argument layout have none."""

    name: Name
    target: Name
    profile: Name
    variant: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    budget: WaivableBudget
    ceiling: Annotated[int, Field(ge=1, description="highest value that the waiver lets pass")]
    reason: Text
    expires: Annotated[
        str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$"), Field(description="last day it holds, UTC")
    ]


class WaiverFile(SpecModel):
    schema_: Annotated[Literal["assay.waivers/1"], Field(alias="schema")]
    waivers: Annotated[list[Waiver], Field(min_length=1)]
