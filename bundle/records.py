"""The records a bundle holds. All frozen, all spelled in canonical JSON; a dictionary inside is to be read only.

What may stand in each field is said once, in `rules.py`, for the writer and the reader alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .conditions import Condition
from .record import Record

# The schema of the JSON documents inside (the container around them has its own version, in format.py). A new optional
# field raises the second number; anything an older reader must not misread raises the first.
SCHEMA = (1, 0)
# Of a companion (companions.py): an older reader would launch what it holds as if it were qualified.
COMPANION_SCHEMA = (2, 0)

BACKENDS = ("hip", "cuda")

# Kind of a kernel argument -> its size in bytes, or None where any size may stand.
ARGUMENT_KINDS: dict[str, int | None] = {"pointer": 8, "i32": 4, "i64": 8, "f32": 4, "hidden": None}


class KernelArgument(Record):
    """One argument as the binary lays it out. `offset` and `size` in bytes; `kind` one of ARGUMENT_KINDS."""

    __slots__ = ()

    name: str
    offset: int
    size: int
    kind: str


class Row(Record):
    """One row of the dispatch table: when to launch which code object, and how. All a runtime needs, and no more."""

    __slots__ = ()

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
    """One to three axes, each a product of terms, as `grid_size` reads them; an empty axis is 1."""
    num_warps: int
    wavefront_size: int
    lds_bytes: int
    """Dynamic shared memory to ask for at launch, bytes."""
    arguments: tuple[KernelArgument, ...]
    """Every argument of the binary in order of offset, hidden ones included."""
    hidden_arguments: int
    """How many of the arguments are hidden: appended by the compiler, not given by the caller."""
    launch: dict[str, Any]
    specialisation: dict[str, Any]

    def __hash__(self) -> int:
        # Dictionaries have none.
        return hash((self.id, self.family, self.target, self.object))


class VariantRecord(Record):
    """What was built, for a reader: not needed to launch. `source` is the rendered source text itself."""

    __slots__ = ()

    id: str
    family: str
    problem: dict[str, Any]
    launch: dict[str, Any]
    target: str
    specialisation: dict[str, Any]
    resources: dict[str, Any]
    source_sha256: str
    code_sha256: str
    source: str
    instructions: dict[str, int] | None = None
    """Instruction counts read from the binary, or None where they were not counted."""

    def __hash__(self) -> int:
        # Dictionaries have none.
        return hash((self.id, self.family, self.target, self.code_sha256))


class TargetRecord(Record):
    """A target the bundle holds code for."""

    __slots__ = ()

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


class Manifest(Record):
    """What the bundle is, and from what it was made. No time of day, no path, no host."""

    __slots__ = ()

    bundle_version: str
    assay_version: str
    toolchain: dict[str, Any]
    """Triton's version, the wheel's hash, and whatever else changes code."""
    profile: str
    targets: tuple[TargetRecord, ...]
    sources: dict[str, str]
    """Spec and template names, relative to the spec folder -> SHA-256."""
    families: dict[str, Any]
    """Family -> its contract with the caller (arguments and their meaning)."""
    counts: dict[str, int] = {}  # noqa: RUF012 - to be read only, as every dictionary here
    """Filled in by the writer: rows, variants, objects, sources, and rows of each target."""
    bytes: dict[str, int] = {}  # noqa: RUF012 - to be read only, as every dictionary here
    """Filled in by the writer: raw bytes of the table, variants, objects and sources. Raw, because the compressed
    sizes depend on the zlib at hand and the manifest is part of the identity (`Bundle.sizes` gives those)."""
    schema: tuple[int, int] = SCHEMA
    """COMPANION_SCHEMA exactly where `companion` is given."""
    companion: dict[str, Any] | None = None
    """Of which bundle this is a companion, and what of it was rewritten: companions.py. None of a bundle that ships."""

    def __hash__(self) -> int:
        # Dictionaries have none.
        return hash((self.bundle_version, self.assay_version, self.profile, self.targets))


def as_json(record: Any) -> dict[str, Any]:
    """The record as plain dictionaries, lists and scalars."""
    return {name: _plain(value) for name, value in zip(record._fields, record, strict=True)}


def _plain(value: Any) -> Any:
    if hasattr(value, "_fields"):
        return as_json(value)
    return [_plain(item) for item in value] if type(value) is tuple else value


def by_id(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by their id."""
    return {row.id: row for row in rows}
