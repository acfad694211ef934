"""The AMDGPU metadata note: from bytes to checked records.

Source of names, types and of which keys are required: LLVM AMDGPUUsage, 'Code Object V3 Metadata' to
'Code Object V5 Metadata', and LLVM's own checker (llvm/lib/BinaryFormat/AMDGPUMetadataVerifier.cpp).
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from assay.objects.code_object import Argument
from assay.objects.elf import Elf

NOTE_OWNER = b"AMDGPU\0"
NT_AMDGPU_METADATA = 32
# The triple before the target id.  LLVM from 2026 on (llvm-project 206480), and so Triton 3.9, spells it with the
# sub-architecture and names the empty environment: `amdgpu12.01-amd-amdhsa-unknown-gfx1201`.
_TRIPLE = re.compile(r"(?:amdgcn-amd-amdhsa-|amdgpu[0-9]+\.[0-9a-z]+-amd-amdhsa-(?:unknown)?)-")
_TRIPLES = "amdgcn-amd-amdhsa--<processor> or amdgpu<sub-architecture>-amd-amdhsa-unknown-<processor>"

_NOTE_HEADER = struct.Struct("<III")
_U32_MAX = 0xFFFFFFFF

_REQUIRED_NUMBERS = (
    ".vgpr_count",
    ".sgpr_count",
    ".private_segment_fixed_size",
    ".group_segment_fixed_size",
    ".max_flat_workgroup_size",
    ".wavefront_size",
    ".kernarg_segment_size",
)
# Compilers may leave these out; the figure is then unknown, and a gate on it must refuse.
_OPTIONAL_NUMBERS = (".vgpr_spill_count", ".sgpr_spill_count")
_REQUIRED_NAMES = (".name", ".symbol")

MAX_THREADS_PER_WORKGROUP = 1024  # every gfx9 to gfx12 processor (llvm AMDGPUBaseInfo, getMaxFlatWorkGroupSize)

# `.value_kind`; the compiler's own arguments all begin with `hidden_` and their list grows.
_VALUE_KINDS = ("by_value", "global_buffer", "dynamic_shared_pointer", "sampler", "image", "pipe", "queue")
_HIDDEN = "hidden_"


@dataclass(frozen=True, slots=True)
class NoteKernel:
    """One record of `amdhsa.kernels`. `numbers` holds every required key and the optional ones present."""

    name: str
    symbol: str
    numbers: dict[str, int]
    dynamic_stack: bool | None
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """The whole note. `target` is the target id without the triple; `None` before code object V4."""

    target: str | None
    kernels: tuple[NoteKernel, ...]


def read_note(elf: Elf, code_object_version: int) -> Note:
    """The one metadata note of `elf`. Raises ObjectError unless there is exactly one, whole and sound."""
    found = list(_metadata_notes(elf))
    if len(found) != 1:
        raise elf.error("AMDGPU metadata note", f"{len(found)} notes", "exactly one")
    problems = _Problems(elf)
    root = problems.mapping("note", _unpack(elf, found[0]))
    problems.raise_any()
    _check_version(problems, root.get("amdhsa.version"))
    target = _target(problems, root.get("amdhsa.target"), code_object_version)
    records = root.get("amdhsa.kernels")
    if not isinstance(records, list):
        problems.add("note: amdhsa.kernels", f"{_kind(records)}", "a list of kernels")
        records = []
    problems.raise_any()
    if not records:
        raise elf.error("AMDGPU metadata note", "zero kernels", "at least one")
    kernels = tuple(_kernel(problems, index, record) for index, record in enumerate(records))
    problems.raise_any()
    _check_unique(elf, kernels)
    return Note(target, kernels)


class _Problems:
    """Collects every fault of a note, so that one error names them all."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._found: list[str] = []
        self._allowed: list[str] = []

    def add(self, place: str, given: str, allowed: str) -> None:
        self._found.append(f"{place}: {given}")
        if allowed not in self._allowed:
            self._allowed.append(allowed)

    def mapping(self, place: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.add(place, _kind(value), "a map")
        return {}

    def is_number(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _U32_MAX

    def number(self, place: str, record: dict[str, Any], key: str) -> int:
        value = record.get(key)
        if self.is_number(value):
            return value
        self.add(f"{place} {key}", "missing" if key not in record else _kind(value), "an integer below 2^32")
        return 0

    def text(self, place: str, record: dict[str, Any], key: str) -> str:
        value = record.get(key)
        if isinstance(value, str) and value and "\0" not in value:
            return value
        self.add(f"{place} {key}", "missing" if key not in record else _kind(value), "a non-empty string")
        return ""

    def raise_any(self) -> None:
        if self._found:
            raise self._elf.error("AMDGPU metadata note", "; ".join(self._found), ", ".join(self._allowed))


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    shown = repr(value) if isinstance(value, bool | int | float | str) else ""
    return f"{type(value).__name__} {shown[:60]}".strip()


def _metadata_notes(elf: Elf) -> Iterator[bytes]:
    for section in elf.sections:
        if section.kind == "SHT_NOTE":
            yield from _notes(elf, section.name, elf.contents(section))


def _notes(elf: Elf, place: str, raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        if at + _NOTE_HEADER.size > len(raw):
            raise elf.error(place, f"{len(raw) - at} stray bytes after the last note")
        name_size, size, kind = _NOTE_HEADER.unpack_from(raw, at)
        start = at + _NOTE_HEADER.size + _aligned(name_size)
        end = start + size
        if end > len(raw):
            given = f"a note of {name_size} + {size} bytes in a section of {len(raw)}"
            raise elf.error(place, given, hint="the file is truncated or damaged")
        owner = raw[at + _NOTE_HEADER.size : at + _NOTE_HEADER.size + name_size]
        if owner == NOTE_OWNER and kind == NT_AMDGPU_METADATA:
            yield raw[start:end]
        at = start + _aligned(size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _unpack(elf: Elf, raw: bytes) -> Any:
    # msgpack bounds every length by the size of its input, so a forged count cannot allocate.
    try:
        return msgpack.unpackb(raw, object_pairs_hook=_map_without_duplicates)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise elf.error("AMDGPU metadata note", f"unreadable msgpack: {reason}") from None


def _map_without_duplicates(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice in one map")
    return result


def _check_version(problems: _Problems, version: Any) -> None:
    sound = isinstance(version, list) and len(version) == 2 and all(type(v) is int for v in version)
    if not sound or version[0] != 1:
        problems.add("note: amdhsa.version", str(version)[:60], "[1, minor]")


def _target(problems: _Problems, target: Any, code_object_version: int) -> str | None:
    if target is None and code_object_version < 4:
        return None
    triple = _TRIPLE.match(target) if isinstance(target, str) else None
    if triple is None:
        problems.add("note: amdhsa.target", _kind(target), _TRIPLES)
        return None
    return target[triple.end() :]


def _kernel(problems: _Problems, index: int, value: Any) -> NoteKernel:
    record = problems.mapping(f"kernel {index}", value)
    name = record.get(".name")
    place = f"kernel {name!r}" if isinstance(name, str) else f"kernel {index}"
    name, symbol = (problems.text(place, record, key) for key in _REQUIRED_NAMES)
    keys = _REQUIRED_NUMBERS + tuple(key for key in _OPTIONAL_NUMBERS if key in record)
    numbers = {key: problems.number(place, record, key) for key in keys}
    if ".wavefront_size" in record and numbers[".wavefront_size"] not in (32, 64):
        problems.add(f"{place} .wavefront_size", str(numbers[".wavefront_size"]), "32 or 64")
    threads = numbers[".max_flat_workgroup_size"]
    if ".max_flat_workgroup_size" in record and not 0 < threads <= MAX_THREADS_PER_WORKGROUP:
        allowed = f"1 to {MAX_THREADS_PER_WORKGROUP}"
        problems.add(f"{place} .max_flat_workgroup_size", str(threads), allowed)
    dynamic = record.get(".uses_dynamic_stack")
    if ".uses_dynamic_stack" in record and not isinstance(dynamic, bool):
        problems.add(f"{place} .uses_dynamic_stack", _kind(dynamic), "a boolean")
    sized = problems.is_number(record.get(".kernarg_segment_size"))
    arguments = _arguments(problems, place, record, numbers[".kernarg_segment_size"] if sized else _U32_MAX)
    return NoteKernel(name, symbol, numbers, dynamic if isinstance(dynamic, bool) else None, arguments)


def _arguments(problems: _Problems, place: str, record: dict[str, Any], limit: int) -> tuple[Argument, ...]:
    values = record.get(".args", [] if not limit else None)
    if not isinstance(values, list):
        problems.add(f"{place} .args", _kind(values), "a list of arguments")
        return ()
    arguments = tuple(_argument(problems, f"{place} .args[{i}]", value) for i, value in enumerate(values))
    end = 0
    for index, argument in enumerate(arguments):
        if argument.offset < end or argument.offset + argument.size > limit:
            given = f"{argument.size} bytes at {argument.offset}"
            problems.add(f"{place} .args[{index}]", given, f"in order, apart, within {limit} bytes")
        end = max(end, argument.offset + argument.size)
    return arguments


def _argument(problems: _Problems, place: str, value: Any) -> Argument:
    record = problems.mapping(place, value)
    kind = problems.text(place, record, ".value_kind")
    if kind and kind not in _VALUE_KINDS and not kind.startswith(_HIDDEN):
        problems.add(f"{place} .value_kind", repr(kind[:60]), f"{', '.join(_VALUE_KINDS)}, {_HIDDEN}…")
    return Argument(
        offset=problems.number(place, record, ".offset"),
        size=problems.number(place, record, ".size"),
        kind=kind,
        name=problems.text(place, record, ".name") if ".name" in record else None,
    )


def _check_unique(elf: Elf, kernels: tuple[NoteKernel, ...]) -> None:
    for what, values in (("name", [k.name for k in kernels]), ("symbol", [k.symbol for k in kernels])):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise elf.error("AMDGPU metadata note", f"kernel {what} occurs twice: {', '.join(twice)}")
