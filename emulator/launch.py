"""From a launch to the first instruction: the argument block and the registers that the hardware fills.

Source: LLVM AMDGPUUsage, 'Initial Kernel Execution State' and 'Code Object V5 Metadata' for hidden arguments; for gfx12
workgroup ids lie in ttmp9 and ttmp7, the wave's number within its workgroup in ttmp8.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.objects import Argument, Kernel

from .checks import Checks
from .errors import LaunchError
from .instruction import Instruction
from .machine import Machine
from .masks import scalar_mask
from .memory import Memory
from .state import LANES, Group

_TTMP7, _TTMP8, _TTMP9 = 115, 116, 117
_ENABLE_KERNARG_POINTER = 1 << 3  # kernel code properties
_USER_SGPRS_SHIFT, _USER_SGPRS_MASK = 1, 0x1F  # rsrc2
_MAX_WAVES = 32
# A part of the grid whose vector registers take about this much runs at once: enough to spread the cost of a step,
# little enough for the processor's caches.
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch; `grid` in workgroups. Raises LaunchError for sizes that no hardware takes."""

    kernel: Kernel
    grid: tuple[int, ...]
    waves_per_group: int
    lds_bytes: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.grid) <= 3 or any(size < 0 or size != int(size) for size in self.grid):
            raise LaunchError(f"grid {self.grid}: one to three sizes of at least 0")
        if not 1 <= self.waves_per_group <= _MAX_WAVES:
            raise LaunchError(f"{self.waves_per_group} waves a workgroup: 1 to {_MAX_WAVES}")
        limit = self.kernel.resources.max_threads
        if limit is not None and self.waves_per_group * LANES > limit:
            raise LaunchError(f"{self.waves_per_group} waves of 32: the kernel was compiled for {limit} work-items")
        if self.lds_bytes < 0 or self.lds_bytes > 1 << 16:
            raise LaunchError(f"{self.lds_bytes} bytes of LDS: 0 to 65536")

    @property
    def sizes(self) -> tuple[int, int, int]:
        return (*self.grid, 1, 1, 1)[:3]

    @property
    def workgroups(self) -> int:
        x, y, z = self.sizes
        return x * y * z


def argument_block(launch: Launch, arguments: Mapping[str, int | float] | Sequence[int | float]) -> bytes:
    """The kernel argument block. Raises LaunchError listing everything wrong with the arguments."""
    kernel = launch.kernel
    explicit = [item for item in kernel.arguments if not item.kind.startswith("hidden_")]
    problems: list[str] = []
    explicit, values = _pair(explicit, arguments, problems)
    size = max([kernel.resources.kernarg_bytes or 0, *(item.offset + item.size for item in kernel.arguments)])
    block = bytearray(size)
    for number, (item, value) in enumerate(zip(explicit, values, strict=False)):
        label = item.name or f"argument {number}"
        try:
            block[item.offset : item.offset + item.size] = _encode(item, value)
        except (struct.error, OverflowError, TypeError) as error:
            problems.append(f"{label} = {value!r} does not fit {item.size} bytes ({error})")
    for item in kernel.arguments:
        if item.kind.startswith("hidden_"):
            block[item.offset : item.offset + item.size] = _hidden(launch, item, problems)
    if problems:
        raise LaunchError(f"{kernel.name}: {'; '.join(problems)}")
    return bytes(block)


def packed_block(launch: Launch, block: bytes) -> bytes:
    """A block that a runtime packed. Raises LaunchError unless it has the kernel's own size."""
    wanted = launch.kernel.resources.kernarg_bytes
    if len(block) != wanted:
        raise LaunchError(f"{launch.kernel.name}: an argument block of {len(block)} bytes, the kernel takes {wanted}")
    return block


def _pair(explicit: list[Argument], arguments, problems: list[str]):
    """The explicit arguments with their values. Triton's two trailing scratch pointers, null, may be left out."""
    if isinstance(arguments, Mapping):
        named = {item.name: item for item in explicit if item.name}
        if len(named) != len(explicit):
            problems.append("the object does not name its arguments: give them in order")
            return explicit, []
        problems += [f"no argument {name!r}" for name in arguments if name not in named]
        missing = [name for name in named if name not in arguments]
        if missing and missing != [item.name for item in _trailing_pointers(explicit)]:
            problems.append(f"missing: {', '.join(missing)}")
        return explicit, [arguments.get(item.name or "", 0) for item in explicit]
    values = list(arguments)
    left_out = len(explicit) - len(values)
    if left_out == 2 and len(_trailing_pointers(explicit)) == 2:
        values += [0, 0]
    elif left_out:
        problems.append(f"{len(values)} arguments given, {len(explicit)} wanted")
    return explicit, values


def _trailing_pointers(explicit: list[Argument]) -> list[Argument]:
    return [item for item in explicit[-2:] if item.kind == "global_buffer" and item.size == 8]


def _encode(item: Argument, value: int | float) -> bytes:
    if isinstance(value, float | np.floating):
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[item.size], value)
    value = int(value)
    if not -(1 << 8 * item.size - 1) <= value < 1 << 8 * item.size:
        raise OverflowError("out of range")
    return (value & (1 << 8 * item.size) - 1).to_bytes(item.size, "little")


def _hidden(launch: Launch, item: Argument, problems: list[str]) -> bytes:
    """Hidden arguments by kind; pointers that a kernel without device calls never follows are null."""
    sizes = dict(zip("xyz", launch.sizes, strict=True))
    group = {"x": launch.waves_per_group * LANES, "y": 1, "z": 1}
    kind = item.kind.removeprefix("hidden_")
    value = 0
    if kind.startswith("block_count_"):
        value = sizes[kind[-1]]
    elif kind.startswith("group_size_"):
        value = group[kind[-1]]
    elif kind == "grid_dims":
        value = max([1, *(axis + 1 for axis, size in enumerate(launch.sizes) if size > 1)])
    elif kind == "dynamic_lds_size":
        value = launch.lds_bytes
    elif not kind.startswith(("remainder_", "global_offset_", "none", "multigrid", "default_queue", "completion")):
        problems.append(f"hidden argument {item.kind}: the emulator has none to give")
    return value.to_bytes(item.size, "little")


def chunk_size(launch: Launch, vectors: int) -> int:
    """How many workgroups of a kernel with so many VGPRs run at once."""
    group_bytes = vectors * launch.waves_per_group * LANES * 4 + launch.lds_bytes
    return max(1, _CHUNK_BYTES // group_bytes)


def vector_count(instructions: tuple[Instruction, ...]) -> int:
    """One more than the highest VGPR that any instruction names."""
    highest = 0
    for instruction in instructions:
        for operand in instruction.operands:
            if operand.kind == "vgpr":
                highest = max(highest, operand.index + operand.registers)
    return highest + 1


def make_machine(launch, memory: Memory, checks: Checks, vectors: int, first: int, count: int, meter, races) -> Machine:
    """The machine for workgroups `first` to `first + count - 1`."""
    machine = Machine(
        memory,
        checks,
        workgroups=count,
        waves_per_group=launch.waves_per_group,
        vector_count=vectors,
        lds_bytes=launch.lds_bytes + (launch.kernel.resources.lds_static_bytes or 0),
        scratch_bytes=launch.kernel.resources.scratch_bytes or 0,
    )
    machine.connect(meter, races, first * launch.waves_per_group)
    return machine


def initial_group(launch: Launch, machine: Machine, first: int, arguments: int) -> Group:
    """All waves at the kernel's entry, with the registers that the hardware fills."""
    descriptor = launch.kernel.descriptor
    if not descriptor.properties & _ENABLE_KERNARG_POINTER or descriptor.properties & 7:
        raise LaunchError(f"user registers of kernel properties {descriptor.properties:#x}: only the argument pointer")
    registers, per_group = machine.registers, launch.waves_per_group
    waves = np.arange(machine.waves)
    workgroup = first + waves // per_group
    x, y, _ = launch.sizes
    scalar = registers.scalar
    scalar[:, 0], scalar[:, 1] = arguments & 0xFFFFFFFF, arguments >> 32
    scalar[:, _TTMP9] = workgroup % x
    scalar[:, _TTMP7] = workgroup // x % y | workgroup // x // y << 16
    scalar[:, _TTMP8] = waves % per_group << 25
    registers.vector[0] = (waves % per_group * LANES)[:, None] + np.arange(LANES)
    group = machine.group(waves)
    if registers.shadow is not None:
        _mark_initial(machine, group)
    return group


def _mark_initial(machine: Machine, group: Group) -> None:
    """Everything is undefined but what was just filled, EXEC and the registers that read as constants."""
    shadow = machine.registers.shadow
    shadow.vector[0] = 0
    shadow.scalar[:, [0, 1]] = 0
    shadow.scalar[:, 107:128] = 0
    vectors = ((1 << shadow.vector.shape[0]) - 1) & ~1
    scalars = scalar_mask(2, 105)
    group.undefined = vectors | scalars | scalar_mask(128)
    group.refresh_in_flight()
