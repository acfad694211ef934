"""Vector operations that also write one bit a lane: carries and the steps of a division (RDNA4 ISA, 'VOP3SD')."""

from __future__ import annotations

import numpy as np

from ..instruction import VCC, Instruction
from ..registry import Step, semantics
from ..state import Group
from . import division
from .constants import DTYPES
from .operations import Operation
from .vop import (
    condition_register,
    everywhere_active,
    output_modified,
    read_sources,
    refuse_partial_permutation,
    writer,
)


@semantics("VOP3", "v_div_fmas_f32", "v_div_fmas_f64")
def _div_fmas(instruction: Instruction) -> Step:
    refuse_partial_permutation(instruction)
    kind = instruction.opcode[-3:]
    sources = read_sources(instruction, (kind,) * 3)
    operation = Operation(division.divide_fmas, (kind,) * 3, kind)
    function = output_modified(instruction, operation)
    a, b, c = sources.readers
    write = writer(instruction, kind, sources.where)
    return lambda g: write(g, function(a(g), b(g), c(g), g.lanes(VCC)))


@semantics("VOP3SD", "v_div_scale_f32", "v_div_scale_f64")
def _div_scale(instruction: Instruction) -> Step:
    refuse_partial_permutation(instruction)
    kind = instruction.opcode[-3:]
    a, b, c = read_sources(instruction, (kind,) * 3).readers
    write, flags_register = writer(instruction, kind, everywhere_active), instruction["sdst"]

    def run(g: Group) -> None:
        value, flags = division.divide_scale(a(g), b(g), c(g))
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
    refuse_partial_permutation(instruction)
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
    refuse_partial_permutation(instruction)
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
