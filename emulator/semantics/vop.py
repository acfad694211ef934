"""Vector ALU, lane by lane: VOP1, VOP2, VOP3 and their DPP forms (RDNA4 ISA, 'Vector ALU Operations').

`operations` says what is computed; this module says from where, with which modifiers, and where to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..instruction import VCC, VGPR, Instruction
from ..registry import Refused, Step, add, semantics
from ..state import Group
from . import float_math as fm
from .constants import DTYPES, width
from .dpp import Where, permutation, permuted_source
from .integer_math import join_halves, permute_bytes_by
from .operands import Reader, negated, vector_reader, write_pair
from .operations import OPERATIONS, Operation

U32, U64 = np.uint32, np.uint64
_OUTPUT_SCALE = {1: 2.0, 2: 4.0, 3: 0.5}
SOURCE_ROLES = {
    "VOP1": ("src0",),
    "VOP2": ("src0", "vsrc1"),
    "VOPC": ("src0", "vsrc1"),
    "VOPD": ("src0", "vsrc1"),
    "VOP3": ("src0", "src1", "src2"),
    "VOP3SD": ("src0", "src1", "src2"),
}


def everywhere_active(g: Group) -> bool | np.ndarray:
    return g.mask


@dataclass(frozen=True, slots=True)
class Sources:
    """Readers of an instruction's sources, and which lanes it writes."""

    readers: tuple[Reader, ...]
    where: Where


def refuse_partial_permutation(instruction: Instruction) -> None:
    """For operations whose result is one bit a lane: a DPP form that leaves lanes unwritten is not known."""
    if instruction.dpp:
        plan = permutation(instruction)
        if not (plan.writes.all() and (plan.zero_fill or (plan.fetch_inactive and plan.exists.all()))):
            raise Refused("a DPP form that leaves lanes unwritten")


def source_half(instruction: Instruction, position: int, number: int) -> int:
    """Which half of a register a 16-bit source is: OPSEL in VOP3, bit 7 of the register's number elsewhere."""
    if instruction.encoding.startswith("VOP3"):
        return instruction.get("opsel") >> position & 1
    return number >> 7 & 1 if number >= VGPR else 0


def plain_source(instruction: Instruction, position: int, kind: str) -> tuple[Reader, Where | None]:
    """A source before its sign modifiers, permuted if it is a DPP one; then also the lanes that are written."""
    number, half = instruction[SOURCE_ROLES[instruction.encoding][position]], 0
    if width(kind) == 16:
        half = source_half(instruction, position, number)
        if not instruction.encoding.startswith("VOP3") and number >= VGPR:
            number &= ~0x80
    if instruction.dpp and position == 0:
        return permuted_source(instruction, number, kind, half)
    return vector_reader(instruction, number, kind, half=half), None


def _source(instruction: Instruction, position: int, kind: str) -> tuple[Reader, Where | None]:
    read, where = plain_source(instruction, position, kind)
    negative, absolute = sign_modifiers(instruction, position)
    if (negative or absolute) and not kind.startswith("f"):
        raise Refused("neg or abs of an integer source")
    return negated(read, negative=negative, absolute=absolute), where


def sign_modifiers(instruction: Instruction, position: int) -> tuple[bool, bool]:
    negative, absolute = instruction.get("neg") >> position & 1, instruction.get("abs") >> position & 1
    if instruction.dpp == "dpp16" and not instruction.encoding.startswith("VOP3") and position < 2:
        negative |= instruction.get(f"src{position}_neg")
        absolute |= instruction.get(f"src{position}_abs")
    return bool(negative), bool(absolute)


def read_sources(instruction: Instruction, kinds: tuple[str, ...]) -> Sources:
    """Readers for `kinds`, in the order of the source fields."""
    readers, where = [], everywhere_active
    for position, kind in enumerate(kinds):
        read, permuted = _source(instruction, position, kind)
        readers.append(read)
        where = permuted or where
    return Sources(tuple(readers), where)


def destination(instruction: Instruction, kind: str) -> tuple[int, int]:
    """Register number and half that a result goes to."""
    number = instruction["vdst"] - VGPR
    if width(kind) != 16:
        return number, 0
    if instruction.encoding.startswith("VOP3"):
        return number, instruction.get("opsel") >> 3 & 1
    return number & 0x7F, number >> 7


def result_row(kind: str, register: int, half: int = 0) -> Callable[[Group], np.ndarray]:
    """Where a 16- or 32-bit result is written."""
    slot = 2 * register + half
    match kind:
        case "u32":
            return lambda g: g.u[register]
        case "i32":
            return lambda g: g.i[register]
        case "f32":
            return lambda g: g.f[register]
        case "u16":
            return lambda g: g.w[slot]
        case "i16":
            return lambda g: g.wi[slot]
    return lambda g: g.h[slot]


def writer(instruction: Instruction, kind: str, where: Where) -> Callable[[Group, np.ndarray], None]:
    """Writes a result to the destination's active lanes."""
    register, half = destination(instruction, kind)
    if width(kind) == 64:
        return lambda g, value: write_pair(g, register, value, where(g))
    row = result_row(kind, register, half)
    return lambda g, value: np.copyto(row(g), value, where=where(g))


def output_modified(instruction: Instruction, operation: Operation) -> Callable:
    """The operation's function with OMOD and CLMP applied (RDNA4 ISA, 'Output modifiers')."""
    function, scale, clamp = operation.function, instruction.get("omod"), instruction.get("clmp")
    if not (scale or clamp):
        return function
    if not operation.result.startswith("f"):
        if operation.saturating is None or scale:
            raise Refused("clamp or output scale of this operation")
        return operation.saturating
    dtype = DTYPES[operation.result]
    factor = dtype(_OUTPUT_SCALE.get(scale, 1.0))

    def run(*sources):
        value = function(*sources)
        if scale:
            value = value * factor
        # A clamped NaN is 0 (DX10_CLAMP, which gfx12 has always on).
        return fm.minimum_num(fm.maximum_num(value, dtype(0)), dtype(1)) if clamp else value

    return run


def make_elementwise(instruction: Instruction) -> Step:
    """The step of an operation from the table."""
    operation = OPERATIONS[instruction.opcode]
    sources = read_sources(instruction, operation.sources)
    modified = bool(instruction.get("omod") or instruction.get("clmp"))
    if operation.in_place and not modified and width(operation.result) <= 32:
        return _in_place_step(instruction, operation, sources)
    return _step(
        output_modified(instruction, operation), sources.readers, writer(instruction, operation.result, sources.where)
    )


def _in_place_step(instruction: Instruction, operation: Operation, sources: Sources) -> Step:
    function, where = operation.function, sources.where
    row = result_row(operation.result, *destination(instruction, operation.result))
    if len(sources.readers) == 1:
        (a,) = sources.readers
        if where is everywhere_active:
            return lambda g: function(a(g), out=row(g), where=g.mask)
        return lambda g: function(a(g), out=row(g), where=where(g))
    a, b = sources.readers
    if where is everywhere_active:
        return lambda g: function(a(g), b(g), out=row(g), where=g.mask)
    return lambda g: function(a(g), b(g), out=row(g), where=where(g))


def _step(function: Callable, readers: tuple[Reader, ...], write: Callable) -> Step:
    if len(readers) == 1:
        (a,) = readers
        return lambda g: write(g, function(a(g)))
    if len(readers) == 2:
        a, b = readers
        return lambda g: write(g, function(a(g), b(g)))
    a, b, c = readers
    return lambda g: write(g, function(a(g), b(g), c(g)))


add("VOP1 VOP2 VOP3 VOPD", OPERATIONS.keys() - {"v_perm_b32"}, make_elementwise)


@semantics("VOP3", "v_perm_b32")
def _perm(instruction: Instruction) -> Step:
    """Selectors are nearly always literals, or scalars that hold one: then shifts do what a table would."""
    if instruction["src2"] != 255 or instruction.dpp:
        return make_elementwise(instruction)
    sources = read_sources(instruction, ("u32", "u32"))
    function = permute_bytes_by(instruction.literal or 0)
    return _step(function, sources.readers, writer(instruction, "u32", sources.where))


@semantics("VOP1", "v_nop")
def _nop(_instruction: Instruction) -> Step:
    return lambda _g: None


@semantics("VOP1 VOP3", "v_permlane64_b32")
def _permlane64(_instruction: Instruction) -> Step:
    """Exchanges the halves of a 64-lane wave; a wave of 32 lanes is left as it is."""
    return lambda _g: None


@semantics("VOP2 VOP3 VOPD", "v_fmac_f32", "v_fmac_f16")
def _fmac(instruction: Instruction) -> Step:
    """D0 = fma(S0, S1, D0)."""
    kind = instruction.opcode[-3:]
    sources = read_sources(instruction, (kind, kind))
    old = result_row(kind, *destination(instruction, kind))
    operation = Operation(fm.exact_fma, (kind,) * 3, kind)
    function = output_modified(instruction, operation)
    return _step(function, (*sources.readers, old), writer(instruction, kind, sources.where))


@semantics("VOP2 VOPD", "v_fmaak_f32", "v_fmamk_f32", "v_fmaak_f16", "v_fmamk_f16")
def _fma_literal(instruction: Instruction) -> Step:
    """v_fmaak: fma(S0, S1, literal); v_fmamk: fma(S0, literal, S1)."""
    kind = instruction.opcode[-3:]
    (a, b), literal = read_sources(instruction, (kind, kind)).readers, vector_reader(instruction, 255, kind)
    write = writer(instruction, kind, everywhere_active)
    readers = (a, literal, b) if "fmamk" in instruction.opcode else (a, b, literal)
    return _step(fm.exact_fma, readers, write)


@semantics("VOP2", "v_pk_fmac_f16")
def _pk_fmac(instruction: Instruction) -> Step:
    sources = read_sources(instruction, ("u32", "u32"))
    register = instruction["vdst"] - VGPR

    def halves(value):
        return (value & U32(0xFFFF)).astype(np.uint16).view(np.float16), (value >> U32(16)).astype(np.uint16).view(
            np.float16
        )

    def run(g: Group) -> None:
        a, b, c = (halves(value) for value in (*(read(g) for read in sources.readers), g.u[register]))
        low, high = (fm.exact_fma(a[half], b[half], c[half]) for half in (0, 1))
        np.copyto(g.u[register], join_halves(low, high), where=sources.where(g))

    return run


def condition_register(instruction: Instruction) -> int:
    """The scalar register with one bit a lane: the third source in VOP3, VCC elsewhere."""
    if not instruction.encoding.startswith("VOP3"):
        return VCC
    if instruction["src2"] >= 128:
        raise Refused("a lane mask that is no scalar register")
    return instruction["src2"]


@semantics("VOP2 VOP3 VOPD", "v_cndmask_b32", "v_cndmask_b16")
def _cndmask(instruction: Instruction) -> Step:
    """D0 = mask[lane] ? S1 : S0. The sources may be negated like floats, so they are read as such."""
    kind = "f" + instruction.opcode[-2:]
    sources = read_sources(instruction, (kind, kind))
    (a, b), where, register = sources.readers, sources.where, condition_register(instruction)
    row = result_row(kind, *destination(instruction, kind))

    def run(g: Group) -> None:
        chosen = g.lanes(register)
        target, first, second = row(g), a(g), b(g)
        if where is everywhere_active and g.mask is True:
            if target is first:
                np.copyto(target, second, where=chosen)
                return
            if target is second:
                np.copyto(target, first, where=~chosen)
                return
        np.copyto(target, np.where(chosen, second, first), where=where(g))

    return run
