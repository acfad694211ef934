"""Reads an HSACO: the note, and behind it the descriptor and code that a driver will really use.

A launch follows the descriptor and the ELF header, people read the note. Where both state a fact they must
agree, or the file is refused.
"""

from __future__ import annotations

import struct
from collections import defaultdict

from assay.objects.amd_chips import CODE_OBJECT_VERSIONS, MACH_MASK, target_id
from assay.objects.amd_note import NoteKernel, read_note
from assay.objects.code_object import CodeObject, Descriptor, Kernel
from assay.objects.elf import FLAG_EXECUTABLE, Elf, Symbol
from assay.objects.resources import Resources

ELFOSABI_AMDGPU_HSA = 64
DESCRIPTOR_BYTES = 64

# LLVM AMDGPUUsage, 'Kernel Descriptor': group, private and kernarg size, entry offset, rsrc3, rsrc1, rsrc2,
# code properties.
_DESCRIPTOR = struct.Struct("<III4xq20xIIIH6x")
_WAVEFRONT_SIZE_32 = 1 << 10
_USES_DYNAMIC_STACK = 1 << 11  # code object V5 on (LLVM review D128344); reserved and 0 before


def read_hsaco(elf: Elf) -> CodeObject:
    """Every kernel of an HSACO. Raises ObjectError for any fault; nothing partial is returned."""
    version = _code_object_version(elf)
    note = read_note(elf, version)
    arch = target_id(elf.flags, version)
    if arch is None:
        given = f"e_flags {elf.flags:#x}, processor {elf.flags & MACH_MASK:#x}"
        raise elf.error("ELF header", given, "a known processor and its feature bits")
    if note.target is not None and note.target != arch:
        given = f"e_flags {elf.flags:#x} say {arch}, the note says {note.target}"
        raise elf.error("architecture", given, "one answer")
    symbols = _Symbols(elf)
    kernels = tuple(_kernel(elf, kernel, symbols, arch, version) for kernel in note.kernels)
    return CodeObject("hsaco", arch, "hip", kernels)


class _Symbols:
    """Both symbol tables, which usually hold the same definitions, looked up by name and by address."""

    def __init__(self, elf: Elf) -> None:
        self.by_name: defaultdict[str, list[Symbol]] = defaultdict(list)
        self.functions_at: defaultdict[int, list[Symbol]] = defaultdict(list)
        for symbol in elf.symbols(".symtab") + elf.symbols(".dynsym"):
            if symbol.section is None:
                continue
            self.by_name[symbol.name].append(symbol)
            if symbol.kind == "STT_FUNC":
                self.functions_at[symbol.value].append(symbol)


def _code_object_version(elf: Elf) -> int:
    if elf.os_abi != ELFOSABI_AMDGPU_HSA:
        raise elf.error("ELF header", f"OS ABI {elf.os_abi}", f"{ELFOSABI_AMDGPU_HSA} (AMDGPU HSA)")
    if elf.file_type != "ET_DYN":
        raise elf.error("ELF header", f"file type {elf.file_type}", "ET_DYN", "link it with ld.lld first")
    version = CODE_OBJECT_VERSIONS.get(elf.abi_version)
    if version is None:
        allowed = ", ".join(f"{abi} (V{v})" for abi, v in CODE_OBJECT_VERSIONS.items())
        raise elf.error("ELF header", f"code object ABI version {elf.abi_version}", allowed)
    return version


def _kernel(elf: Elf, note: NoteKernel, symbols: _Symbols, arch: str, version: int) -> Kernel:
    descriptor = _descriptor(elf, note, symbols)
    _check_agreement(elf, note, descriptor)
    code = _code(elf, note, descriptor, symbols)
    numbers = note.numbers
    resources = Resources(
        vgpr_count=numbers[".vgpr_count"],
        sgpr_count=numbers[".sgpr_count"],
        vgpr_spill_count=numbers.get(".vgpr_spill_count"),
        sgpr_spill_count=numbers.get(".sgpr_spill_count"),
        scratch_bytes=numbers[".private_segment_fixed_size"],
        dynamic_stack=_dynamic_stack(note, descriptor, version),
        lds_static_bytes=numbers[".group_segment_fixed_size"],
        max_threads=numbers[".max_flat_workgroup_size"],
        wavefront_size=numbers[".wavefront_size"],
        kernarg_bytes=numbers[".kernarg_segment_size"],
        code_bytes=len(code),
    )
    return Kernel(note.name, note.symbol, arch, "hip", resources, note.arguments, code, descriptor)


def _dynamic_stack(note: NoteKernel, descriptor: Descriptor, version: int) -> bool | None:
    """Whether the stack's size is known only at run time; from V5 on the fixed size then reads 0.

    Either witness saying yes is enough. A descriptor saying no is not an answer without the note: a clear
    bit is also what a writer leaves that knows nothing of it.
    """
    flagged = version >= 5 and bool(descriptor.properties & _USES_DYNAMIC_STACK)
    return True if flagged else note.dynamic_stack


def _descriptor(elf: Elf, note: NoteKernel, symbols: _Symbols) -> Descriptor:
    place = f"kernel {note.name!r}: descriptor {note.symbol!r}"
    symbol = _defined_once(elf, place, symbols.by_name[note.symbol])
    if symbol.kind != "STT_OBJECT" or symbol.size != DESCRIPTOR_BYTES:
        allowed = f"STT_OBJECT, {DESCRIPTOR_BYTES} bytes"
        raise elf.error(place, f"symbol of kind {symbol.kind}, {symbol.size} bytes", allowed)
    raw = elf.contents_at(elf.sections[symbol.section or 0], symbol.value, DESCRIPTOR_BYTES, place)
    group, private, kernarg, entry, rsrc3, rsrc1, rsrc2, properties = _DESCRIPTOR.unpack(raw)
    return Descriptor(
        address=symbol.value,
        entry=symbol.value + entry,
        group_segment_bytes=group,
        private_segment_bytes=private,
        kernarg_bytes=kernarg,
        rsrc1=rsrc1,
        rsrc2=rsrc2,
        rsrc3=rsrc3,
        properties=properties,
    )


def _check_agreement(elf: Elf, note: NoteKernel, descriptor: Descriptor) -> None:
    wave = 32 if descriptor.properties & _WAVEFRONT_SIZE_32 else 64
    pairs = {
        ".group_segment_fixed_size": descriptor.group_segment_bytes,
        ".private_segment_fixed_size": descriptor.private_segment_bytes,
        ".kernarg_segment_size": descriptor.kernarg_bytes,
        ".wavefront_size": wave,
    }
    wrong = [
        f"{key} is {note.numbers[key]} in the note and {value} in the descriptor"
        for key, value in pairs.items()
        if note.numbers[key] != value
    ]
    if wrong:
        raise elf.error(f"kernel {note.name!r}", "; ".join(wrong), "equal figures")


def _code(elf: Elf, note: NoteKernel, descriptor: Descriptor, symbols: _Symbols) -> bytes:
    """The machine code: the function symbol at the descriptor's entry, whatever that symbol is called."""
    place = f"kernel {note.name!r}: code at {descriptor.entry:#x}"
    symbol = _defined_once(elf, place, symbols.functions_at[descriptor.entry])
    section = elf.sections[symbol.section or 0]
    if not symbol.size or not section.flags & FLAG_EXECUTABLE:
        given = f"{symbol.size} bytes in section {section.name}"
        raise elf.error(place, given, "code in an executable section")
    return elf.contents_at(section, symbol.value, symbol.size, place)


def _defined_once(elf: Elf, place: str, symbols: list[Symbol]) -> Symbol:
    """The one definition that all of `symbols` state."""
    places = {(s.section, s.value, s.size, s.kind) for s in symbols}
    if len(places) != 1:
        given = "no such symbol" if not places else f"{len(places)} different symbols"
        raise elf.error(place, given, "one definition")
    return symbols[0]
