"""The one entry point: bytes of unknown origin to a code object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.objects.code_object import CodeObject, Kind
from assay.objects.cubin import read_cubin
from assay.objects.elf import Elf
from assay.objects.errors import ObjectError
from assay.objects.hsaco import read_hsaco
from assay.objects.sass import count_local_accesses

_MACHINES: dict[int, Kind] = {224: "hsaco", 190: "cubin"}  # EM_AMDGPU, EM_CUDA

# Containers that hold code objects but are none; the hint says how to get at them.
_CONTAINERS = {
    b"\x50\xed\x55\xba": "a CUDA fat binary: extract with `cuobjdump -xelf all`",
    b"__CLANG_OFFLOAD_BUNDLE__": "an offload bundle: extract with `clang-offload-bundler --unbundle`",
    b"CCOB": "a compressed offload bundle: extract with `clang-offload-bundler --unbundle`",
}


def identify(data: bytes) -> Kind | None:
    """What an ELF header's machine number says the file is; `None` if it is neither. Never raises."""
    if len(data) < 20 or data[:4] != b"\x7fELF":
        return None
    return _MACHINES.get(int.from_bytes(data[18:20], "little"))


def read_object(data: bytes, *, where: str, disassembler: Path | None = None) -> CodeObject:
    """Reads every kernel of an HSACO or a CUBIN, whoever made it.

    `where` names the file in messages. With a `disassembler` (see `find_disassembler`) a CUBIN's local loads
    and stores are counted; without one those two figures are `None`. An HSACO needs none.

    Raises ObjectError for anything that is not a whole, consistent code object with at least one kernel, and
    for a disassembler that fails. Never returns a partial result.
    """
    data = bytes(data)
    kind = identify(data)
    if kind is None:
        raise _unknown(data, where)
    elf = Elf(data, where)
    if kind == "hsaco":
        return read_hsaco(elf)
    code_object = read_cubin(elf)
    if disassembler is None:
        return code_object
    counts = count_local_accesses(data, disassembler, where=where)
    kernels = tuple(
        replace(
            kernel,
            resources=replace(
                kernel.resources,
                local_load_count=counts[kernel.name][0],
                local_store_count=counts[kernel.name][1],
            ),
        )
        for kernel in code_object.kernels
    )
    return replace(code_object, kernels=kernels)


def _unknown(data: bytes, where: str) -> ObjectError:
    allowed = "an HSACO (ELF machine 224) or a CUBIN (ELF machine 190)"
    if not data:
        return ObjectError(where, "empty file", allowed)
    for magic, hint in _CONTAINERS.items():
        if data.startswith(magic):
            return ObjectError(where, "a container of code objects", allowed, hint)
    if data[:4] != b"\x7fELF":
        return ObjectError(where, f"not an ELF file ({len(data)} bytes)", allowed)
    if len(data) < 20:
        return ObjectError(where, f"an ELF file cut off after {len(data)} bytes", allowed)
    return ObjectError(where, f"ELF machine {int.from_bytes(data[18:20], 'little')}", allowed)
