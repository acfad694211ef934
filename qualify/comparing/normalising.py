"""Kernel code without what does not matter: register numbers, addresses, names of labels.

Two listings are equal after normalising exactly if the registers of each file of the one can be renamed one to one into
those of the other, and labels likewise in order, so that line for line the same text results.  Registers that a line
takes together (`v[4:7]`) keep their distances.  Runs that share a register form a block, which a renaming can only move
as a whole.  So a register is written as the number of its block, by first use, and its place in the block: `v[4:7]` as
`v<0:0-3>`, and `v5` behind it as `v<0:1>`.  Equal text then means that blocks correspond, of one shape each.

Not renamed are registers with a meaning of their own (vcc, exec, m0, null, ttmp, RZ, PT, URZ) and those that hold
arguments when the kernel begins, with the whole block around one: a kernel that reads s2 there is another one than one
that reads s3.  Where a line uses registers that it does not name (an index in M0, a warp-group product, an instruction
that is printed as numbers), that file keeps its numbers throughout.

What hardware asks of numbers, such as even ones for pairs, is not modelled.  NVIDIA's tools print neither the stall
counts nor the barriers of an instruction, so that SASS may be equal here where it waits differently: compare bytes
first (`same_code_section`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay.objects import ObjectError, read_object
from assay.objects.amd_chips import RDNA4
from assay.objects.executed import executed_parts

from .listing import Line, kernel_listing
from .registers import Named, fixed_files, named_registers

# What a kernel may find its arguments in, where its descriptor is not at hand: sixteen user SGPRs are the most that
# gfx12 loads, the packed work-item numbers are in v0 (AMDGPUUsage, 'Initial Kernel Execution State'), R1 is the stack.
ENTRY_REGISTERS = frozenset({("v", 0), ("R", 1), *(("s", number) for number in range(16))})
_RSRC1, _REGISTER_COUNTS = slice(48, 52), 0x3FF  # of a descriptor; its counts of VGPRs and SGPRs
_USER_SGPRS_SHIFT, _USER_SGPRS_MASK = 1, 31  # of COMPUTE_PGM_RSRC2 (AMDGPUUsage, 'compute_pgm_rsrc2')

Register = tuple[str, int]
# As this listing and NVIDIA's tool call the places that branches lead to.
_LABEL_NAME = re.compile(r"(?<![\w$.])\.(?:F\d+)?L(?:_x_)?\d+(?!\w)")
_LABEL = re.compile(r"[.$\w]*[.$A-Za-z_][.$\w]*")


def same_code_section(a: bytes, b: bytes, symbol_a: str, symbol_b: str) -> bool:
    """Whether launching kernel `symbol_a` of file `a` executes the bytes that `symbol_b` of `b` does.

    Code, what it may call, the descriptor (AMD) and every constant that is loaded with it; build ids, comments, line
    tables, paths and names may differ. A file that cannot be read is the same as none.
    """
    try:
        return executed_parts(a, symbol_a) == executed_parts(b, symbol_b)
    except ObjectError:
        return False


def normalised(lines: Sequence[Line], entry: frozenset[Register] = ENTRY_REGISTERS) -> tuple[str, ...]:
    """One text a line; see above. entry: the registers that hold arguments when the kernel begins."""
    names = _Names(lines, entry)
    labels = _label_names(lines)
    return tuple(names.rename(_relabelled(line, labels)) for line in lines)


def entry_registers(code: bytes, symbol: str) -> frozenset[Register]:
    """The registers that hold arguments when this kernel begins: as many user SGPRs as an AMD descriptor asks for.

    ENTRY_REGISTERS where the code does not say.
    """
    for kernel in read_object(code, where=symbol).kernels:
        if kernel.name == symbol and kernel.descriptor is not None and kernel.arch in RDNA4:
            count = kernel.descriptor.rsrc2 >> _USER_SGPRS_SHIFT & _USER_SGPRS_MASK
            return frozenset({("v", 0), *(("s", number) for number in range(count))})
    return ENTRY_REGISTERS


def shape(text: str) -> str:
    """A line with the numbers of its registers left out: what to align two listings by, since one register more
    in the one gives every later block another number.  Labels are left out too."""
    text = _LABEL_NAME.sub(".L", text)
    result, at = [], 0
    for name in named_registers(text):
        length = f":{name.length}" if name.length > 1 else ""
        result += [text[at : name.start], f"{name.file}{length}"]
        at = name.end
    return "".join([*result, text[at:]])


def labels_in(text: str) -> list[str]:
    """The labels that a line names, from left to right."""
    return _LABEL_NAME.findall(text)


def same_after_renaming(a: bytes, b: bytes, symbol_a: str, symbol_b: str, backend: str) -> bool:
    """Whether two kernels are equal after normalising, constants and descriptors included: all of a descriptor but
    the numbers of registers, which a renaming changes, and of what the loader writes into code.

    Raises NoListing where code cannot be disassembled here.
    """
    try:
        parts_a, parts_b = executed_parts(a, symbol_a), executed_parts(b, symbol_b)
    except ObjectError:
        return False
    if [_kept(*part) for part in parts_a] != [_kept(*part) for part in parts_b]:
        return False
    one, other = kernel_listing(a, symbol_a, backend), kernel_listing(b, symbol_b, backend)
    return normalised(one, entry_registers(a, symbol_a)) == normalised(other, entry_registers(b, symbol_b))


def _kept(name: str, data: bytes) -> tuple[str, bytes | int]:
    """Of a function its length alone: the same instructions are as long on other registers."""
    if name.startswith("function "):
        return name, len(data)
    if name != "descriptor":
        return name, data
    word = int.from_bytes(data[_RSRC1], "little") & ~_REGISTER_COUNTS
    return name, data[: _RSRC1.start] + word.to_bytes(4, "little") + data[_RSRC1.stop :]


class _Names:
    """The new names of all registers of a listing."""

    def __init__(self, lines: Sequence[Line], entry: frozenset[Register]):
        self._fixed = frozenset().union(*(fixed_files(line.text) for line in lines)) if lines else frozenset()
        self._block = _blocks(name for line in lines for name in named_registers(line.text))
        self._kept = {self._block[item] for item in entry if item in self._block}
        self._numbers: dict[Register, int] = {}
        self._used: dict[str, int] = {}

    def rename(self, text: str) -> str:
        result, at = [], 0
        for name in named_registers(text):
            result += [text[at : name.start], self._name(name)]
            at = name.end
        return "".join([*result, text[at:]])

    def _name(self, name: Named) -> str:
        block = self._block[name.file, name.first]
        run = f"-{name.first + name.length - 1}" if name.length > 1 else ""
        if name.file in self._fixed or block in self._kept:
            return f"{name.file}{name.first}{run}"
        if block not in self._numbers:
            self._numbers[block] = self._used.get(name.file, 0)
            self._used[name.file] = self._numbers[block] + 1
        offset = name.first - block[1]
        run = f"-{offset + name.length - 1}" if name.length > 1 else ""
        return f"{name.file}<{self._numbers[block]}:{offset}{run}>"


def _blocks(names: Iterable[Named]) -> dict[Register, Register]:
    """Register → the lowest register of its block: runs that share a register, and no gap between, belong together."""
    runs: dict[str, set[tuple[int, int]]] = {}
    for name in names:
        runs.setdefault(name.file, set()).add((name.first, name.first + name.length))
    found: dict[Register, Register] = {}
    for file, spans in runs.items():
        lowest = end = -1
        for first, behind in sorted(spans):
            lowest = first if first >= end else lowest
            end = max(end, behind)
            found.update({(file, number): (file, lowest) for number in range(first, behind)})
    return found


def _label_names(lines: Sequence[Line]) -> dict[str, str]:
    """Label → its number among the labelled places, in order of address."""
    places = [line for line in lines if line.labels]
    return {label: f"L{number}" for number, line in enumerate(places) for label in line.labels}


def _relabelled(line: Line, labels: dict[str, str]) -> str:
    return _LABEL.sub(lambda found: labels.get(found.group(), found.group()), line.text)
