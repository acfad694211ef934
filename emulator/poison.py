"""Values that nobody wrote, followed through registers bit by bit.

Each register has a shadow with a set bit for each bit that is undefined.  Before an instruction that touches such a
register executes, its rule computes the shadow of its result.  Moves, logic and shifts are followed exactly, selections
by what they select; of other operations one undefined bit of a lane's sources makes the lane's whole result undefined.
Addresses, data of global stores, branches and EXEC must be defined.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .blocks import Item
from .errors import UndefinedValueError
from .instruction import EXEC, VCC, VGPR, Instruction, Operand
from .masks import READ_DESTINATION, SCALAR_BIT, SCC_MASK, VECTOR_MASK, operand_mask, register_names, scalar_mask
from .poison_bits import EXACT_SCALAR, EXACT_VECTOR, wide_product_bits
from .registry import Step
from .semantics.constants import width
from .semantics.operands import Reader, scalar_reader
from .semantics.operations import OPERATIONS
from .semantics.transfer import Transfer, get_stored, parse_transfer
from .semantics.vop import condition_register, everywhere_active, plain_source, writer
from .state import LANES, Group, pack_lanes, unpack_lanes

Rule = Callable[[Group], None]
U32 = np.uint32
_ONES = U32(0xFFFFFFFF)

_MEMORY = ("SMEM", "VGLOBAL", "VFLAT", "VBUFFER", "VSCRATCH", "DS")
_ADDRESS_ROLES = ("vaddr", "saddr", "addr", "sbase", "soffset", "rsrc")
# Instructions that only move data between lanes, and the operands that say how.
_MOVES = {
    "v_readfirstlane_b32": (),
    "v_readlane_b32": ("src1",),
    "v_writelane_b32": ("src1",),
    "v_permlane16_b32": ("src1", "src2"),
    "v_permlanex16_b32": ("src1", "src2"),
    "v_permlane16_var_b32": ("src1",),
    "v_permlanex16_var_b32": ("src1",),
    "v_swap_b32": (),
    "v_swap_b16": (),
    "ds_bpermute_b32": ("addr",),
    "ds_bpermute_fi_b32": ("addr",),
    "ds_permute_b32": ("addr",),
    "ds_swizzle_b32": (),
}


def make_rule(item: Item) -> Rule:
    """The rule of one instruction; of a VOPD pair, of both halves."""
    instruction = item.instruction
    propagate = _propagation(item)
    read, written = item.masks.read, item.masks.written

    def run(g: Group) -> None:
        if g.undefined & read:
            propagate(g)
        else:
            _define(g, instruction, written)

    return run


def _propagation(item: Item) -> Rule:
    instruction = item.instruction
    if instruction.parts:
        return _pair_rule(item)
    if instruction.opcode in _MOVES:
        return _move_rule(item)
    if instruction.encoding in _MEMORY:
        return _memory_rule(item)
    if instruction.encoding == "SOPP":
        return _branch_rule(item)
    if instruction.encoding.startswith("SOP"):
        return _scalar_rule(item)
    if instruction.opcode.startswith("v_wmma"):
        return _matrix_rule(item)
    if instruction.opcode.startswith("v_mad_co_"):
        return _wide_product_rule(item)
    if "cndmask" in instruction.opcode:
        return _selection_rule(item)
    if instruction.opcode in OPERATIONS and instruction.encoding != "VOP3P":
        return _operation_rule(item)
    return _lane_rule(item)


# -- Results ---------------------------------------------------------------------------------------------------------


def _define(g: Group, instruction: Instruction, written: int) -> None:
    """All sources are defined: so is the result, in the lanes and the half that are written."""
    if instruction.parts:
        for part in instruction.parts:
            _define(g, part, sum(operand_mask(item) for item in part.operands if item.written))
        return
    half = _written_half(instruction)
    where = True if instruction.opcode.startswith("v_wmma") else g.mask
    for register in _vectors(written & g.undefined):
        row = g.shadow.u[register] if half is None else g.shadow.w[2 * register + half]
        if where is True:
            row[...] = 0
        else:
            row[where] = 0
    scalars = written & g.undefined & ~VECTOR_MASK
    for register in _scalars(scalars):
        g.shadow.s[register][...] = 0
    if scalars & SCC_MASK:
        g.shadow.scc[...] = False
    refresh(g, written)


def _written_half(instruction: Instruction) -> int | None:
    """Which half of its destination an instruction writes; `None` for all of it."""
    for operand in instruction.operands:
        if operand.written and operand.half:
            return 1 if operand.half == "h" else 0
    if instruction.opcode in ("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32"):
        return instruction["opsel"] >> 3 & 1
    return None


def refresh(g: Group, mask: int) -> None:
    """Notes of registers whether any of their bits is still undefined."""
    undefined = 0
    for register in _vectors(mask):
        if g.shadow.u[register].any():
            undefined |= 1 << register
    for register in _scalars(mask):
        if g.shadow.s[register].any():
            undefined |= scalar_mask(register)
    if mask & SCC_MASK and g.shadow.scc.any():
        undefined |= SCC_MASK
    g.undefined = g.undefined & ~mask | undefined
    g.attention = g.in_flight | g.undefined


def _vectors(mask: int):
    mask &= VECTOR_MASK
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _scalars(mask: int):
    mask = (mask & ~SCC_MASK) >> SCALAR_BIT
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


# -- Sources ---------------------------------------------------------------------------------------------------------


def _bad_lanes(g: Group, operand: Operand) -> np.ndarray | None:
    """Lanes in which an operand has an undefined bit; `None` for a constant."""
    shadow = g.shadow
    if operand.kind == "vgpr":
        if operand.half:
            return shadow.w[2 * operand.index + (operand.half == "h")] != 0
        bad = shadow.u[operand.index] != 0
        for offset in range(1, operand.registers):
            bad = bad | (shadow.u[operand.index + offset] != 0)
        return bad
    if operand.kind == "sgpr":
        return (shadow.scalar[:, operand.index : operand.index + operand.registers] != 0).any(axis=1)[:, None]
    return shadow.scc[:, None] if operand.kind == "scc" else None


def _require(g: Group, operand: Operand, purpose: str) -> None:
    """Raises UndefinedValueError if an active lane's operand has an undefined bit."""
    bad = _bad_lanes(g, operand)
    if bad is None:
        return
    if operand.kind == "vgpr" and g.mask is not True:
        bad = bad & g.mask
    _require_none(g, bad, register_names(operand_mask(operand)), purpose)


def _require_none(g: Group, bad: np.ndarray, name: str, purpose: str) -> None:
    if bad.any():
        wave, lane = np.argwhere(bad)[0]
        where = f"wave {int(g.wave_numbers[wave])}" + (f", lane {lane}" if bad.shape[1] > 1 else "")
        raise UndefinedValueError(f"{name} holds a value that nobody wrote, and it {purpose} ({where})")


def _sources(instruction: Instruction) -> list[Operand]:
    return [item for item in instruction.operands if not item.written]


# -- Rules -----------------------------------------------------------------------------------------------------------


def _pair_rule(item: Item) -> Rule:
    """Both halves of a VOPD pair read before either writes: the second's shadow is computed on the first's old one."""
    from .masks import register_masks
    from .registry import make_step

    rules, written = [], []
    for part in item.instruction.parts:
        masks = register_masks(part)
        step = make_step(part)
        rules.append(make_rule(Item(masks.touched, step, step, part, masks)))
        written.append(masks.written)

    def run(g: Group) -> None:
        (first,) = _vectors(written[0])
        row = g.shadow.u[first]
        before = row.copy()
        rules[0](g)
        after, marks = row.copy(), g.undefined
        row[...] = before
        refresh(g, written[0])
        rules[1](g)
        row[...] = after
        g.undefined = g.undefined & ~written[0] | marks & written[0]
        g.attention = g.in_flight | g.undefined

    return run


def _move_rule(item: Item) -> Rule:
    """The step itself moves the shadow, with the operands that steer it lent their real values."""
    instruction, step = item.instruction, item.step
    steering = [operand for operand in _sources(instruction) if operand.role in _MOVES[instruction.opcode]]
    moved = {op.index for op in instruction.operands if op not in steering and op.kind == "vgpr" and not op.written}
    written = item.masks.written

    def run(g: Group) -> None:
        shadow = g.shadow
        if any(operand.kind == "vgpr" and operand.index in moved for operand in steering) or g.undefined & sum(
            operand_mask(operand) for operand in steering
        ):
            _spoil(g, written)
            return
        lent = [_row(shadow, operand) for operand in steering if operand.kind in ("vgpr", "sgpr")]
        kept = [row.copy() for row in lent]
        for row, operand in zip(lent, (op for op in steering if op.kind in ("vgpr", "sgpr")), strict=True):
            row[...] = _row(g, operand)
        target = [row for row in (_row(shadow, op) for op in instruction.operands if op.written)]
        step(shadow)
        for row, values in zip(lent, kept, strict=True):
            if not any(row is other for other in target):
                row[...] = values
        refresh(g, written)

    return run


def _row(g: Group, operand: Operand) -> np.ndarray:
    return g.u[operand.index] if operand.kind == "vgpr" else g.s[operand.index]


def _spoil(g: Group, written: int) -> None:
    """Everything that is written is undefined in the active lanes."""
    for register in _vectors(written):
        np.copyto(g.shadow.u[register], _ONES, where=g.mask)
    for register in _scalars(written):
        g.shadow.s[register][...] = _ONES
    refresh(g, written)


def _transfer(instruction: Instruction) -> Transfer:
    parts = instruction.opcode.split("_")
    if "2addr" in parts:
        return parse_transfer(parts[-1])
    return parse_transfer("_".join(parts[2:]))


def _memory_rule(item: Item) -> Rule:
    """Addresses must be defined; so must what global stores and atomics write."""
    instruction = item.instruction
    addresses = [operand for operand in _sources(instruction) if operand.role in _ADDRESS_ROLES]
    data = [operand for operand in _sources(instruction) if operand.role not in _ADDRESS_ROLES]
    atomic = "_atomic_" in instruction.opcode or (
        instruction.encoding == "DS" and not instruction.opcode.startswith(("ds_load", "ds_store_", "ds_store_2addr"))
    )
    goes_out = instruction.encoding in ("VGLOBAL", "VFLAT", "VBUFFER") and "_store_" in instruction.opcode
    written = item.masks.written

    def run(g: Group) -> None:
        for operand in addresses:
            _require(g, operand, "is used as an address")
        for operand in data:
            if atomic:
                _require(g, operand, "reaches memory through an atomic")
            elif goes_out and g.undefined & operand_mask(operand):
                _require_stored(g, instruction, operand)
        _define(g, instruction, written)

    return run


def _require_stored(g: Group, instruction: Instruction, operand: Operand) -> None:
    """Only the bytes that are stored count."""
    pieces = get_stored(g.shadow, _transfer(instruction), operand.index, True)
    bad = np.zeros((g.count, LANES), bool)
    for piece in pieces:
        words = np.ascontiguousarray(piece)[..., None].view(np.uint8)
        bad |= words.any(axis=-1)
    if g.mask is not True:
        bad &= g.mask
    _require_none(g, bad, register_names(operand_mask(operand)), "reaches global memory")


def _branch_rule(item: Item) -> Rule:
    mask = item.masks.read

    def run(g: Group) -> None:
        if mask & SCC_MASK:
            _require_none(g, g.shadow.scc[:, None], "scc", "decides a branch")
        for register in _scalars(mask):
            _require_none(g, g.shadow.c[register] != 0, register_names(scalar_mask(register)), "decides a branch")

    return run


def _scalar_rule(item: Item) -> Rule:
    instruction = item.instruction
    written = item.masks.written
    sources = _sources(instruction)
    target = instruction.operand("sdst")
    exact = EXACT_SCALAR.get(instruction.opcode)
    to_exec = bool(written & scalar_mask(EXEC))
    reads_scc = bool(item.masks.read & SCC_MASK)

    def bad_waves(g: Group) -> np.ndarray:
        bad = g.shadow.scc.copy() if reads_scc else np.zeros(g.count, bool)
        for operand in sources:
            found = _bad_lanes(g, operand)
            if found is not None:
                bad |= found[:, 0]
        if item.masks.read & item.masks.written and target is not None and target.kind == "sgpr":
            bad |= _bad_lanes(g, target)[:, 0]
        return bad

    def run(g: Group) -> None:
        bad = bad_waves(g)
        if to_exec:
            _require_none(g, bad[:, None], "a source", "reaches EXEC")
        result = None
        if exact is not None and target is not None and target.kind == "sgpr":
            result = exact(*_scalar_pairs(g, instruction, sources, target.registers), g)
        if target is not None and target.kind == "sgpr":
            shadow = g.shadow.scalar[:, target.index : target.index + target.registers]
            if result is None:
                shadow[...] = np.where(bad, _ONES, U32(0))[:, None]
            else:
                shadow[...] = result
                bad = result.any(axis=1)
        if written & SCC_MASK:
            g.shadow.scc[...] = bad
        refresh(g, written)

    return run


def _scalar_pairs(g: Group, instruction: Instruction, sources: list[Operand], registers: int):
    """Values and shadows of scalar sources, uint32 `[waves, registers]`."""
    values, shadows = [], []
    for operand in sources:
        if operand.kind == "sgpr":
            span = slice(operand.index, operand.index + operand.registers)
            values.append(g.scalar[:, span])
            shadows.append(g.shadow.scalar[:, span])
        else:
            kind = "u64" if operand.registers == 2 else "u32"
            value = np.broadcast_to(np.asarray(scalar_reader(instruction, operand.index, kind)(g)), (g.count,))
            words = np.ascontiguousarray(value).view(U32).reshape(g.count, operand.registers)
            values.append(words)
            shadows.append(np.zeros_like(words))
    return values, shadows


def _matrix_rule(item: Item) -> Rule:
    """A row of A spoils a row of D, a column of B a column, an element of C itself."""
    operands = {operand.role: operand for operand in item.instruction.operands}
    written = item.masks.written

    def spoiled(g: Group, operand: Operand) -> np.ndarray:
        return _bad_lanes(g, operand).reshape(g.count, 2, 16).any(axis=1)

    def run(g: Group) -> None:
        rows, columns = spoiled(g, operands["src0"]), spoiled(g, operands["src1"])
        target, addend = operands["vdst"], operands["src2"]
        packed = target.registers == 4
        results = []
        for register in range(target.registers):
            own = [2 * register, 2 * register + 1] if packed else [register]
            bad = np.zeros((g.count, LANES), bool)
            for row in own:
                by_row = np.repeat(rows[:, [row, row + 8]], 16, axis=1)
                bad |= by_row | np.tile(columns, (1, 2))
            if addend.kind == "vgpr":
                bad |= g.shadow.u[addend.index + register] != 0
            results.append(np.where(bad, _ONES, U32(0)))
        for register, result in enumerate(results):
            g.shadow.u[target.index + register][...] = result
        refresh(g, written)

    return run


def _selection_rule(item: Item) -> Rule:
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
    from .semantics.vop import SOURCE_ROLES

    number = instruction[SOURCE_ROLES[instruction.encoding][position]]
    if not _is_register(number):
        zero = np.dtype(f"u{width(kind) // 8}").type(0)
        return (lambda shadow: zero), None
    return plain_source(instruction, position, kind)


def _operation_rule(item: Item) -> Rule:
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


def _wide_product_rule(item: Item) -> Rule:
    """v_mad_co_u64_u32: low bits do not depend on higher ones; LLVM leaves the upper half of an addend unwritten."""
    instruction = item.instruction
    readers = [_shadow_source(instruction, position, kind)[0] for position, kind in enumerate(("u32", "u32", "u64"))]
    write, written = writer(instruction, "u64", everywhere_active), item.masks.written

    def run(g: Group) -> None:
        shadow = g.shadow
        result = wide_product_bits(*(read(shadow) for read in readers))
        write(shadow, result)
        for register in _scalars(written):
            g.shadow.s[register][...] = pack_lanes(result != 0, g.count)
        refresh(g, written)

    return run


def _lane_rule(item: Item) -> Rule:
    """Any other vector operation: lanes with an undefined source bit have an undefined result."""
    instruction = item.instruction
    sources = _sources(instruction)
    if instruction.opcode.startswith(READ_DESTINATION):
        sources = list(instruction.operands)
    mask_register = _mask_source(instruction)
    written = item.masks.written
    half = _written_half(instruction)
    reaches_exec = instruction.opcode.startswith("v_cmpx")

    def run(g: Group) -> None:
        bad = np.zeros((g.count, LANES), bool)
        for operand in sources:
            if operand.role == "src2" and mask_register is not None:
                continue
            found = _bad_lanes(g, operand)
            if found is not None:
                bad |= found
        if mask_register is not None:
            bad |= unpack_lanes(g.shadow.s[mask_register])
        if g.mask is not True:
            bad &= g.mask
        if reaches_exec:
            _require_none(g, bad, "a source", "reaches EXEC")
        for register in _vectors(written):
            row = g.shadow.u[register] if half is None else g.shadow.w[2 * register + half]
            np.copyto(row, np.where(bad, ~row.dtype.type(0), row.dtype.type(0)), where=g.mask)
        for register in _scalars(written):
            g.shadow.s[register][...] = pack_lanes(bad, g.count)
        refresh(g, written)

    return run


def _mask_source(instruction: Instruction) -> int | None:
    """A scalar register that is read as one bit a lane."""
    if "_co_ci_" in instruction.opcode:
        return condition_register(instruction)
    return VCC if instruction.opcode.startswith("v_div_fmas") else None


__all__ = ["Rule", "Step", "make_rule", "refresh"]
