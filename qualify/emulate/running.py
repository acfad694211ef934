"""One launch of one kernel of one file, from the options to what it did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from assay import kernel_specs, objects
from assay.bundle import Fault
from assay.bundle.faults import did_you_mean
from assay.codegen.specs import load_specs
from assay.emulator import ARCHITECTURES, Checks, EmulationError, LaunchError, LaunchResult, Memory, Program, Progress
from assay.emulator.lines import SourceLines
from assay.objects.errors import printable
from assay.qualify.occupancy import Occupancy, occupancy_of
from assay.qualify.verification import file_fault

from .arguments import BufferArgument, GivenArgument, NullArgument, ScalarArgument
from .buffers import Buffer, BufferFault, Change, change_of, make_buffer, scalar_bits
from .expectations import Comparison, Expectation, compare, read_expectation
from .matching import explicit_arguments, launch_faults, match_arguments, name_faults
from .request import CHECKS, EmulateError, EmulateRequest


@dataclass(frozen=True)
class Emulated:
    """What a launch did.  result: None after a fault.  occupancy: None where no target file is shipped for the arch."""

    request: EmulateRequest
    kernel: objects.Kernel
    resources: objects.Resources
    given: list[GivenArgument]
    buffers: list[Buffer]
    changes: list[Change]
    result: LaunchResult | None
    fault: EmulationError | None
    comparisons: list[Comparison]
    occupancy: Occupancy | None
    lines: SourceLines

    @property
    def verdict(self) -> str:
        """`fault`, `mismatch`, `matched`, or `ran` where nothing was expected."""
        if self.fault is not None:
            return "fault"
        if not self.comparisons:
            return "ran"
        return "matched" if all(item.passed for item in self.comparisons) else "mismatch"


def emulate_file(request: EmulateRequest, progress: Progress) -> Emulated:
    """Runs one kernel; a fault of the kernel is part of the result.  progress: told how far the launch is.

    Raises EmulateError, with everything wrong at once, for a file that is no gfx12 HSACO or options that do not fit it.
    """
    code = _read(request.file)
    kernel = _choose(code, request)
    given, faults = match_arguments(request.arguments, kernel)
    faults = [*launch_faults(request, kernel), *faults, *name_faults(request, given)]
    if faults:
        raise EmulateError(faults)
    buffers = _make_buffers(given, request)
    expectations = _read_expectations(buffers, request)
    _make_folder(request.save)
    result, fault = _launch(code, kernel, given, buffers, request, progress)
    _save(buffers, request.save)
    comparisons = [] if fault else _compare(buffers, expectations, request)
    resources = kernel.resources.with_launch(request.lds_bytes)
    return Emulated(
        request=request,
        kernel=kernel,
        resources=resources,
        given=given,
        buffers=buffers,
        changes=[change_of(buffer) for buffer in buffers],
        result=result,
        fault=fault,
        comparisons=comparisons,
        occupancy=_occupancy(kernel, resources, request.warps or 0),
        lines=SourceLines(code, kernel.descriptor.entry if kernel.descriptor else 0),
    )


def _read(path: Path) -> bytes:
    if fault := file_fault(path):
        raise EmulateError(fault)
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmulateError(Fault(str(path), error.strerror or str(error), "a readable file")) from None


def _choose(code: bytes, request: EmulateRequest) -> objects.Kernel:
    where = str(request.file)
    try:
        kernels = {kernel.name: kernel for kernel in objects.read_object(code, where=where).kernels}
    except objects.ObjectError as error:
        raise EmulateError(Fault(error.where, error.given, error.allowed, error.hint)) from None
    first = next(iter(kernels.values()))
    if first.backend != "hip" or first.arch not in ARCHITECTURES:
        raise EmulateError(Fault(where, f"{first.arch} code", f"an HSACO for {', '.join(ARCHITECTURES)}"))
    names = ", ".join(printable(name, 80) for name in kernels)
    if request.kernel is None and len(kernels) > 1:
        raise EmulateError(Fault("--kernel", f"missing; {where} has {len(kernels)} kernels", names))
    kernel = kernels.get(request.kernel) if request.kernel is not None else first
    if kernel is None:
        hint = did_you_mean(request.kernel, kernels)
        raise EmulateError(Fault(f"--kernel {request.kernel}", f"not in {where}", names, hint))
    if kernel.resources.wavefront_size != 32:
        raise EmulateError(Fault(where, f"{printable(kernel.name, 80)} has waves of 64", "waves of 32"))
    return kernel


def _make_buffers(given: list[GivenArgument], request: EmulateRequest) -> list[Buffer]:
    buffers, faults = [], []
    for argument in given:
        if isinstance(argument, BufferArgument):
            try:
                buffers.append(make_buffer(argument, writable=argument.name not in request.read_only))
            except BufferFault as error:
                faults.append(error.fault)
    if faults:
        raise EmulateError(faults)
    return buffers


def _read_expectations(buffers: list[Buffer], request: EmulateRequest) -> list[Expectation]:
    by_name = {buffer.name: buffer for buffer in buffers}
    found, faults = [], []
    for name, file in request.expect:
        try:
            found.append(read_expectation(by_name[name], file))
        except BufferFault as error:
            faults.append(error.fault)
    if faults:
        raise EmulateError(faults)
    return found


def _make_folder(folder: Path | None) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EmulateError(Fault(f"--save {folder}", error.strerror or str(error), "a folder to write to")) from None


def _launch(
    code: bytes,
    kernel: objects.Kernel,
    given: list[GivenArgument],
    buffers: list[Buffer],
    request: EmulateRequest,
    progress: Progress,
) -> tuple[LaunchResult | None, EmulationError | None]:
    memory = Memory()
    addresses = {item.name: memory.add(item.name, item.elements, writable=item.writable) for item in buffers}
    try:
        program = Program.load(code, where=str(request.file), kernel=kernel.name)
        result = program.launch(
            grid=request.grid or (),
            num_warps=request.warps or 0,
            arguments=_values(kernel, given, addresses),
            memory=memory,
            lds_bytes=request.lds_bytes,
            checks=_checks(request),
            progress=progress,
        )
        return result, None
    except LaunchError as error:
        raise EmulateError(Fault(str(request.file), error.detail)) from None
    except EmulationError as error:
        return None, error


def _values(kernel: objects.Kernel, given: list[GivenArgument], addresses: dict[str, int]) -> list[int]:
    """One integer an argument; pointers that were left out are null."""
    values = []
    for argument in given:
        if isinstance(argument, ScalarArgument):
            values.append(scalar_bits(argument))
        else:
            values.append(0 if isinstance(argument, NullArgument) else addresses[argument.name])
    return values + [0] * (len(explicit_arguments(kernel)) - len(values))


def _checks(request: EmulateRequest) -> Checks:
    checks = replace(Checks(), **{name: name not in request.checks_off for name in CHECKS})
    return checks if request.max_steps is None else replace(checks, step_budget=request.max_steps)


def _save(buffers: list[Buffer], folder: Path | None) -> None:
    """Every buffer as NAME.npy, codes for bf16 and fp8; after a fault what the kernel stored so far."""
    if folder is None:
        return
    faults = []
    for buffer in buffers:
        path = folder / f"{buffer.name}.npy"
        try:
            np.save(path, buffer.elements, allow_pickle=False)
        except OSError as error:
            faults.append(Fault(str(path), error.strerror or str(error), "a file to write"))
    if faults:
        raise EmulateError(faults)


def _compare(buffers: list[Buffer], expectations: list[Expectation], request: EmulateRequest) -> list[Comparison]:
    by_name = {buffer.name: buffer for buffer in buffers}
    return [compare(by_name[item.name], item, request.atol, request.rtol) for item in expectations]


def _occupancy(kernel: objects.Kernel, resources: objects.Resources, warps: int) -> Occupancy | None:
    """By the shipped target file of the kernel's architecture, with the waves that were launched."""
    launched = replace(resources, max_threads=warps * 32)
    for target in load_specs(Path(kernel_specs.DIRECTORY)).targets.values():
        if target.model.arch == kernel.arch:
            return occupancy_of(target.model.occupancy, kernel, launched)
    return None
