"""assay.emulator: executes gfx12 code objects on the CPU, instruction by instruction.

    memory = Memory()
    x = memory.add("x", array, writable=False)              # the array itself, in place
    out = memory.add("out", result)
    program = Program.load(hsaco, where="add.hsaco")        # refuses unknown instructions by name
    done = program.launch(grid=(64,), num_warps=4, arguments=[x, out, n], lds_bytes=0, memory=memory)
    done.counters.instructions["valu"]

What is modelled: registers, LDS, scratch, bounded global memory, barriers, divergence.  What is not: time, caches, the
order of atomics, hazards that `s_wait_alu` and `s_delay_alu` guard.  Matrix products and transcendental functions are
rounded once from float64, so their last bits differ from hardware; conversions, integers, additions, products and fused
multiply-adds are exact.
"""

from .checks import NO_CHECKS, Checks
from .counters import Counters, LdsCounter, MemoryCounter
from .errors import (
    BarrierError,
    EmulationError,
    InFlightError,
    LaunchError,
    MisalignedError,
    OutOfBoundsError,
    Place,
    RaceError,
    StepBudgetError,
    UndefinedValueError,
    Unsupported,
    UnsupportedInstructions,
)
from .memory import Memory
from .program import ARCHITECTURES, LaunchResult, ObjectError, Program
from .progress import Progress

# Part of cache keys: to be raised whenever a launch may compute or report anything else.
VERSION = "2"

__all__ = [
    "ARCHITECTURES",
    "NO_CHECKS",
    "VERSION",
    "BarrierError",
    "Checks",
    "Counters",
    "EmulationError",
    "InFlightError",
    "LaunchError",
    "LaunchResult",
    "LdsCounter",
    "Memory",
    "MemoryCounter",
    "MisalignedError",
    "ObjectError",
    "OutOfBoundsError",
    "Place",
    "Program",
    "Progress",
    "RaceError",
    "StepBudgetError",
    "UndefinedValueError",
    "Unsupported",
    "UnsupportedInstructions",
]
