"""Source lines of addresses, from the DWARF line table if the object has one."""

from __future__ import annotations

import bisect
import io
from functools import cached_property


class SourceLines:
    """Line table of one code object. Addresses are offsets from `entry`, the kernel's first instruction."""

    def __init__(self, code: bytes, entry: int):
        self._code, self._entry = code, entry

    def find(self, address: int) -> str:
        """`file:line` of an instruction, or an empty string."""
        starts, names = self._table
        place = bisect.bisect_right(starts, self._entry + address) - 1
        return names[place] if place >= 0 else ""

    @cached_property
    def _table(self) -> tuple[list[int], list[str]]:
        from elftools.common.exceptions import DWARFError, ELFError
        from elftools.elf.elffile import ELFFile

        rows: list[tuple[int, str]] = []
        try:
            elf = ELFFile(io.BytesIO(self._code))
            if elf.has_dwarf_info():
                dwarf = elf.get_dwarf_info()
                for unit in dwarf.iter_CUs():
                    rows += _rows(dwarf.line_program_for_CU(unit))
        except (ELFError, DWARFError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError):
            rows = []  # a line table that cannot be read must not hide the fault that it was wanted for
        rows.sort(key=lambda row: row[0])
        return [row[0] for row in rows], [row[1] for row in rows]


def _rows(program) -> list[tuple[int, str]]:
    if program is None:
        return []
    files = program["file_entry"]
    first = 0 if program["version"] >= 5 else 1
    rows = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        number = state.file - first
        name = files[number].name.decode(errors="replace") if 0 <= number < len(files) else "?"
        rows.append((state.address, "" if state.end_sequence or not state.line else f"{name}:{state.line}"))
    return rows
