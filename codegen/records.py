"""The frozen records that pass between the stages: problem, candidate, compile request, variant, outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

AxisItems = tuple[tuple[str, bool | int | str], ...]


def canonical_json(value: Any) -> str:
    """One spelling a value: what identities are hashed from."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def sha256_hex(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Problem:
    """What a caller's call needs of one family on one target, independent of tuning."""

    family: str
    target: str
    axes: AxisItems

    @property
    def label(self) -> str:
        """`head_dim=128 block_m=4 …`, in the order of the family file; unique within family and target."""
        return " ".join(f"{name}={spell(value)}" for name, value in self.axes)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A combination of axis values that a constraint takes out, and why."""

    family: str
    axes: AxisItems
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One launch tried for a problem: tile sizes, kernel form, num_stages and num_warps."""

    problem: Problem
    launch: AxisItems

    @property
    def label(self) -> str:
        return " ".join(f"{name}={spell(value)}" for name, value in self.launch)


def spell(value: Any) -> str:
    """An axis value as specs and commands spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class ExpectedArgument:
    """One explicit kernel argument as the spec lays it out: natural alignment, in order; bytes."""

    name: str
    kind: Literal["pointer", "i32", "i64", "f32"]
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """All that decides the bytes of a code object, next to the compiler build itself.

    signature: (argument, Triton type or "constexpr") in the kernel's order.
    divisibility: (argument, divisor that the caller promises).  within_2gib: pointers whose tensors span no more.
    shared_limit_bytes: launch-time shared memory beyond which the compilation is given up, as it cannot qualify.
    """

    source: str
    kernel: str
    backend: Literal["hip", "cuda"]
    compiler_arch: str
    wavefront_size: int
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    divisibility: tuple[tuple[str, int], ...]
    within_2gib: tuple[str, ...]
    num_warps: int
    num_stages: int
    options: tuple[tuple[str, Any], ...] = ()
    shared_limit_bytes: int | None = None
    enable_fp_fusion: bool = True
    line_info: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Variant:
    """A candidate made concrete.  `id` hashes problem, launch, target, specialisation and rendered source, no more.

    grid: of each axis the terms, `dimension` or `dimension/N`, as bundle.records.grid_size reads them.
    """

    id: str
    candidate: Candidate
    request: CompileRequest
    arguments: tuple[ExpectedArgument, ...]
    grid: tuple[tuple[str, ...], ...]

    @property
    def specialisation(self) -> dict[str, Any]:
        """What the caller promises: divisors (elements for strides, bytes for pointers) and 2 GiB ranges."""
        return {"divisible_by": dict(self.request.divisibility), "within_2gib": list(self.request.within_2gib)}


OutcomeStatus = Literal["compiled", "compile_error", "compiler_complaint", "abandoned", "crashed", "timed_out"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one compilation gave.  Only `compiled` carries a code object; every other status is a failure.

    compile_error: the compiler refused.  compiler_complaint: it returned an object but printed an error on the way, as
    LLVM does when it drops inline assembly.  abandoned: more shared memory than the request allows, known before the
    last compiler stages, which were left out; only `shared_bytes` is known then.  crashed, timed_out: the worker died
    or was stopped; never cached.
    messages: what the compiler printed.  shared_bytes: launch-time shared memory.  ir_sha256: of the Triton GPU IR, see
    ir_text.  seconds: inside the worker; cpu_seconds: of processors, its tools' too, which other work on the machine
    changes less.
    """

    status: OutcomeStatus
    code: bytes = b""
    messages: str = ""
    symbol: str = ""
    num_warps: int | None = None
    shared_bytes: int | None = None
    global_scratch_bytes: int | None = None
    profile_scratch_bytes: int | None = None
    triton_n_spills: int | None = None
    ir_sha256: str | None = None
    instructions: Mapping[str, int] | None = None
    sass_local: tuple[int, int] | None = None
    assembler_spills: tuple[int, int] | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    cached: bool = field(default=False, compare=False)
