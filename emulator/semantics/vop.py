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
from .dpp import Where, permuted_source
from .integer_math import join_halves, multiply_high_unsigned, permute_bytes_by
from .operands import Reader, negated, vector_reader, write_pair
from .operations import OPERATIONS, Operation
from .sop import write_scalar

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
    negative, absolute = _sign_modifiers(instruction, position)
    if (negative or absolute) and not kind.startswith("f"):
        raise Refused("neg or abs of an integer source")
    return negated(read, negative=negative, absolute=absolute), where


def _sign_modifiers(instruction: Instruction, position: int) -> tuple[bool, bool]:
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
def _nop(instruction: Instruction) -> Step:
    return lambda g: None


@semantics("VOP1 VOP3", "v_permlane64_b32")
def _permlane64(instruction: Instruction) -> Step:
    """Exchanges the halves of a 64-lane wave; a wave of 32 lanes is left as it is."""
    return lambda g: None


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


@semantics("VOP3", "v_div_fmas_f32", "v_div_fmas_f64")
def _div_fmas(instruction: Instruction) -> Step:
    kind = instruction.opcode[-3:]
    sources = read_sources(instruction, (kind,) * 3)
    operation = Operation(fm.divide_fmas, (kind,) * 3, kind)
    function = output_modified(instruction, operation)
    a, b, c = sources.readers
    write = writer(instruction, kind, sources.where)
    return lambda g: write(g, function(a(g), b(g), c(g), g.lanes(VCC)))


@semantics("VOP3SD", "v_div_scale_f32", "v_div_scale_f64")
def _div_scale(instruction: Instruction) -> Step:
    kind = instruction.opcode[-3:]
    a, b, c = read_sources(instruction, (kind,) * 3).readers
    write, flags_register = writer(instruction, kind, everywhere_active), instruction["sdst"]

    def run(g: Group) -> None:
        value, flags = fm.divide_scale(a(g), b(g), c(g))
        write(g, value)
        _put_lanes(g, flags_register, flags)

    return run


def _put_lanes(g: Group, register: int, condition: np.ndarray) -> None:
    if register < 124:
        g.put_lanes(register, condition)


_CARRY = {"add": (0, 1, True), "sub": (0, 1, False), "subrev": (1, 0, False)}


@semantics("VOP3SD VOP2", *(f"v_{name}_co_{form}u32" for name in _CARRY for form in ("", "ci_")))
def _carry(instruction: Instruction) -> Step:
    """32-bit addition and subtraction with carry out, and with `ci` carry in, one bit a lane."""
    name = instruction.opcode.split("_")[1]
    first, second, adds = _CARRY[name]
    sources = read_sources(instruction, ("u32", "u32"))
    a, b = sources.readers[first], sources.readers[second]
    write = writer(instruction, "u32", sources.where)
    carry_out = instruction.get("sdst", VCC)
    carry_in = condition_register(instruction) if "_ci_" in instruction.opcode else None

    def run(g: Group) -> None:
        x, y = a(g), b(g)
        total = x + y if adds else x - y
        carry = total < x if adds else y > x
        if carry_in is not None:
            extra = g.lanes(carry_in)
            before = total
            total = before + extra if adds else before - extra
            carry = carry | ((total < before) if adds else (total > before))
        write(g, total)
        _put_lanes(g, carry_out, carry)

    return run


@semantics("VOP3SD", "v_mad_co_u64_u32", "v_mad_co_i64_i32")
def _mad_wide(instruction: Instruction) -> Step:
    """{carry, D0} = S0 * S1 + S2, 32 × 32 + 64 bits."""
    signed = "i64" in instruction.opcode
    narrow, wide = ("i32", "i64") if signed else ("u32", "u64")
    dtype = DTYPES[wide]
    a, b, c = read_sources(instruction, (narrow, narrow, wide)).readers
    write, carry_out = writer(instruction, wide, everywhere_active), instruction["sdst"]

    def run(g: Group) -> None:
        product, addend = np.asarray(a(g)).astype(dtype) * np.asarray(b(g)).astype(dtype), c(g)
        total = product + addend
        write(g, total)
        if carry_out < 124:
            if signed:
                # The 65th bit of the sum is its sign: what the true sum's sign is.
                overflow = ((product ^ total) & (addend ^ total)) < 0
                carry = (total < 0) ^ overflow
            else:
                carry = total < product
            g.put_lanes(carry_out, carry)

    return run


_SCALAR_FLOAT = {"exp": fm.exp2, "log": fm.log2, "rcp": fm.reciprocal, "rsq": fm.reciprocal_root, "sqrt": np.sqrt}


@semantics("VOP3", *(f"v_s_{name}_{kind}" for name in _SCALAR_FLOAT for kind in ("f32", "f16")))
def _scalar_float(instruction: Instruction) -> Step:
    """Transcendental functions of a scalar, on the vector unit (RDNA4 ISA, 'Pseudo-scalar transcendental')."""
    from .operands import scalar_reader

    name, kind = instruction.opcode.removeprefix("v_s_").rsplit("_", 1)
    read = scalar_reader(instruction, instruction["src0"], kind)
    negative, absolute = _sign_modifiers(instruction, 0)
    operation = Operation(_SCALAR_FLOAT[name], (kind,), kind)
    function = output_modified(instruction, operation)
    read, register = negated(read, negative=negative, absolute=absolute), instruction["vdst"]
    return lambda g: write_scalar(g, register, kind, function(read(g)))


@semantics("VOP1 VOP3", "v_cvt_f32_fp8", "v_cvt_f32_bf8")
def _cvt_f32_fp8(instruction: Instruction) -> Step:
    """One code to a float; OPSEL picks the byte, its two bits in reverse."""
    from ..float_formats import E4M3_TO_F32, E5M2_TO_F32

    table = E4M3_TO_F32 if instruction.opcode.endswith("fp8") else E5M2_TO_F32
    read = vector_reader(instruction, instruction["src0"], "u32")
    shift = U32(8 * {0: 0, 2: 1, 1: 2, 3: 3}[instruction.get("opsel") & 3])
    write = writer(instruction, "f32", everywhere_active)
    return lambda g: write(g, table.take(read(g) >> shift & U32(0xFF)))


@semantics("VOP3", "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def _cvt_pk_fp8(instruction: Instruction) -> Step:
    """Two floats to two codes in one half of the destination; the other half is kept."""
    from ..float_formats import f32_to_e4m3, f32_to_e5m2

    narrow = f32_to_e4m3 if "fp8" in instruction.opcode else f32_to_e5m2
    sources = read_sources(instruction, ("f32", "f32"))
    a, b = sources.readers
    write = writer(instruction, "u16", sources.where)

    def run(g: Group) -> None:
        low, high = narrow(a(g)).astype(np.uint16), narrow(b(g)).astype(np.uint16)
        write(g, low | high << np.uint16(8))

    return run


__all__ = ["make_elementwise", "multiply_high_unsigned"]
