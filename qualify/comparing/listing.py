"""The disassembly of one kernel, of either maker, as lines that can be compared and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.bundle.faults import Fault, FaultsError
from assay.objects import ObjectError, find_disassembler, read_object
from assay.objects.executed import callable_functions
from assay.objects.sass_listing import SassLine, sass_lines

if TYPE_CHECKING:
    from assay.emulator.lines import SourceLines


class NoListing(FaultsError):
    """Code that cannot be disassembled here: no tool, another architecture, a damaged file."""


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction.

    `address` is in bytes from the kernel's first instruction; functions that it may call stand behind it, as if they
    lay there. `text` is the instruction alone, without encoding. `labels` are the names of this place that other
    instructions use. `sources` are the `file:line` marks before it, where the code has a line table.
    """

    address: int
    text: str
    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def kernel_listing(code: bytes, symbol: str, backend: str, *, line_info: bool = False) -> tuple[Line, ...]:
    """The instructions of kernel `symbol` and of what it may call, in order of address.

    backend: `hip` or `cuda`. gfx12 code is printed in LLVM's syntax by the emulator's decoder, SASS by NVIDIA's tool.
    line_info: with the source marks of a line table, where the code has one. Raises NoListing, naming what is missing.
    """
    try:
        return _amd(code, symbol, line_info) if backend == "hip" else _nvidia(code, symbol, line_info)
    except ObjectError as error:
        raise NoListing(Fault(error.where, error.given, error.allowed, error.hint)) from None


def _nvidia(code: bytes, symbol: str, line_info: bool) -> tuple[Line, ...]:
    tool = find_disassembler()
    if tool is None:
        hint = "the Triton wheel carries it: pip install '.[build]'"
        raise NoListing(Fault("nvdisasm", "neither in the installed Triton nor on PATH", "one of them", hint))
    found: list[Line] = []
    for lines in sass_lines(code, symbol, tool, line_info=line_info).values():
        start = found[-1].address + 16 if found else 0
        found += [_shifted(start, line) for line in lines]
    return tuple(found)


def _shifted(start: int, line: SassLine) -> Line:
    return Line(start + line.address, line.text, line.labels, line.sources)


def _amd(code: bytes, symbol: str, line_info: bool) -> tuple[Line, ...]:
    from assay.emulator import ARCHITECTURES
    from assay.emulator.lines import SourceLines

    functions = callable_functions(code, symbol, where=symbol)
    kernel = next(item for item in read_object(code, where=symbol).kernels if item.name == symbol)
    if kernel.arch not in ARCHITECTURES:
        allowed = ", ".join(sorted(ARCHITECTURES))
        hint = "its bytes, resources and launch are compared all the same"
        raise NoListing(Fault(symbol, f"no disassembler for {kernel.arch}", allowed, hint))
    table = SourceLines(code, kernel.descriptor.entry) if line_info and kernel.descriptor else None
    lines = _amd_function(functions[0][1], 0, ".L", table)
    for number, (_, body) in enumerate(functions[1:], 1):
        start = sum(len(other) for _, other in functions[:number])
        lines += _amd_function(body, start, f".F{number}L", None)
    return tuple(lines)


def _amd_function(body: bytes, start: int, prefix: str, table: SourceLines | None) -> list[Line]:
    """A function's lines; a source mark stands where it changes."""
    from assay.emulator.assembly import disassemble

    lines, last = [], ""
    for item in disassemble(body, prefix=prefix):
        source = table.find(item.address) if table else ""
        marks = (source,) if source and source != last else ()
        last = source or last
        text = f"{', '.join(item.data)}  ; {item.text}" if item.data else item.text
        lines.append(Line(start + item.address, text, (item.label,) if item.label else (), marks))
    return lines
