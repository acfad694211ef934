"""Whether a launch and its arguments fit what the kernel's object says; every misfit is a Fault."""

from __future__ import annotations

from assay.bundle import Fault
from assay.bundle.faults import did_you_mean
from assay.objects import Argument, Kernel
from assay.objects.errors import printable

from .arguments import DTYPES, FORMS, ArgumentError, BufferArgument, GivenArgument, ScalarArgument, parse_argument
from .request import EmulateRequest

_MOST_WAVES = 32
# A workgroup's y and z stand in 16 bits each of ttmp7 (LLVM AMDGPUUsage, 'Initial Kernel Execution State').
_MOST_WORKGROUPS = (2**31 - 1, 2**16 - 1, 2**16 - 1)
# A dispatch counts the work-items of each axis in 32 bits (HSA runtime specification, 'AQL kernel dispatch packet').
_MOST_WORK_ITEMS = 2**32 - 1
_LANES = 32
_LDS_LIMIT = 1 << 16


def explicit_arguments(kernel: Kernel) -> list[Argument]:
    """Those that a caller gives, in order."""
    return [item for item in kernel.arguments if not item.kind.startswith("hidden_")]


def optional_count(kernel: Kernel) -> int:
    """Triton's two scratch pointers end the list and may be left out; its objects do not name arguments, HIP's do."""
    trailing = explicit_arguments(kernel)[-2:]
    scratch = [item for item in trailing if item.kind == "global_buffer" and item.size == 8 and item.name is None]
    return 2 if len(scratch) == 2 else 0


def launch_faults(request: EmulateRequest, kernel: Kernel) -> list[Fault]:
    """What is wrong with grid, waves and LDS."""
    return [
        *_grid_faults(request.grid, request.warps),
        *_warps_faults(request.warps, kernel),
        *_lds_faults(request.lds_bytes, kernel),
    ]


def _grid_faults(grid: tuple[int, ...] | None, warps: int | None) -> list[Fault]:
    limits = ", ".join(f"{axis} up to {most:,}" for axis, most in zip("xyz", _MOST_WORKGROUPS, strict=True))
    allowed = f"X[,Y[,Z]] workgroups: {limits}"
    if grid is None:
        return [Fault("--grid", "missing; no file tells how many workgroups are launched", allowed)]
    if any(size > most for size, most in zip(grid, _MOST_WORKGROUPS, strict=False)):
        return [Fault("--grid", ",".join(map(str, grid)), allowed)]
    lanes = _LANES * max(warps or 1, 1)
    if grid[0] * lanes > _MOST_WORK_ITEMS:
        given = f"{grid[0]:,} workgroups of {lanes:,} work-items are {grid[0] * lanes:,} along x"
        return [
            Fault(
                "--grid", given, f"{_MOST_WORK_ITEMS:,} work-items", f"that is {_MOST_WORK_ITEMS // lanes:,} workgroups"
            )
        ]
    return []


def _warps_faults(warps: int | None, kernel: Kernel) -> list[Fault]:
    threads, wavefront = kernel.resources.max_threads, kernel.resources.wavefront_size
    most = min(_MOST_WAVES, (threads or _MOST_WAVES * 32) // 32)
    hint = f"compiled for {threads} work-items in waves of {wavefront}; Triton's kernels need exactly --warps {most}"
    if warps is None:
        return [Fault("--warps", "missing", f"1 to {most} waves a workgroup", hint)]
    if not 1 <= warps <= most:
        return [Fault("--warps", str(warps), f"1 to {most} waves a workgroup", hint)]
    return []


def _lds_faults(lds_bytes: int, kernel: Kernel) -> list[Fault]:
    most = _LDS_LIMIT - (kernel.resources.lds_static_bytes or 0)
    if 0 <= lds_bytes <= most:
        return []
    return [Fault("--lds", f"{lds_bytes:,} bytes", f"0 to {most:,} bytes next to the object's own")]


def match_arguments(texts: tuple[str, ...], kernel: Kernel) -> tuple[list[GivenArgument], list[Fault]]:
    """The arguments in the kernel's order, and what is wrong with them."""
    explicit, optional = explicit_arguments(kernel), optional_count(kernel)
    given: list[GivenArgument] = []
    faults: list[Fault] = []
    for position, text in enumerate(texts):
        try:
            given.append(parse_argument(text, position))
        except ArgumentError as error:
            faults.append(Fault(f"--arg {text}", error.given, error.allowed))
            continue
        if position >= len(explicit):
            faults.append(Fault(f"--arg {text}", "one too many", _all_of(explicit)))
        elif misfit := _misfit(given[-1], explicit[position]):
            faults.append(Fault(f"--arg {text}", f"{misfit}; it is {describe(position, explicit[position])}"))
    required = len(explicit) - optional
    faults += [
        Fault(f"--arg: missing {describe(position, explicit[position])}", "", _allowed(explicit[position]))
        for position in range(len(texts), len(explicit) if len(texts) > required else required)
    ]
    names = [item.name for item in given]
    faults += [Fault(f"--arg {name}=…", "named twice") for name in dict.fromkeys(names) if names.count(name) > 1]
    return given, faults


def _misfit(given: GivenArgument, argument: Argument) -> str:
    if argument.kind == "global_buffer":
        return "a number where a pointer is wanted" if isinstance(given, ScalarArgument) else ""
    if argument.kind != "by_value":
        return f"an argument of kind {argument.kind} cannot be given"
    if not isinstance(given, ScalarArgument):
        return "a pointer where a value is wanted"
    size = DTYPES[given.dtype]
    return f"{given.dtype} has {size} bytes" if size != argument.size else ""


def describe(position: int, argument: Argument) -> str:
    """`argument 2 (offset 16, 8 bytes, global_buffer)`, with the name where the object has one."""
    name = f" {printable(argument.name, 80)!r}" if argument.name else ""
    return f"argument {position}{name} (offset {argument.offset}, {argument.size} bytes, {argument.kind})"


def _allowed(argument: Argument) -> str:
    if argument.kind == "global_buffer":
        return "[NAME=]DTYPE[SIZE,…]:CONTENT, [NAME=]DTYPE:FILE.npy or null"
    fitting = [dtype for dtype, size in DTYPES.items() if size == argument.size]
    return f"[NAME=]DTYPE:NUMBER of {argument.size} bytes: {', '.join(fitting) or 'no dtype has them'}"


def _all_of(explicit: list[Argument]) -> str:
    said = ", ".join(describe(position, item) for position, item in enumerate(explicit))
    return said or "no arguments"


def name_faults(request: EmulateRequest, given: list[GivenArgument]) -> list[Fault]:
    """Options that name a buffer which no `--arg` makes."""
    buffers = [item.name for item in given if isinstance(item, BufferArgument)]
    asked = [("--read-only", name) for name in request.read_only] + [("--expect", name) for name, _ in request.expect]
    return [
        Fault(f"{option} {name}", "no buffer of that name", ", ".join(buffers) or FORMS, did_you_mean(name, buffers))
        for option, name in asked
        if name not in buffers
    ]
