"""Packed 16-bit operations, mixed-precision FMA and dot products: VOP3P without the matrix products.

Each half of a packed result takes the half of each source that OPSEL (low result) or OPSEL_HI (high result) names; NEG
and NEG_HI negate them (RDNA4 ISA, 'Packed Math').
"""

from __future__ import annotations

import numpy as np

from ..float_formats import E4M3_TO_F32, E5M2_TO_F32
from ..instruction import VGPR, Instruction
from ..registry import Refused, Step, add, semantics
from ..state import Group
from . import float_math as fm
from .constants import DTYPES, constant, is_constant
from .integer_math import byte_values, join_halves
from .operands import Reader, negated, vector_reader
from .operations import OPERATIONS, Operation
from .vop import everywhere_active, output_modified, writer

U16, U32, I32 = np.uint16, np.uint32, np.int32
_ROLES = ("src0", "src1", "src2")


def _opsel_hi(instruction: Instruction, position: int) -> int:
    return instruction["opsel_hi2"] if position == 2 else instruction["opsel_hi"] >> position & 1


def _half_reader(instruction: Instruction, position: int, kind: str, *, high: bool) -> Reader:
    number = instruction[_ROLES[position]]
    half = _opsel_hi(instruction, position) if high else instruction["opsel"] >> position & 1
    sign = instruction["neg_hi" if high else "neg"] >> position & 1
    if sign and not kind.startswith("f"):
        raise Refused("neg of a packed integer source")
    if is_constant(number) and number != 255:
        read = _constant_half(number, kind, half)
    else:
        read = vector_reader(instruction, number, kind, half=half)
    return negated(read, negative=bool(sign), absolute=False)


def _constant_half(number: int, kind: str, half: int) -> Reader:
    """An inline constant: a float fills the low half only; an integer is a 32-bit number, sign-extended."""
    if half and number < 209:
        value = DTYPES[kind](0) if number <= 192 else constant(193, None, kind)  # 193 is -1: all bits set
    elif half:
        value = DTYPES[kind](0)
    else:
        value = constant(number, None, kind)
    return lambda _g: value


# opcode -> (the operation on one half, kinds of its sources, kind of its result)
_PACKED: dict[str, Operation] = {
    **{
        f"v_pk_{name}": OPERATIONS[f"v_{name}"]
        for name in ("fma_f16", "add_f16", "mul_f16", "min_num_f16", "max_num_f16", "minimum_f16", "maximum_f16")
    },
    **{f"v_pk_{name}": OPERATIONS[f"v_{name}"] for name in ("mad_i16", "mad_u16", "mul_lo_u16")},
    **{f"v_pk_{name}_{kind}": OPERATIONS[f"v_{name}_{kind}"] for name in ("min", "max") for kind in ("i16", "u16")},
    **{f"v_pk_{name}_{kind}": OPERATIONS[f"v_{name}_nc_{kind}"] for name in ("add", "sub") for kind in ("i16", "u16")},
    **{f"v_pk_{name}": OPERATIONS[f"v_{name}"] for name in ("lshlrev_b16", "lshrrev_b16", "ashrrev_i16")},
}


def _make_packed(instruction: Instruction) -> Step:
    if instruction.dpp:
        raise Refused("DPP of a packed operation")
    operation = _PACKED[instruction.opcode]
    function = output_modified(instruction, operation)
    halves = [
        [_half_reader(instruction, position, kind, high=high) for position, kind in enumerate(operation.sources)]
        for high in (False, True)
    ]
    register = instruction["vdst"] - VGPR

    def run(g: Group) -> None:
        low, high = (np.asarray(function(*(read(g) for read in readers))) for readers in halves)
        np.copyto(g.u[register], join_halves(low, high), where=g.mask)

    return run


add("VOP3P", _PACKED, _make_packed)


@semantics("VOP3P", "v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def _fma_mix(instruction: Instruction) -> Step:
    """fma of sources that are float32, or either half of a register where OPSEL_HI is set; NEG_HI means absolute."""
    if instruction.dpp:
        raise Refused("DPP of a mixed operation")
    readers = [_mixed_reader(instruction, position) for position in range(3)]
    register = instruction["vdst"] - VGPR
    half = 1 if "mixhi" in instruction.opcode else 0
    clamp = bool(instruction["clmp"])

    def run(g: Group) -> None:
        value = fm.exact_fma(*(read(g) for read in readers))
        if clamp:
            value = fm.minimum_num(fm.maximum_num(value, np.float32(0)), np.float32(1))
        if instruction.opcode == "v_fma_mix_f32":
            np.copyto(g.f[register], value, where=g.mask)
        else:
            np.copyto(g.h[2 * register + half], value.astype(np.float16), where=g.mask)

    return run


def _mixed_reader(instruction: Instruction, position: int) -> Reader:
    number = instruction[_ROLES[position]]
    negative = bool(instruction["neg"] >> position & 1)
    absolute = bool(instruction["neg_hi"] >> position & 1)
    if not _opsel_hi(instruction, position):
        return negated(vector_reader(instruction, number, "f32"), negative=negative, absolute=absolute)
    read = vector_reader(instruction, number, "f16", half=instruction["opsel"] >> position & 1)
    return negated(lambda g: np.asarray(read(g)).astype(np.float32), negative=negative, absolute=absolute)


def _dot_step(instruction: Instruction, kind: str, products) -> Step:
    """D0 = S2 + the sum of `products(S0, S1)`, one term after the other."""
    a, b = (vector_reader(instruction, instruction[role], "u32") for role in ("src0", "src1"))
    c = vector_reader(instruction, instruction["src2"], kind)
    if kind == "f32":
        c = negated(c, negative=bool(instruction["neg"] >> 2 & 1), absolute=bool(instruction["neg_hi"] >> 2 & 1))
    if instruction["clmp"] or instruction.dpp:
        raise Refused("clamp or DPP of a dot product")
    write = writer(instruction, kind, everywhere_active)

    def run(g: Group) -> None:
        total = c(g)
        for x, y in products(np.asarray(a(g)), np.asarray(b(g))):
            total = total + x * y
        write(g, total)

    return run


def _nibbles(a: np.ndarray, *, signed: bool) -> list[np.ndarray]:
    parts = [(a >> U32(4 * n) & U32(15)).astype(I32) for n in range(8)]
    return [(part << I32(28)) >> I32(28) for part in parts] if signed else parts


@semantics("VOP3P", "v_dot4_i32_iu8", "v_dot8_i32_iu4", "v_dot4_u32_u8", "v_dot8_u32_u4")
def _integer_dot(instruction: Instruction) -> Step:
    split = byte_values if "dot4" in instruction.opcode else _nibbles
    signed = [bool(instruction["neg"] >> position & 1) for position in (0, 1)]
    kind = "i32" if "_i32_" in instruction.opcode else "u32"

    def products(a, b):
        pairs = zip(split(a, signed=signed[0]), split(b, signed=signed[1]), strict=True)
        return [(x.astype(DTYPES[kind]), y.astype(DTYPES[kind])) for x, y in pairs]

    return _dot_step(instruction, kind, products)


def _float_halves(a: np.ndarray, form: str) -> list[np.ndarray]:
    if form == "bf16":
        return [(a << U32(16)).view(np.float32), (a & U32(0xFFFF0000)).view(np.float32)]
    return [(a >> U32(16 * half) & U32(0xFFFF)).astype(U16).view(np.float16).astype(np.float32) for half in (0, 1)]


@semantics("VOP3P", "v_dot2_f32_f16", "v_dot2_f32_bf16")
def _dot2(instruction: Instruction) -> Step:
    form = "bf16" if "bf16" in instruction.opcode else "f16"
    if (instruction["neg"] | instruction["neg_hi"]) & 3 or instruction["opsel"] or instruction["opsel_hi"] != 3:
        raise Refused("source modifiers of a dot product")
    return _dot_step(instruction, "f32", lambda a, b: zip(_float_halves(a, form), _float_halves(b, form), strict=True))


@semantics("VOP3P", *(f"v_dot4_f32_{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8")))
def _dot4_fp8(instruction: Instruction) -> Step:
    tables = [E4M3_TO_F32 if form == "fp8" else E5M2_TO_F32 for form in instruction.opcode.split("_")[-2:]]

    def products(a, b):
        codes = zip(byte_values(a, signed=False), byte_values(b, signed=False), strict=True)
        return [(tables[0].take(x), tables[1].take(y)) for x, y in codes]

    return _dot_step(instruction, "f32", products)
