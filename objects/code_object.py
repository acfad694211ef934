"""The records that reading a code object yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from assay.objects.resources import Resources

Kind = Literal["hsaco", "cubin"]
Backend = Literal["hip", "cuda"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: `offset` and `size` in bytes within the argument block.

    `kind` is the AMD `.value_kind` as written (`by_value`, `global_buffer`, `hidden_…`) or `param` in a
    CUBIN, which does not say more. `name` is what an AMD note gives, if it gives one.
    """

    offset: int
    size: int
    kind: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The 64-byte AMDGPU kernel descriptor (LLVM AMDGPUUsage, 'Kernel Descriptor'), as stored.

    `address` is the descriptor's and `entry` the first instruction's virtual address; sizes are bytes.
    """

    address: int
    entry: int
    group_segment_bytes: int
    private_segment_bytes: int
    kernarg_bytes: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `name` is what a launch asks for; `symbol` the ELF symbol behind it (the descriptor's for
    AMD, as the note writes it); `code` its machine code; `descriptor` is `None` in a CUBIN."""

    name: str
    symbol: str
    arch: str
    backend: Backend
    resources: Resources
    arguments: tuple[Argument, ...]
    code: bytes = field(repr=False)
    descriptor: Descriptor | None = None


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A whole file: at least one kernel, in the order of the note or of the symbol table."""

    kind: Kind
    arch: str
    backend: Backend
    kernels: tuple[Kernel, ...]
