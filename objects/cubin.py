"""Reads a CUBIN: kernels from the symbol table, their figures from `.nv.info` and the sections."""

from __future__ import annotations

from dataclasses import dataclass

from assay.objects.code_object import CodeObject, Kernel
from assay.objects.elf import FLAG_EXECUTABLE, Elf, Section, Symbol
from assay.objects.nv_arch import read_arch
from assay.objects.nv_info import FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT, by_symbol, read_kernel_info
from assay.objects.resources import Resources

# st_other bit of a kernel's symbol (cuobjdump: STO_CUDA_ENTRY); device functions lack it.
STO_CUDA_ENTRY = 0x10

# From sm_90 on every `.nv.shared.<kernel>` begins with bytes that the driver reserves for itself, 1,024 a
# block. They are the driver's: on an H200 a kernel showing 1,024 launched with all 232,448 B dynamic, and with
# 1,024 B of real static memory (section: 2,048 B) with 231,424 B at most. sm_75 to sm_89 have no reserve in
# the section. A file that has the reserve says so by a section of this name.
SHARED_RESERVE_SECTION = ".nv.shared.reserved.0"
SHARED_RESERVE_BYTES = 1024

WARP_SIZE = 32  # every CUDA architecture to date (CUDA C++ Programming Guide, 'SIMT Architecture')

# CUDA C++ Programming Guide, 'Technical Specifications per Compute Capability': registers and bytes of local
# memory a thread may have. A larger figure is damage, not a kernel.
MAX_REGISTERS = 255
MAX_STACK_BYTES = 512 * 1024

# MIN_STACK_SIZE of a kernel whose depth the linker could not bound (recursion); cuobjdump prints UNKNOWN.
_UNKNOWN_STACK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Function:
    """One function with code: its symbol's index, name and section."""

    index: int
    symbol: Symbol
    section: Section

    @property
    def name(self) -> str:
        return self.symbol.name

    @property
    def is_kernel(self) -> bool:
        return bool(self.symbol.other & STO_CUDA_ENTRY)


def read_cubin(elf: Elf) -> CodeObject:
    """Every kernel of a linked CUBIN. Raises ObjectError for any fault; nothing partial is returned."""
    if elf.file_type != "ET_EXEC":
        hint = "a relocatable object has no final registers or stack: link it with nvlink"
        raise elf.error("ELF header", f"file type {elf.file_type}", "ET_EXEC", hint)
    arch = read_arch(elf)
    functions = read_functions(elf)
    kernels = [f for f in functions.values() if f.is_kernel]
    if not kernels:
        raise elf.error("symbol table", "zero kernels", "at least one")
    info = elf.section(".nv.info")
    if info is None:
        raise elf.error(".nv.info", "missing", "present")
    facts = by_symbol(elf, info)
    return CodeObject("cubin", arch, "cuda", tuple(_kernel(elf, f, facts, arch) for f in kernels))


def read_functions(elf: Elf) -> dict[int, Function]:
    """Every function with a `.text.<name>` section, by symbol index; clones inside a section are its own.

    Raises ObjectError where the names of sections and symbols do not fit each other, so that damage cannot
    make a kernel disappear.
    """
    functions: dict[int, Function] = {}
    names: set[str] = set()
    for index, symbol in enumerate(elf.symbols(".symtab")):
        if symbol.kind != "STT_FUNC" or symbol.section is None:
            continue
        section = elf.sections[symbol.section]
        function = Function(index, symbol, section)
        if section.name == f".text.{symbol.name}":
            if symbol.name in names:
                raise elf.error("symbol table", f"function {symbol.name!r} occurs twice")
            names.add(symbol.name)
            functions[index] = function
        elif function.is_kernel or not section.name.startswith(".text."):
            raise elf.error("symbol table", f"function {symbol.name!r} in section {section.name!r}")
    _check_names(elf, names, {f.name for f in functions.values() if f.is_kernel})
    return functions


def _check_names(elf: Elf, functions: set[str], kernels: set[str]) -> None:
    owners = {
        ".text.": functions,
        ".nv.info.": functions,
        ".nv.shared.": functions | {SHARED_RESERVE_SECTION.removeprefix(".nv.shared.")},
        ".nv.constant0.": kernels,  # the bank of parameters, which only a kernel has
    }
    for section in elf.sections:
        for prefix, names in owners.items():
            if section.name.startswith(prefix) and section.name.removeprefix(prefix) not in names:
                raise elf.error(section.name, "no function of that name in the symbol table")


def _kernel(elf: Elf, function: Function, facts: dict[int, dict[int, int]], arch: str) -> Kernel:
    name = function.name
    place = f"kernel {name!r}"
    info_section = elf.section(f".nv.info.{name}")
    missing = [] if info_section else [f".nv.info.{name}"]
    wanted = {"REGCOUNT": REGCOUNT, "FRAME_SIZE": FRAME_SIZE, "MIN_STACK_SIZE": MIN_STACK_SIZE}
    missing += [label for label, attribute in wanted.items() if function.index not in facts[attribute]]
    if missing or info_section is None:
        raise elf.error(place, f"missing {', '.join(missing)}", "all present")
    registers, frame, minimum = (facts[attribute][function.index] for attribute in wanted.values())
    if not 0 < registers <= MAX_REGISTERS:
        raise elf.error(place, f"{registers} registers", f"1 to {MAX_REGISTERS}")
    info = read_kernel_info(elf, info_section)
    code = _code(elf, function, place)
    resources = Resources(
        register_count=registers,
        stack_bytes=_stack(elf, place, frame, minimum),
        dynamic_stack=True if minimum == _UNKNOWN_STACK else None,
        lds_static_bytes=_shared_static(elf, name),
        max_threads=info.max_threads,
        wavefront_size=WARP_SIZE,
        kernarg_bytes=info.kernarg_bytes,
        code_bytes=len(code),
    )
    return Kernel(name, name, arch, "cuda", resources, info.arguments, code)


def _stack(elf: Elf, place: str, frame: int, minimum: int) -> int | None:
    """Bytes a thread: the kernel's own frame, or with what it calls if the linker could add that up."""
    stack = frame if minimum == _UNKNOWN_STACK else max(frame, minimum)
    if stack > MAX_STACK_BYTES:
        raise elf.error(place, f"stack of {stack} bytes a thread", f"at most {MAX_STACK_BYTES}")
    return None if minimum == _UNKNOWN_STACK else stack


def _shared_static(elf: Elf, name: str) -> int:
    section = elf.section(f".nv.shared.{name}")
    if section is None:
        return 0
    reserve = SHARED_RESERVE_BYTES if elf.section(SHARED_RESERVE_SECTION) else 0
    if section.size < reserve:
        raise elf.error(section.name, f"{section.size} bytes", f"at least the driver's {reserve}")
    return section.size - reserve


def _code(elf: Elf, function: Function, place: str) -> bytes:
    section, symbol = function.section, function.symbol
    if not symbol.size or not section.flags & FLAG_EXECUTABLE or not section.stored:
        given = f"{symbol.size} bytes in section {section.name}"
        raise elf.error(place, given, "code in an executable section")
    return elf.contents_at(section, section.address + symbol.value, symbol.size, place)
