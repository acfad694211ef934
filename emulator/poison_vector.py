"""Undefined values through the vector ALU, lane by lane."""

from __future__ import annotations

import numpy as np

from .blocks import Item
from .instruction import VCC, VGPR, Instruction
from .masks import READ_DESTINATION
from .poison_bits import EXACT_VECTOR, wide_product_bits
from .poison_marks import (
    Rule,
    bad_lanes,
    refresh,
    require_none,
    scalar_numbers,
    source_operands,
    vector_numbers,
    written_half,
)
from .semantics.constants import width
from .semantics.operands import Reader
from .semantics.operations import OPERATIONS
from .semantics.vop import SOURCE_ROLES, condition_register, everywhere_active, plain_source, writer
from .state import LANES, Group, pack_lanes, unpack_lanes


def selection_rule(item: Item) -> Rule:
    """v_cndmask: the shadow of what is selected; all of it where the selecting bit is undefined."""
    instruction = item.instruction
    kind = "u" + instruction.opcode[-2:]
    (a, where), (b, _) = (_shadow_source(instruction, position, kind) for position in (0, 1))
    register = condition_register(instruction)
    write = writer(instruction, kind, where or everywhere_active)
    written = item.masks.written
    full = (1 << width(kind)) - 1

    def run(g: Group) -> None:
        shadow = g.shadow
        dtype = np.dtype(f"u{width(kind) // 8}")
        result = np.where(g.lanes(register), b(shadow), a(shadow)).astype(dtype)
        unknown = unpack_lanes(shadow.s[register])
        write(shadow, np.where(unknown, dtype.type(full), result))
        refresh(g, written)

    return run


def _is_register(number: int) -> bool:
    return number >= VGPR or number < 124


def _shadow_source(instruction: Instruction, position: int, kind: str) -> tuple[Reader, object]:
    number = instruction[SOURCE_ROLES[instruction.encoding][position]]
    if not _is_register(number):
        zero = np.dtype(f"u{width(kind) // 8}").type(0)
        return (lambda _shadow: zero), None
    return plain_source(instruction, position, kind)


def operation_rule(item: Item) -> Rule:
    instruction = item.instruction
    operation = OPERATIONS[instruction.opcode]
    kinds = [f"u{width(kind)}" for kind in operation.sources]
    result_kind = f"u{width(operation.result)}"
    dtype = np.dtype(f"u{width(result_kind) // 8}")
    shadows, where = [], everywhere_active
    for position, kind in enumerate(kinds):
        read, permuted = _shadow_source(instruction, position, kind)
        shadows.append(read)
        where = permuted or where
    exact = EXACT_VECTOR.get(instruction.opcode)
    values = [plain_source(instruction, position, kind)[0] for position, kind in enumerate(kinds)] if exact else []
    write, written = writer(instruction, result_kind, where), item.masks.written

    def run(g: Group) -> None:
        shadow = g.shadow
        found = [read(shadow) for read in shadows]
        if exact:
            result = exact([read(g) for read in values], found)
        else:
            bad = found[0] != 0
            for other in found[1:]:
                bad = bad | (other != 0)
            result = np.where(bad, ~dtype.type(0), dtype.type(0))
        write(shadow, result)
        refresh(g, written)

    return run


def wide_product_rule(item: Item) -> Rule:
    """v_mad_co_u64_u32: low bits do not depend on higher ones; LLVM leaves the upper half of an addend unwritten."""
    instruction = item.instruction
    readers = [_shadow_source(instruction, position, kind)[0] for position, kind in enumerate(("u32", "u32", "u64"))]
    write, written = writer(instruction, "u64", everywhere_active), item.masks.written

    def run(g: Group) -> None:
        shadow = g.shadow
        result = wide_product_bits(*(read(shadow) for read in readers))
        write(shadow, result)
        for register in scalar_numbers(written):
            g.shadow.s[register][...] = pack_lanes(result != 0, g.count)
        refresh(g, written)

    return run


def lane_rule(item: Item) -> Rule:
    """Any other vector operation: lanes with an undefined source bit have an undefined result."""
    instruction = item.instruction
    sources = source_operands(instruction)
    if instruction.opcode.startswith(READ_DESTINATION):
        sources = list(instruction.operands)
    mask_register = _mask_source(instruction)
    written = item.masks.written
    half = written_half(instruction)
    reaches_exec = instruction.opcode.startswith("v_cmpx")

    def run(g: Group) -> None:
        bad = np.zeros((g.count, LANES), bool)
        for operand in sources:
            if operand.role == "src2" and mask_register is not None:
                continue
            found = bad_lanes(g, operand)
            if found is not None:
                bad |= found
        if mask_register is not None:
            bad |= unpack_lanes(g.shadow.s[mask_register])
        if g.mask is not True:
            bad &= g.mask
        if reaches_exec:
            require_none(g, bad, "a source", "reaches EXEC")
        for register in vector_numbers(written):
            row = g.shadow.u[register] if half is None else g.shadow.w[2 * register + half]
            np.copyto(row, np.where(bad, ~row.dtype.type(0), row.dtype.type(0)), where=g.mask)
        for register in scalar_numbers(written):
            g.shadow.s[register][...] = pack_lanes(bad, g.count)
        refresh(g, written)

    return run


def _mask_source(instruction: Instruction) -> int | None:
    """A scalar register that is read as one bit a lane."""
    if "_co_ci_" in instruction.opcode:
        return condition_register(instruction)
    return VCC if instruction.opcode.startswith("v_div_fmas") else None
