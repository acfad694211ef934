"""The records a bundle holds. All frozen, all spelled in canonical JSON; a dictionary inside is to be read only.

What may stand in each field is said once, in `rules.py`, for the writer and the reader alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .conditions import Condition

# The schema of the JSON documents inside (the container around them has its own version, in format.py). A new optional
# field raises the second number; anything an older reader must not misread raises the first.
SCHEMA = (1, 0)

BACKENDS = ("hip", "cuda")

# Kind of a kernel argument -> its size in bytes, or None where any size may stand.
ARGUMENT_KINDS: dict[str, int | None] = {"pointer": 8, "i32": 4, "i64": 8, "f32": 4, "hidden": None}


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument as the binary lays it out. `offset` and `size` in bytes; `kind` one of ARGUMENT_KINDS."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the dispatch table: when to launch which code object, and how. All a runtime needs, and no more."""

    id: str
    """The variant's id."""
    family: str
    target: str
    """Name of a TargetRecord of the same bundle."""
    conditions: tuple[Condition, ...]
    """All must hold. Their order is the order in which a failed one is reported first."""
    preference: int
    """From the spec; the row with the higher one is tried first."""
    symbol: str
    """The kernel's name inside the code object."""
    object: str
    """SHA-256 of the raw code object, hexadecimal."""
    grid: tuple[tuple[str, ...], ...]
    """One to three axes, each a product of named dimensions of the call; an empty axis is 1."""
    num_warps: int
    wavefront_size: int
    lds_bytes: int
    """Dynamic shared memory to ask for at launch, bytes."""
    arguments: tuple[KernelArgument, ...]
    """Every argument of the binary in order of offset, hidden ones included."""
    hidden_arguments: int
    """How many of the arguments are hidden: appended by the compiler, not given by the caller."""
    launch: dict[str, Any] = field(hash=False)
    specialisation: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """What was built, for a reader: not needed to launch. `source` is the rendered source text itself."""

    id: str
    family: str
    problem: dict[str, Any] = field(hash=False)
    launch: dict[str, Any] = field(hash=False)
    target: str
    specialisation: dict[str, Any] = field(hash=False)
    resources: dict[str, Any] = field(hash=False)
    source_sha256: str
    code_sha256: str
    source: str
    instructions: dict[str, int] | None = field(default=None, hash=False)
    """Instruction counts read from the binary, or None where they were not counted."""


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A target the bundle holds code for."""

    name: str
    backend: str
    """One of BACKENDS."""
    arch: str
    """As the binary spells it: gfx1201, sm_120a."""
    lds_limit: int
    """Shared memory a workgroup may use, bytes."""
    wavefront_size: int
    runs_on: tuple[str, ...] = ()
    """Further device names that run this code, where the target's file says so (an sm_120a binary on a device that
    calls itself sm_120). Empty: a device of exactly `arch` and no other."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the bundle is, and from what it was made. No time of day, no path, no host."""

    bundle_version: str
    assay_version: str
    toolchain: dict[str, Any] = field(hash=False)
    """Triton's version, the wheel's hash, and whatever else changes code."""
    profile: str
    targets: tuple[TargetRecord, ...]
    sources: dict[str, str] = field(hash=False)
    """Spec and template names, relative to the spec folder -> SHA-256."""
    families: dict[str, Any] = field(hash=False)
    """Family -> its contract with the caller (arguments and their meaning)."""
    counts: dict[str, int] = field(default_factory=dict, hash=False)
    """Filled in by the writer: rows, variants, objects, sources, and rows of each target."""
    bytes: dict[str, int] = field(default_factory=dict, hash=False)
    """Filled in by the writer: raw bytes of the table, variants, objects and sources. Raw, because the compressed
    sizes depend on the zlib at hand and the manifest is part of the identity (`Bundle.sizes` gives those)."""
    schema: tuple[int, int] = SCHEMA


@dataclass(frozen=True, slots=True)
class Contents:
    """All that goes into one bundle. The order of anything in it makes no difference to the file."""

    manifest: Manifest
    rows: tuple[Row, ...]
    variants: tuple[VariantRecord, ...]
    objects: Mapping[str, bytes] = field(hash=False)
    """SHA-256 of each raw code object -> its bytes."""
    evidence: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    """Name -> a JSON document, appended behind the identity-bearing part."""


def as_json(record: Any) -> dict[str, Any]:
    """The record as plain dictionaries, lists and scalars."""
    return dataclasses.asdict(record)


def by_id(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by their id."""
    return {row.id: row for row in rows}
