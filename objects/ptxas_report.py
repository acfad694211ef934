"""What `ptxas -v` printed about each kernel. Spill bytes are written nowhere else: no CUBIN holds them.

The form, unchanged from ptxas 12.9 to 13.3 (NVIDIA documents it under 'nvcc --resource-usage'):

    ptxas info    : Compiling entry function 'NAME' for 'sm_90a'
    ptxas info    : Function properties for NAME
        N bytes stack frame, N bytes spill stores, N bytes spill loads
    ptxas info    : Used N registers, used N barriers, N bytes cumulative stack size, N bytes smem
    ptxas info    : Function properties for CALLEE      (any number; compiled into this kernel)
        N bytes stack frame, N bytes spill stores, N bytes spill loads
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.objects.errors import ObjectError

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_OTHER = re.compile(r"Compiling function '")
_PROPERTIES = re.compile(r"Function properties for '?(?P<name>[^\s']+)'?\s*$")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class PtxasReport:
    """One kernel's figures. Spill bytes include the device functions compiled into the kernel; `stack_bytes`
    is a thread's whole stack where ptxas added it up, else the kernel's own frame; `shared_bytes` is static
    shared memory without the driver's reserve. `barriers` is `None` where the line does not mention them."""

    arch: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int | None


def parse_ptxas_report(text: str) -> dict[str, PtxasReport]:
    """Kernel name → report. A kernel whose lines are not all there is left out, never filled with zeros.

    Raises ObjectError if one kernel is reported twice with different figures (a text about several
    architectures: read each alone).
    """
    reports: dict[str, PtxasReport] = {}
    for name, arch, lines in _blocks(text):
        report = _report(name, arch, lines)
        if report is not None and reports.setdefault(name, report) != report:
            given = f"kernel {name!r} twice, for {reports[name].arch} and {arch}"
            raise ObjectError("ptxas report", given, "one report a kernel")
    return reports


def _blocks(text: str) -> list[tuple[str, str, list[str]]]:
    blocks: list[tuple[str, str, list[str]]] = []
    inside = False
    for line in text.splitlines():
        if entry := _ENTRY.search(line):
            blocks.append((entry["name"], entry["arch"], []))
            inside = True
        elif _OTHER.search(line):
            inside = False
        elif inside:
            blocks[-1][2].append(line)
    return blocks


def _report(name: str, arch: str, lines: list[str]) -> PtxasReport | None:
    frames: dict[str, tuple[int, int, int]] = {}
    used, owner = "", ""
    for line in lines:
        if properties := _PROPERTIES.search(line):
            owner = properties["name"]
        elif frame := _FRAME.search(line):
            frames[owner] = (int(frame["stack"]), int(frame["stores"]), int(frame["loads"]))
        elif _USED.search(line) and not used:
            used = line
    if name not in frames or not used:
        return None
    registers = _USED.search(used)
    return PtxasReport(
        arch=arch,
        registers=int(registers["registers"]) if registers else 0,
        stack_bytes=max(frames[name][0], _number(_CUMULATIVE, used) or 0),
        spill_store_bytes=sum(stores for _, stores, _ in frames.values()),
        spill_load_bytes=sum(loads for _, _, loads in frames.values()),
        shared_bytes=_number(_SHARED, used) or 0,
        barriers=_number(_BARRIERS, used),
    )


def _number(pattern: re.Pattern[str], line: str) -> int | None:
    found = pattern.search(line)
    return int(found[1]) if found else None
