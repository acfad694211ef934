"""Atomic operations on global memory, through buffer descriptors and on LDS.

Lanes of one instruction act one after the other, in order of wave and lane, so that results are reproducible; hardware
promises no order.  Source: RDNA4 ISA, the pseudocode of the `…_ATOMIC_…` and `DS_…_RTN_…` opcodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..float_formats import bf16_to_f32, f32_to_bf16
from ..instruction import VGPR, Instruction
from ..registry import Refused, Step, add
from ..state import Group
from . import float_math as fm
from .buffer import BufferAddress
from .constants import DTYPES
from .ds import pair_offsets, single_offset
from .global_memory import global_address
from .integer_math import join_halves
from .transfer import Transfer, get_stored, put_loaded

_SLOW_ABOVE = 8  # lanes on one address, beyond which one lane after the other is quicker than rounds
RETURNS = 1  # bit 0 of TH: the value before is wanted


@dataclass(frozen=True, slots=True)
class Atomic:
    """`function(old, data)`, or `(old, data, compare)` where `compares`, gives the new value."""

    function: Callable
    kind: str
    compares: bool = False


def _inc(old, data):
    return np.where(old >= data, old.dtype.type(0), old + old.dtype.type(1))


def _dec(old, data):
    return np.where((old == 0) | (old > data), data, old - old.dtype.type(1))


def _cond_sub(old, data):
    return np.where(old >= data, old - data, old)


def _sub_clamp(old, data):
    return np.where(old < data, old.dtype.type(0), old - data)


def _compare_swap(old, data, compare):
    return np.where(old == compare, data, old)


def _packed_add(kind: str):
    def halves(words):
        parts = [np.asarray(words >> np.uint32(16 * half) & np.uint32(0xFFFF), np.uint16) for half in (0, 1)]
        return [bf16_to_f32(part) if kind == "bf16" else part.view(np.float16) for part in parts]

    def run(old, data):
        sums = [a + b for a, b in zip(halves(old), halves(data), strict=True)]
        return join_halves(*(f32_to_bf16(value) if kind == "bf16" else value for value in sums))

    return run


_BITS = {32: "32", 64: "64"}
_ATOMICS: dict[str, Atomic] = {
    **{
        f"{name}_{kind}{bits}": Atomic(function, f"{kind}{bits}")
        for bits in (32, 64)
        for name, kind, function in (
            ("add", "u", np.add),
            ("sub", "u", np.subtract),
            ("inc", "u", _inc),
            ("dec", "u", _dec),
            ("min", "i", np.minimum),
            ("max", "i", np.maximum),
            ("min", "u", np.minimum),
            ("max", "u", np.maximum),
        )
    },
    **{
        f"{name}_b{bits}": Atomic(function, f"u{bits}")
        for bits in (32, 64)
        for name, function in (
            ("and", np.bitwise_and),
            ("or", np.bitwise_or),
            ("xor", np.bitwise_xor),
            ("swap", lambda _old, data: data),
        )
    },
    **{f"cmpswap_b{bits}": Atomic(_compare_swap, f"u{bits}", compares=True) for bits in (32, 64)},
    "sub_clamp_u32": Atomic(_sub_clamp, "u32"),
    "cond_sub_u32": Atomic(_cond_sub, "u32"),
    "add_f32": Atomic(np.add, "f32"),
    "min_num_f32": Atomic(fm.minimum_num, "f32"),
    "max_num_f32": Atomic(fm.maximum_num, "f32"),
    "pk_add_f16": Atomic(_packed_add("f16"), "u32"),
    "pk_add_bf16": Atomic(_packed_add("bf16"), "u32"),
}
_LDS_ONLY = {
    **{f"rsub_u{bits}": Atomic(lambda old, data: data - old, f"u{bits}") for bits in (32, 64)},
    "min_num_f64": Atomic(fm.minimum_num, "f64"),
    "max_num_f64": Atomic(fm.maximum_num, "f64"),
    **{
        f"mskor_b{bits}": Atomic(lambda old, mask, data: old & ~mask | data, f"u{bits}", compares=True)
        for bits in (32, 64)
    },
}
# What LDS opcodes call an operation -> what global ones call it.
_LDS_NAMES = {f"storexchg_b{bits}": f"swap_b{bits}" for bits in (32, 64)} | {
    f"cmpstore_b{bits}": f"cmpswap_b{bits}" for bits in (32, 64)
}


def resolve(elements: np.ndarray, indices: np.ndarray, operands: list[np.ndarray], function: Callable) -> np.ndarray:
    """Applies `function` at each index of a flat array, equal indices in order, and returns the values before."""
    before = np.empty(len(indices), elements.dtype)
    remaining = np.arange(len(indices))
    while len(remaining):
        unique, first = np.unique(indices[remaining], return_index=True)
        if len(remaining) > _SLOW_ABOVE * len(unique):
            for position in remaining:
                index = indices[position]
                before[position] = elements[index]
                values = [operand[position : position + 1] for operand in operands]
                elements[index] = function(elements[index : index + 1], *values)[0]
            break
        now = remaining[first]
        at = indices[now]
        before[now] = elements[at]
        elements[at] = function(elements[at], *(operand[now] for operand in operands))
        later = np.ones(len(remaining), bool)
        later[first] = False
        remaining = remaining[later]
    return before


def _operands(g: Group, atomic: Atomic, registers: list[int], where) -> list[np.ndarray]:
    width = np.dtype(DTYPES[atomic.kind]).itemsize
    found = []
    for register in registers:
        (values,) = get_stored(g, Transfer(width), register, where)
        found.append(np.ascontiguousarray(values).reshape(-1).view(DTYPES[atomic.kind]))
    return found


def _put_before(g: Group, register: int, before: np.ndarray, where) -> None:
    width = before.dtype.itemsize
    carrier = before.view(np.uint32 if width == 4 else np.uint64)
    put_loaded(g, Transfer(width), register, [carrier.reshape(g.count, 32) if where is True else carrier], where)


def _global_step(instruction: Instruction, atomic: Atomic, addresses, data: int, target: int | None) -> Step:
    width = np.dtype(DTYPES[atomic.kind]).itemsize
    registers = [data, data + width // 4] if atomic.compares else [data]

    def run(g: Group) -> None:
        at, where = addresses(g)
        if not at.size:
            return
        if g.machine.on_global is not None:
            g.machine.on_global(g, instruction, at, width, where, "atomic")
        operands = _operands(g, atomic, registers, where)
        before = g.machine.atomic_global(g, at.reshape(-1), operands, atomic.function, DTYPES[atomic.kind], where)
        if target is not None:
            _put_before(g, target, before, where)

    return run


def _plain_addresses(instruction: Instruction):
    addresses = global_address(instruction)

    def run(g: Group):
        at = addresses(g)
        return (at, True) if g.mask is True else (at[g.mask], g.mask)

    return run


def _buffer_addresses(instruction: Instruction, width: int):
    addresses = BufferAddress(instruction, width)

    def run(g: Group):
        at, inside = addresses(g)
        reached = inside if g.mask is True else inside & g.mask
        return (at, True) if reached.all() else (at[reached], reached)

    return run


def _make_global(instruction: Instruction) -> Step:
    atomic = _ATOMICS[instruction.opcode.split("_atomic_")[1]]
    target = instruction["vdst"] - VGPR if instruction["th"] & RETURNS else None
    return _global_step(instruction, atomic, _plain_addresses(instruction), instruction["vsrc"] - VGPR, target)


def _make_buffer(instruction: Instruction) -> Step:
    atomic = _ATOMICS[instruction.opcode.split("_atomic_")[1]]
    data = instruction["vdata"] - VGPR
    target = data if instruction["th"] & RETURNS else None
    width = np.dtype(DTYPES[atomic.kind]).itemsize
    step = _global_step(instruction, atomic, _buffer_addresses(instruction, width), data, target)
    if target is None:
        return step

    def run(g: Group) -> None:
        # Lanes beyond NUM_RECORDS get 0 back; their data is not used.
        _, inside = BufferAddress(instruction, width)(g)
        outside = ~inside & g.active()
        step(g)
        for register in range(target, target + width // 4):
            g.u[register][outside] = 0

    return run


def _make_lds(instruction: Instruction) -> Step:
    returning = "_rtn_" in instruction.opcode
    name = instruction.opcode.removeprefix("ds_").replace("_rtn_", "_")
    name = _LDS_NAMES.get(name, name)
    atomic = {**_ATOMICS, **_LDS_ONLY}[name]
    width = np.dtype(DTYPES[atomic.kind]).itemsize
    source = instruction["addr"] - VGPR
    registers = [instruction["data0"] - VGPR]
    if atomic.compares:
        registers.append(instruction["data1"] - VGPR)
    target = instruction["vdst"] - VGPR if returning else None

    def run(g: Group) -> None:
        where, lds = g.mask, g.machine.lds
        start = g.u[source] if where is True else g.u[source][where]
        if not start.size:
            return
        at = lds.offsets(g, start, single_offset(instruction), width, where)
        lds.observe(g, instruction, at, width, where, "atomic")
        lds.check_defined(at, width)
        operands = _operands(g, atomic, registers, where)
        elements = lds.view(width).view(DTYPES[atomic.kind])
        before = resolve(elements, at.reshape(-1) // width, operands, atomic.function)
        if target is not None:
            _put_before(g, target, before, where)

    return run


def _make_exchange_pair(instruction: Instruction) -> Step:
    """ds_storexchg_2addr: two elements swapped with two registers."""
    width = 8 if instruction.opcode.endswith("b64") else 4
    offsets = pair_offsets(instruction, width)
    source, target = instruction["addr"] - VGPR, instruction["vdst"] - VGPR
    data = (instruction["data0"] - VGPR, instruction["data1"] - VGPR)
    atomic = _ATOMICS[f"swap_b{8 * width}"]

    def run(g: Group) -> None:
        where, lds = g.mask, g.machine.lds
        start = g.u[source] if where is True else g.u[source][where]
        if not start.size:
            return
        befores = []
        for offset, register in zip(offsets, data, strict=True):
            at = lds.offsets(g, start, offset, width, where)
            lds.observe(g, instruction, at, width, where, "atomic")
            operands = _operands(g, atomic, [register], where)
            befores.append(resolve(lds.view(width), at.reshape(-1) // width, operands, atomic.function))
        for number, before in enumerate(befores):
            _put_before(g, target + number * width // 4, before, where)

    return run


add("VGLOBAL", (f"global_atomic_{name}" for name in _ATOMICS), _make_global)
add("VFLAT", (f"flat_atomic_{name}" for name in _ATOMICS), _make_global)
add("VBUFFER", (f"buffer_atomic_{name}" for name in _ATOMICS), _make_buffer)
_lds = [name for name in {**_ATOMICS, **_LDS_ONLY} if not name.startswith(("swap", "cmpswap"))]
for _name in (*_lds, *_LDS_NAMES):
    _base, _kind = _name.rsplit("_", 1)
    _forms = [f"ds_{_base}_rtn_{_kind}"]
    if not _name.startswith("storexchg"):
        _forms.append(f"ds_{_name}")
    add("DS", _forms, _make_lds)
for _stride in ("", "stride64_"):
    add("DS", (f"ds_storexchg_2addr_{_stride}rtn_b{bits}" for bits in (32, 64)), _make_exchange_pair)

__all__ = ["Refused", "resolve"]
