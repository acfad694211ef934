"""The disassembly of one kernel of a CUBIN, and of what it may call, as lines without encodings.

The scheduling fields of an instruction (stall counts, barriers, yield) are not in the tools' text, so two listings may
be equal where the bytes are not: bytes decide first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from assay.objects.cubin import read_functions
from assay.objects.elf import Elf
from assay.objects.errors import ObjectError
from assay.objects.nv_callgraph import reachable
from assay.objects.sass import INSTRUCTION_BYTES, list_sass

_SECTION = re.compile(r'^\s*\.section\s+"?\.text\.(?P<name>[^,"\s]+)"?,')  # nvdisasm
_FUNCTION = re.compile(r"^\s*Function : (?P<name>\S+)\s*$")  # cuobjdump
_LABEL = re.compile(r"^(?P<name>[^\s/:]+):\s*$")
_INSTRUCTION = re.compile(r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]+?)\s*;?(?:\s*/\*.*)?\s*$")
_MARK = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<more>.*)$')


@dataclass(frozen=True, slots=True)
class SassLine:
    """One instruction. `address` is in bytes from the function's start; `labels` are the names of this place;
    `sources` the `file:line` marks that the tool put before it, the innermost first."""

    address: int
    labels: tuple[str, ...]
    text: str
    sources: tuple[str, ...] = ()


def sass_lines(
    cubin: bytes, kernel: str, disassembler: Path, *, line_info: bool = False, where: str = "cubin"
) -> dict[str, tuple[SassLine, ...]]:
    """Function name → its instructions: the kernel first, then the functions that it may call, by name.

    Raises ObjectError if the file is no sound CUBIN or has no such kernel, and if the tool is missing, fails or prints
    another number of instructions than the function's section holds.
    """
    elf = Elf(bytes(cubin), where)
    functions = read_functions(elf)
    names = reachable(elf, functions)
    if kernel not in names:
        raise elf.error("", f"no kernel {kernel!r}", ", ".join(names))
    listed = _by_function(list_sass(cubin, disassembler, line_info=line_info, where=where))
    sizes = {item.name: item.section.size for item in functions.values()}
    wanted = [kernel, *sorted(names[kernel] - {kernel})]
    return {name: _whole(listed.get(name, []), sizes[name], f"{where}: function {name!r}") for name in wanted}


def _by_function(listing: str) -> dict[str, list[SassLine]]:
    found: dict[str, list[SassLine]] = {}
    current: list[SassLine] = []
    labels: list[str] = []
    sources: list[str] = []
    for line in listing.splitlines():
        if heading := _SECTION.match(line) or _FUNCTION.match(line):
            current, labels = found.setdefault(heading["name"], []), []
        elif label := _LABEL.match(line):
            labels.append(label["name"])
        elif mark := _MARK.match(line):
            sources.append(f"{mark['file']}:{mark['line']}{mark['more']}")
        elif instruction := _INSTRUCTION.match(line):
            address = int(instruction["address"], 16)
            current.append(SassLine(address, tuple(labels), instruction["text"], tuple(sources)))
            labels, sources = [], []
    return found


def _whole(lines: list[SassLine], size: int, place: str) -> tuple[SassLine, ...]:
    if [line.address for line in lines] != list(range(0, size, INSTRUCTION_BYTES)):
        allowed = f"{size // INSTRUCTION_BYTES} of {INSTRUCTION_BYTES} bytes each"
        raise ObjectError(place, f"{len(lines)} instructions listed for {size} bytes", allowed)
    return tuple(lines)
