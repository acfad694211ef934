"""What a person sees of `assay emulate`: the verdict first, then what changed, then what it took."""

from __future__ import annotations

import rich.box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.emulator import Counters, EmulationError, OutOfBoundsError, StepBudgetError, UndefinedValueError
from assay.emulator.counters import SEGMENTS
from assay.emulator.lines import SourceLines
from assay.objects.errors import printable

from .expectations import Comparison
from .matching import explicit_arguments
from .running import Emulated
from .traffic import traffic_by_kind, traffic_of

# A matrix product has about thirty; all of them are in the JSON.
_SHOWN_INSTRUCTIONS = 12
_TEXT = 60


def print_emulated(out: Console, done: Emulated) -> None:
    """The whole of it."""
    print_verdict(out, done)
    _print_buffers(out, done)
    if done.result is not None:
        _print_counters(out, done.result.counters, done.lines)
    _print_occupancy(out, done)


def print_verdict(out: Console, done: Emulated) -> None:
    """The launch, then its fault or the expectations."""
    request = done.request
    grid = ",".join(map(str, request.grid or ()))
    launch = f"grid {grid}, {request.warps} waves a workgroup, {done.resources.lds_total_bytes or 0:,} B of LDS"
    _say(out, f"{printable(done.kernel.name, 200)} ({done.kernel.arch}): {launch}", "bold")
    if left_out := len(explicit_arguments(done.kernel)) - len(done.given):
        _say(out, f"the last {left_out} pointers were left out and are null: Triton's scratch")
    fewer = (done.kernel.resources.max_threads or 0) > (request.warps or 0) * 32
    if fewer:
        _say(out, f"fewer waves than the {done.kernel.resources.max_threads} work-items compiled for", "yellow")
    if request.checks_off:
        _say(out, f"not checked: {', '.join(dict.fromkeys(request.checks_off))}", "yellow")
    if done.fault is not None:
        _print_fault(out, done)
    for comparison in done.comparisons:
        _print_comparison(out, comparison)
    if done.result is not None and not done.comparisons:
        _say(out, "ran to its end without a fault; nothing was expected of it", "green")


def _print_fault(out: Console, done: Emulated) -> None:
    fault = done.fault
    assert fault is not None
    _say(out, f"FAULT: {type(fault).__name__}", "bold red")
    if fault.place is not None:
        place = fault.place
        _say(out, f"    instruction  {printable(f'{place.kernel}+{place.address:#x}: {place.instruction}')}")
        _say(out, f"    source       {printable(place.source) or 'unknown: the object has no line table'}")
    for line in fault.detail.splitlines():
        _say(out, f"    {printable(line)}", "red")
    if hint := _hint(fault, done):
        _say(out, f"    {hint}")


def _hint(fault: EmulationError, done: Emulated) -> str:
    instruction = fault.place.instruction if fault.place else ""
    if isinstance(fault, OutOfBoundsError) and instruction.startswith("ds_") and not done.request.lds_bytes:
        return "hint: no file tells the launch-time LDS: give --lds BYTES, which Triton's metadata calls `shared`"
    if isinstance(fault, StepBudgetError):
        return "hint: --max-steps allows more"
    if isinstance(fault, UndefinedValueError):
        return "hint: values of registers and LDS that nobody wrote; --check-off undefined runs on"
    return ""


def _print_comparison(out: Console, item: Comparison) -> None:
    error = "" if item.largest_error is None else f", largest error of finite elements {item.largest_error:.3g}"
    if item.first is None:
        _say(out, f"{item.name}: all {item.elements:,} elements as {item.file} says{error}", "green")
        return
    index, actual, expected = item.first
    said = f"MISMATCH {item.name}: {item.wrong:,} of {item.elements:,} elements differ from {item.file}{error}"
    _say(out, said, "bold red")
    _say(out, f"    first at {list(index)}: {_number(actual)}, expected {_number(expected)}", "red")


def _print_buffers(out: Console, done: Emulated) -> None:
    if not done.buffers:
        return
    table = _table("buffer", "dtype", "shape", "changed", "first", "NaN", "smallest", "largest", left=3)
    for buffer, change in zip(done.buffers, done.changes, strict=True):
        changed = f"{change.changed:,} of {change.elements:,}" if buffer.writable else "read-only"
        first = "-" if change.first is None else f"{change.first:,}"
        shape = ",".join(map(str, buffer.elements.shape))
        ends = (_number(change.smallest), _number(change.largest))
        table.add_row(*map(Text, (buffer.name, buffer.dtype, shape, changed, first, f"{change.nans:,}", *ends)))
    out.print(table)


def _print_counters(out: Console, counters: Counters, lines: SourceLines) -> None:
    classes = ", ".join(f"{name} {count:,}" for name, count in counters.instructions.items() if count)
    waves = f"{counters.waves:,} waves in {counters.workgroups:,} workgroup{'' if counters.workgroups == 1 else 's'}"
    _say(out, f"executed: {counters.total:,} wave-instructions by {waves}: {classes}")
    if counters.memory:
        _print_traffic(out, counters)
        _print_instructions(out, counters, lines)
    if counters.lds:
        cycles, ideal = (sum(getattr(item, name) for item in counters.lds) for name in ("cycles", "ideal_cycles"))
        said = f"LDS: {cycles:,} bank cycles, {ideal:,} without conflicts: {counters.bank_conflict_cycles:,} lost"
        _say(out, said, "yellow" if counters.bank_conflict_cycles else "")


def _print_traffic(out: Console, counters: Counters) -> None:
    sizes = "/".join(map(str, SEGMENTS))
    table = _table("global memory", "waves", "bytes", f"segments\n{sizes} B", f"coalescing\n{sizes} B")
    for kind, traffic in traffic_by_kind(counters).items():
        segments = " / ".join(f"{count:,}" for count in traffic.segments)
        ratios = " / ".join(_ratio(traffic.coalescing(size)) for size in SEGMENTS)
        table.add_row(kind, f"{traffic.waves:,}", f"{traffic.bytes:,}", segments, ratios)
    out.print(table)


def _print_instructions(out: Console, counters: Counters, lines: SourceLines) -> None:
    """The instructions that touched most 128-byte segments."""
    heaviest = sorted(counters.memory, key=lambda item: (-item.segments_128, item.address))[:_SHOWN_INSTRUCTIONS]
    table = _table("address", "instruction", "source", "waves", "bytes", "segments\n128 B", "coalescing\n128 B", left=3)
    for item in heaviest:
        source = printable(lines.find(item.address)) or "-"
        counts = (f"{count:,}" for count in (item.waves, item.bytes, item.segments_128))
        ratio = _ratio(traffic_of([item]).coalescing(128))
        table.add_row(*map(Text, (f"{item.address:#x}", printable(item.text, _TEXT), source, *counts, ratio)))
    out.print(table)
    if more := len(counters.memory) - len(heaviest):
        _say(out, f"… and {more} more instructions; --json has them all")


def _print_occupancy(out: Console, done: Emulated) -> None:
    fits, resources = done.occupancy, done.resources
    said = f"{resources.vgpr_count} VGPRs, {resources.sgpr_count} SGPRs, {resources.scratch_bytes} B of scratch"
    if fits is None:
        _say(out, f"occupancy: unknown for {done.kernel.arch}; {said}")
    else:
        waves = f"{fits.waves / fits.simds:g} of {fits.max_waves // fits.simds} waves a SIMD ({fits.unit} mode)"
        _say(out, f"occupancy: {waves}, limited by {', '.join(fits.limited_by)}; {said}")
    if done.result is not None:
        _say(out, f"{done.result.steps:,} steps in {done.result.seconds:.2f} s")


def _table(*columns: str, left: int = 1) -> Table:
    table = Table(header_style="bold", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right", overflow="fold")
    return table


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _number(value: int | float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _say(out: Console, text: str, style: str = "") -> None:
    out.print(text, style=style, markup=False, soft_wrap=True)
