"""Which NVIDIA architecture a CUBIN was built for, with the 'a' suffix that ties it to one chip.

Measured with ptxas 12.9, 13.0 and 13.3 on sm_75 to sm_121a, and by patching single bytes and asking `cuobjdump -elf`:

    OS ABI 0x33, version 7 (ptxas to 12.9, up to sm_90a)    sm = e_flags & 0xff, 'a' = e_flags bit 11
    OS ABI 0x41, version 8 (CUDA 13; 12.9 for sm_100 on)    sm = e_flags >> 8 & 0xff,
                                                            'a' = e_flags bit 3 (ptxas 12.9) or
                                                                  `.nv.compat` attribute 9 = 1 (ptxas 13)

A family target (`sm_120f`) differs from the plain one only in the recorded command line; cuobjdump calls it
`sm_120`, and so does this reader.
"""

from __future__ import annotations

import re

from assay.objects.elf import Elf
from assay.objects.nv_info import read_records

OS_ABI_V7, OS_ABI_V8 = 0x33, 0x41
_V7_ACCELERATED = 1 << 11
_V8_ACCELERATED = 1 << 3
_COMPAT_ACCELERATOR_TARGET = 9
_FIRST_WITH_COMPAT = 90

# sm_75 on: `nvdisasm --help` of CUDA 13.1. Older: NVIDIA's nvcc documentation, 'GPU Feature List'; no file seen.
KNOWN_SM = frozenset((50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121))

_COMMAND_LINE_ARCH = re.compile(rb"-arch[ =]sm_([0-9]{2,3})([a-z]?)(?![0-9a-z_])")


def read_arch(elf: Elf) -> str:
    """`sm_90a`, `sm_120` … as NVIDIA's own tools print it.

    Raises ObjectError for an unknown ABI or number, or if the command line that the assembler recorded in
    `.note.nv.tkinfo` names another architecture than the header.
    """
    abi = (elf.os_abi, elf.abi_version)
    if abi == (OS_ABI_V7, 7):
        number, accelerated = elf.flags & 0xFF, bool(elf.flags & _V7_ACCELERATED)
    elif abi == (OS_ABI_V8, 8):
        number = elf.flags >> 8 & 0xFF
        accelerated = _compat_accelerated(elf, number) or bool(elf.flags & _V8_ACCELERATED)
    else:
        given = f"CUDA ABI {abi[0]:#x}, version {abi[1]}"
        raise elf.error("ELF header", given, "0x33 version 7 or 0x41 version 8")
    if number not in KNOWN_SM:
        raise elf.error("ELF header", f"e_flags {elf.flags:#x}: architecture number {number}", _known())
    arch = f"sm_{number}{'a' if accelerated else ''}"
    _check_command_line(elf, arch)
    return arch


def _known() -> str:
    return ", ".join(str(number) for number in sorted(KNOWN_SM))


def _compat_accelerated(elf: Elf, number: int) -> bool:
    section = elf.section(".nv.compat")
    if section is None:
        if number >= _FIRST_WITH_COMPAT:
            raise elf.error(".nv.compat", "missing", f"present from sm_{_FIRST_WITH_COMPAT} on")
        return False
    values = [r.value for r in read_records(elf, section) if r.attribute == _COMPAT_ACCELERATOR_TARGET]
    if len(values) > 1 or any(value not in (0, 1) for value in values):
        raise elf.error(".nv.compat", f"accelerator target {values}", "0 or 1, at most once")
    return bool(values and values[0])


def _check_command_line(elf: Elf, arch: str) -> None:
    section = elf.section(".note.nv.tkinfo")
    if section is None:
        return
    for number, suffix in _COMMAND_LINE_ARCH.findall(elf.contents(section)):
        recorded = f"sm_{number.decode()}{'a' if suffix == b'a' else ''}"
        if recorded != arch:
            given = f"the header says {arch}, the assembler's command line {recorded}"
            raise elf.error("architecture", given, "one answer")
