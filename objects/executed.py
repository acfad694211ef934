"""What a launch of one kernel executes or reads out of its file: everything else may differ without effect.

Code and data are told from the rest by what a loader does with them: sections that are loaded (SHF_ALLOC) count, less
those that only a loader reads (notes, symbols, hashes, the dynamic table).  So a constant that the code reads counts,
whatever its section is called, and a build id, a comment, a line table or a path in one do not.
"""

from __future__ import annotations

import struct

from assay.objects.cubin import Function, read_functions
from assay.objects.elf import FLAG_ALLOCATED, FLAG_EXECUTABLE, Elf, Section, Symbol
from assay.objects.errors import ObjectError
from assay.objects.hsaco import DESCRIPTOR_BYTES, read_hsaco
from assay.objects.nv_callgraph import reachable
from assay.objects.read import identify

# Loaded, and read by the loader alone; relocations are compared by what they say.
_LOADERS = ("SHT_NOTE", "SHT_DYNSYM", "SHT_HASH", "SHT_GNU_HASH", "SHT_STRTAB", "SHT_DYNAMIC", "SHT_RELA")
# What the loader reserves: sizes of shared memory and of the parameter bank are resources, not code.
_RESOURCES = (".nv.shared.", ".nv.constant0.")
_KERNEL = "kernel"  # stands for its name, which is no part of what it does
_RELOCATION = struct.Struct("<QIIq")  # Elf64_Rela: offset, type, symbol, addend
_ENTRY = slice(16, 24)  # of a kernel descriptor: the distance to its code, which moves with sections in between

Parts = tuple[tuple[str, bytes], ...]


def executed_parts(data: bytes, kernel: str, *, where: str = "code object") -> Parts:
    """Named pieces of a file that decide what a launch of `kernel` does: its code, the functions it may call, its
    descriptor (AMD), constants and initial data, and the processor.

    Two files whose parts are equal run the same code on the same data.  Sizes of registers, stack and shared memory
    on NVIDIA are none of them (resources tell those), and neither is code for other processors that a CUBIN carries
    beside its own.  Raises ObjectError for a damaged file and where it has no such kernel.
    """
    kind = identify(data)
    elf = Elf(bytes(data), where)
    return _of_hsaco(elf, kernel) if kind == "hsaco" else _of_cubin(elf, kernel)


def callable_functions(data: bytes, kernel: str, *, where: str = "code object") -> tuple[tuple[str, bytes], ...]:
    """(name, machine code) of a kernel and of every function of the file that it may call; the kernel first.

    AMD files have no call graph: all functions that are no kernels count. Raises ObjectError as `executed_parts`.
    """
    kind = identify(data)
    elf = Elf(bytes(data), where)
    if kind == "hsaco":
        entries = _entries(elf)
        return tuple((s.name, _bytes(elf, s)) for s in _functions(elf, _entry(elf, entries, kernel), entries))
    return tuple((item.name, elf.contents(item.section)) for item in _reached(elf, kernel))


def _of_hsaco(elf: Elf, kernel: str) -> Parts:
    entries = _entries(elf)
    entry = _entry(elf, entries, kernel)
    descriptor = bytearray(_descriptor(elf, kernel))
    descriptor[_ENTRY] = bytes(8)
    parts = [("processor", elf.flags.to_bytes(4, "little")), ("descriptor", bytes(descriptor))]
    parts += [(f"function {number}", _bytes(elf, s)) for number, s in enumerate(_functions(elf, entry, entries))]
    for section in _loaded(elf):
        if not section.flags & FLAG_EXECUTABLE:
            parts.append((section.name, _without_descriptors(elf, section)))
    return (*parts, *_relocations(elf, _loaded(elf), ".dynsym", kernel))


def _of_cubin(elf: Elf, kernel: str) -> Parts:
    parts = [("processor", elf.flags.to_bytes(4, "little"))]
    reached = _reached(elf, kernel)
    parts += [(f"function {number}", elf.contents(item.section)) for number, item in enumerate(reached)]
    for section in _loaded(elf):
        if not section.flags & FLAG_EXECUTABLE and not section.name.startswith(_RESOURCES):
            parts.append((section.name.replace(kernel, _KERNEL), _contents(elf, section)))
    counted = [item.section for item in reached] + [s for s in _loaded(elf) if not s.flags & FLAG_EXECUTABLE]
    return (*parts, *_relocations(elf, counted, ".symtab", kernel))


def _loaded(elf: Elf) -> list[Section]:
    """Sections whose bytes, or whose size where they begin as zeros, code may read."""
    found = [s for s in elf.sections if s.flags & FLAG_ALLOCATED and s.kind not in _LOADERS]
    return [s for s in found if s.size and s.name != ".relro_padding"]


def _relocations(elf: Elf, counted: list[Section], table: str, kernel: str) -> Parts:
    """What the loader writes into the sections that count: where, how, and which address. Symbols by their places."""
    symbols = elf.symbols(table)
    lines = []
    for section in elf.sections:
        if section.kind == "SHT_RELA" and section.stored:
            raw = elf.contents(section)
            if len(raw) % _RELOCATION.size:
                raise elf.error(section.name, f"{len(raw)} bytes", f"a multiple of {_RELOCATION.size}")
            for offset, kind, number, addend in _RELOCATION.iter_unpack(raw):
                target = _patched(elf, section, offset)
                if target is not None and target in counted:
                    if number >= len(symbols):
                        raise elf.error(section.name, f"symbol {number}", f"below {len(symbols)}")
                    place = f"{target.name}+{offset - target.address:#x}"
                    lines.append(f"{place} {kind} {_place(elf, symbols[number])} {addend}".replace(kernel, _KERNEL))
    return (("relocations", "\n".join(sorted(lines)).encode()),) if lines else ()


def _patched(elf: Elf, section: Section, offset: int) -> Section | None:
    """The section that a relocation changes: named in the header, or found by its address."""
    if 0 < section.info < len(elf.sections):
        return elf.sections[section.info]
    return next((s for s in _loaded(elf) if s.address <= offset < s.address + s.size), None)


def _place(elf: Elf, symbol: Symbol) -> str:
    if symbol.section is None:
        return symbol.name
    section = elf.sections[symbol.section]
    return f"{section.name}+{symbol.value - section.address:#x}"


def _contents(elf: Elf, section: Section) -> bytes:
    return elf.contents(section) if section.stored else section.size.to_bytes(8, "little")


def _entries(elf: Elf) -> dict[str, int]:
    """Kernel name → address of its first instruction."""
    return {item.name: item.descriptor.entry for item in read_hsaco(elf).kernels if item.descriptor}


def _entry(elf: Elf, entries: dict[str, int], kernel: str) -> int:
    if kernel not in entries:
        raise _no_kernel(elf, kernel, list(entries))
    return entries[kernel]


def _functions(elf: Elf, entry: int, entries: dict[str, int]) -> list[Symbol]:
    """The kernel at `entry`, then every function that is no kernel, by address."""
    found = {s.value: s for s in elf.symbols(".symtab") + elf.symbols(".dynsym") if _is_function(s)}
    others = [found[at] for at in sorted(found) if at not in entries.values()]
    return [found[entry], *others]


def _is_function(symbol: Symbol) -> bool:
    return symbol.kind == "STT_FUNC" and symbol.section is not None and symbol.size > 0


def _bytes(elf: Elf, symbol: Symbol) -> bytes:
    return elf.contents_at(elf.sections[symbol.section or 0], symbol.value, symbol.size, symbol.name)


def _descriptor(elf: Elf, kernel: str) -> bytes:
    found = next(item for item in read_hsaco(elf).kernels if item.name == kernel)
    symbol = next(s for s in elf.symbols(".symtab") + elf.symbols(".dynsym") if s.name == found.symbol)
    return _bytes(elf, symbol)


def _without_descriptors(elf: Elf, section: Section) -> bytes:
    """A section with the kernels' descriptors blanked: each kernel's own is compared on its own."""
    raw = bytearray(_contents(elf, section))
    if section.stored:
        for item in read_hsaco(elf).kernels:
            start = item.descriptor.address - section.address if item.descriptor else -1
            if 0 <= start < section.size:
                raw[start : start + DESCRIPTOR_BYTES] = bytes(DESCRIPTOR_BYTES)
    return bytes(raw)


def _reached(elf: Elf, kernel: str) -> list[Function]:
    """The kernel, then what it may call, by name; each function's section holds its clones too."""
    functions = read_functions(elf)
    names = reachable(elf, functions)
    if kernel not in names:
        raise _no_kernel(elf, kernel, list(names))
    by_name = {item.name: item for item in functions.values()}
    return [by_name[kernel], *(by_name[name] for name in sorted(names[kernel]) if name != kernel)]


def _no_kernel(elf: Elf, kernel: str, there: list[str]) -> ObjectError:
    return elf.error("", f"no kernel {kernel!r}", ", ".join(there))
