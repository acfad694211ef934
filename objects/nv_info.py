"""The `.nv.info` attribute records of a CUBIN.

NVIDIA publishes no description. The layout below was measured on CUBINs of ptxas 12.9, 13.0 and 13.3 against
`cuobjdump -elf`, which prints each record with its name:

    records   = { record }
    record    = 01 attribute u16          no value (EIFMT_NVAL)
              | 02 attribute u8 00        (EIFMT_BVAL)
              | 03 attribute u16          (EIFMT_HVAL)
              | 04 attribute u16:n byte*n (EIFMT_SVAL)

`.nv.info` holds facts by symbol index for all functions, `.nv.info.<kernel>` those of one kernel, `.nv.compat`
those of the file in the same form but with attribute numbers of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from assay.objects.code_object import Argument
from assay.objects.elf import Elf, Section

# Names as `cuobjdump -elf` prints them, less 'EIATTR_'.
MAX_THREADS = 0x05
PARAM_CBANK = 0x0A
REQNTID = 0x10
FRAME_SIZE = 0x11
MIN_STACK_SIZE = 0x12
KPARAM_INFO = 0x17
CBANK_PARAM_SIZE = 0x19
REGCOUNT = 0x2F
KPARAM_INFO_V2 = 0x45  # seen where the parameters exceed 4,096 bytes (allowed from CUDA 12.1 on)

# CUDA C++ Programming Guide, table 'Technical Specifications per Compute Capability': threads per block.
MAX_THREADS_PER_BLOCK = 1024

_NO_VALUE, _BYTE, _HALF, _SIZED = 1, 2, 3, 4
_PAIR = struct.Struct("<II")
_PARAM = struct.Struct("<IHHI")
_PARAM_V2 = struct.Struct("<IHHHBB")


@dataclass(frozen=True, slots=True)
class Record:
    """One attribute: `value` for the short forms, `payload` for the sized one."""

    attribute: int
    value: int
    payload: bytes


def read_records(elf: Elf, section: Section) -> tuple[Record, ...]:
    """All records of a section in order. Raises ObjectError for an unknown form or one that runs out."""
    raw = elf.contents(section)
    records = []
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise elf.error(section.name, f"{len(raw) - at} stray bytes after the last record")
        form, attribute, value = raw[at], raw[at + 1], int.from_bytes(raw[at + 2 : at + 4], "little")
        at += 4
        payload = b""
        if form == _SIZED:
            payload = raw[at : at + value]
            if len(payload) != value:
                raise elf.error(section.name, f"record {attribute:#x} of {value} bytes leaves the section")
            at += value
        elif form not in (_NO_VALUE, _BYTE, _HALF):
            raise elf.error(section.name, f"record form {form}", "1 to 4")
        records.append(Record(attribute, value & 0xFF if form == _BYTE else value, payload))
    return tuple(records)


def by_symbol(elf: Elf, section: Section) -> dict[int, dict[int, int]]:
    """From `.nv.info`: for each of REGCOUNT, FRAME_SIZE and MIN_STACK_SIZE, symbol index → value."""
    facts: dict[int, dict[int, int]] = {REGCOUNT: {}, FRAME_SIZE: {}, MIN_STACK_SIZE: {}}
    for record in read_records(elf, section):
        if record.attribute not in facts:
            continue
        if len(record.payload) != _PAIR.size:
            given = f"record {record.attribute:#x} of {len(record.payload)} bytes"
            raise elf.error(section.name, given, str(_PAIR.size))
        symbol, value = _PAIR.unpack(record.payload)
        if facts[record.attribute].setdefault(symbol, value) != value:
            raise elf.error(section.name, f"record {record.attribute:#x} for symbol {symbol} twice")
    return facts


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What `.nv.info.<kernel>` says. `kernarg_bytes` is 0 only where no parameter is recorded at all."""

    arguments: tuple[Argument, ...]
    kernarg_bytes: int
    max_threads: int | None


def read_kernel_info(elf: Elf, section: Section) -> KernelInfo:
    """Parameters and thread limit of one kernel. Raises ObjectError where records are missing or disagree."""
    records = read_records(elf, section)
    size = _parameter_bytes(elf, section, records)
    arguments = _arguments(elf, section, records)
    end = max((a.offset + a.size for a in arguments), default=0)
    if end != size:
        given = f"parameters end at {end}, the parameter block has {size} bytes"
        raise elf.error(section.name, given, "equal figures")
    return KernelInfo(arguments, size, _max_threads(elf, section, records))


def _parameter_bytes(elf: Elf, section: Section, records: tuple[Record, ...]) -> int:
    """CBANK_PARAM_SIZE, which PARAM_CBANK repeats as the upper half of `offset | size << 16`."""
    sizes = {r.value for r in records if r.attribute == CBANK_PARAM_SIZE}
    for record in records:
        if record.attribute == PARAM_CBANK:
            if len(record.payload) != _PAIR.size:
                raise elf.error(section.name, f"PARAM_CBANK of {len(record.payload)} bytes", "8")
            sizes.add(_PAIR.unpack(record.payload)[1] >> 16)
    if len(sizes) > 1:
        raise elf.error(section.name, f"parameter block of {sorted(sizes)} bytes", "one size")
    return sizes.pop() if sizes else 0


def _arguments(elf: Elf, section: Section, records: tuple[Record, ...]) -> tuple[Argument, ...]:
    found: dict[int, Argument] = {}
    for record in records:
        if record.attribute not in (KPARAM_INFO, KPARAM_INFO_V2):
            continue
        if len(record.payload) != _PARAM.size:
            raise elf.error(section.name, f"KPARAM_INFO of {len(record.payload)} bytes", str(_PARAM.size))
        if record.attribute == KPARAM_INFO:  # alignment, space and bank in the low 18 bits
            _, ordinal, offset, packed = _PARAM.unpack(record.payload)
            size = packed >> 18
        else:
            _, ordinal, offset, size, _, _ = _PARAM_V2.unpack(record.payload)
        if ordinal in found:
            raise elf.error(section.name, f"parameter {ordinal} occurs twice")
        found[ordinal] = Argument(offset, size, "param")
    if sorted(found) != list(range(len(found))):
        raise elf.error(section.name, f"parameters {sorted(found)}", "numbers from 0 without a gap")
    arguments = tuple(found[ordinal] for ordinal in sorted(found))
    _check_apart(elf, section, arguments)
    return arguments


def _check_apart(elf: Elf, section: Section, arguments: tuple[Argument, ...]) -> None:
    end = 0
    for index, argument in enumerate(arguments):
        if argument.offset < end or not argument.size:
            given = f"parameter {index}: {argument.size} bytes at {argument.offset}"
            raise elf.error(section.name, given, "in order and apart")
        end = argument.offset + argument.size


def _max_threads(elf: Elf, section: Section, records: tuple[Record, ...]) -> int | None:
    """The block size that the code was compiled for: required exactly (REQNTID) or at most (MAX_THREADS)."""
    limits = []
    for record in records:
        if record.attribute in (REQNTID, MAX_THREADS):
            if len(record.payload) != 12:
                raise elf.error(section.name, f"block size of {len(record.payload)} bytes", "12")
            limits.append(prod(struct.unpack("<III", record.payload)))
    if not limits:
        return None
    if not 0 < min(limits) <= MAX_THREADS_PER_BLOCK:
        raise elf.error(section.name, f"block of {min(limits)} threads", f"1 to {MAX_THREADS_PER_BLOCK}")
    return min(limits)
