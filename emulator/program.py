"""A kernel ready to be launched on the emulator."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.objects import Kernel, ObjectError, read_object
from assay.objects.amd_chips import RDNA4

from . import semantics  # noqa: F401 - registers what every instruction does
from .blocks import Block, Item, build_blocks
from .checks import Checks
from .counters import Counters, Meter
from .decode import DecodeError, decode
from .errors import EmulationError, LaunchError, Place, UnsupportedInstructions
from .examine import examiner
from .instruction import Instruction
from .launch import Launch, argument_block, chunk_size, initial_group, make_machine, packed_block, vector_count
from .lines import SourceLines
from .memory import Memory
from .poison import Rule
from .progress import Progress
from .races import RaceDetector
from .scheduler import Scheduler

# Whose code is executed.
ARCHITECTURES = RDNA4
_KERNARG = "kernel arguments"


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What a launch did. `steps` counts instructions executed for a group; `seconds` is wall-clock time."""

    counters: Counters
    steps: int
    seconds: float


class Program:
    """One kernel of a code object, decoded and given semantics. Immutable; may be launched any number of times."""

    def __init__(self, kernel: Kernel, instructions: tuple[Instruction, ...], blocks: tuple[Block, ...], lines):
        self.kernel = kernel
        self.instructions = instructions
        self._blocks = blocks
        self._lines = lines
        self._vector_count = vector_count(instructions)
        self._rules: dict[int, Rule] = {}

    @classmethod
    def load(cls, code: bytes, *, where: str, kernel: str | None = None) -> Program:
        """Reads a gfx12 HSACO. `where` names it in messages; `kernel` picks one of several kernels.

        Raises assay.objects.ObjectError for a damaged file, UnsupportedInstructions naming every instruction without
        semantics, EmulationError for code that is not gfx12.
        """
        found = read_object(code, where=where).kernels
        if kernel is None and len(found) != 1:
            names = ", ".join(item.name for item in found)
            raise EmulationError(f"{where}: {len(found)} kernels; name one of {names}")
        chosen = next((item for item in found if kernel is None or item.name == kernel), None)
        if chosen is None:
            names = ", ".join(item.name for item in found)
            raise EmulationError(f"{where}: no kernel {kernel!r}; it has {names}")
        if chosen.backend != "hip" or chosen.arch not in ARCHITECTURES:
            raise EmulationError(f"{where}: {chosen.arch} code; the emulator executes {', '.join(ARCHITECTURES)}")
        if chosen.resources.wavefront_size != 32:
            raise EmulationError(f"{where}: wavefront size {chosen.resources.wavefront_size}; the emulator has wave32")
        return cls.of_kernel(chosen, where=where, lines=SourceLines(code, chosen.descriptor.entry))

    @classmethod
    def of_kernel(cls, kernel: Kernel, *, where: str, lines: SourceLines | None = None) -> Program:
        """A kernel that has been read already. Raises what `load` raises for its code."""
        try:
            instructions = decode(kernel.code)
        except DecodeError as error:
            raise EmulationError(f"{where}: {error}") from None
        blocks, unsupported = build_blocks(instructions)
        if unsupported:
            raise UnsupportedInstructions(kernel.name, unsupported)
        return cls(kernel, instructions, blocks, lines or SourceLines(b"", 0))

    def launch(
        self,
        *,
        grid: Sequence[int],
        num_warps: int,
        arguments: Mapping[str, int | float] | Sequence[int | float] | bytes,
        memory: Memory,
        lds_bytes: int = 0,
        checks: Checks | None = None,
        count_transactions: bool = True,
        progress: Progress | None = None,
    ) -> LaunchResult:
        """Runs `grid` (one to three axes) workgroups of `num_warps` waves of 32 lanes to their end.

        `arguments` are the explicit ones in order, or by name where the object names them; pointers are addresses from
        `memory`. A floating-point argument must be a float: the object does not tell its type. Hidden arguments are
        filled in. Bytes are the whole argument block as a runtime has packed it. `lds_bytes` is the launch-time LDS
        size. `count_transactions` off leaves out the per-instruction memory counters, which cost time.
        Another thread may read `progress` meanwhile.

        Raises LaunchError before anything runs, or another EmulationError at the first fault; buffers then hold what
        was stored so far.
        """
        started = time.perf_counter()
        checks = checks or Checks()
        launch = Launch(self.kernel, tuple(grid), num_warps, lds_bytes)
        block = np.frombuffer(bytearray(_block(launch, arguments)), np.uint8)
        address = memory.add(_KERNARG, block, writable=False)
        meter = Meter(self._blocks, transactions=count_transactions)
        races = RaceDetector(memory, launch.waves_per_group) if checks.races else None
        try:
            with np.errstate(all="ignore"):
                steps = self._run(launch, memory, address, checks, meter, races, progress or Progress())
        finally:
            memory.remove(_KERNARG)
        return LaunchResult(meter.result(launch), steps, time.perf_counter() - started)

    def _run(
        self,
        launch: Launch,
        memory: Memory,
        address: int,
        checks: Checks,
        meter: Meter,
        races: RaceDetector | None,
        progress: Progress,
    ) -> int:
        steps = 0
        size = chunk_size(launch, self._vector_count)
        for first in range(0, launch.workgroups, size):
            count = min(size, launch.workgroups - first)
            machine = make_machine(launch, memory, checks, self._vector_count, first, count, meter, races)
            scheduler = Scheduler(machine, self._blocks, examiner(checks, self._rules), self._place)
            machine.steps = steps
            progress.runs(machine, first, launch.workgroups)
            scheduler.run(initial_group(launch, machine, first, address))
            meter.add_blocks(scheduler.executed)
            steps = machine.steps
        return steps

    def _place(self, item: Item) -> Place:
        instruction = item.instruction
        source = self._lines.find(instruction.address)
        return Place(self.kernel.name, instruction.address, instruction.text, source)


def _block(launch: Launch, arguments) -> bytes:
    return packed_block(launch, arguments) if isinstance(arguments, bytes) else argument_block(launch, arguments)


__all__ = ["LaunchError", "LaunchResult", "ObjectError", "Program"]
