"""assay.emulator: executes gfx12 code objects on the CPU, instruction by instruction."""

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
from .program import LaunchResult, Program

VERSION = "1"
