"""A bounds-checked view of a 64-bit little-endian ELF image.

pyelftools knows the layout of the records and is used for that alone. Its section objects trust the file:
`.data()` of a NOBITS section allocates `sh_size` bytes, a compressed one is inflated, a section count of 0
loops up to `sh_size` of section 0, and a string table that links to itself recurses. So every number is
checked here against the bytes that exist before it is followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from elftools.construct import ConstructError
from elftools.elf.structs import ELFStructs

from assay.objects.errors import ObjectError

HEADER_BYTES = 64
SECTION_HEADER_BYTES = 64
PROGRAM_HEADER_BYTES = 56
SYMBOL_BYTES = 24

FLAG_ALLOCATED = 0x2  # SHF_ALLOC
FLAG_EXECUTABLE = 0x4  # SHF_EXECINSTR
FLAG_COMPRESSED = 0x800  # SHF_COMPRESSED

# Real objects let a few sections share bytes (CUDA 13 stores constants once under two names). Above this
# factor the headers are nonsense, and work over all sections would no longer be bounded by the file's size.
MAX_SECTION_BYTES_PER_FILE_BYTE = 4


@dataclass(frozen=True, slots=True)
class Section:
    """One section header. `kind` is pyelftools' name of a standard type, else the number."""

    index: int
    name: str
    kind: str | int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int = 0

    @property
    def stored(self) -> bool:
        """Whether its bytes are in the file; the size of one that is not says nothing about the file."""
        return self.kind not in ("SHT_NULL", "SHT_NOBITS")


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol. `kind` is pyelftools' STT name or a number; `section` an index, or `None` if undefined,
    absolute or common."""

    name: str
    kind: str | int
    other: int
    section: int | None
    value: int
    size: int


@cache
def _layouts() -> ELFStructs:
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    structs.create_advanced_structs()
    return structs


class Elf:
    """The header, sections and symbols of one image. Raises ObjectError for anything out of bounds."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        header = self._header()
        self.file_type: str | int = header["e_type"]
        self.os_abi = data[7]
        self.abi_version = data[8]
        self.flags: int = header["e_flags"]
        self._check_table("program headers", header["e_phoff"], header["e_phnum"], PROGRAM_HEADER_BYTES)
        self.sections = self._sections(header)
        self._by_name = {section.name: section for section in self.sections}

    def error(self, place: str, given: str, allowed: str = "", hint: str = "") -> ObjectError:
        """An ObjectError that names this file and a place in it."""
        return ObjectError(f"{self.where}: {place}" if place else self.where, given, allowed, hint)

    def section(self, name: str) -> Section | None:
        return self._by_name.get(name)

    def contents(self, section: Section) -> bytes:
        """The section's bytes as stored; its bounds were checked when the file was opened."""
        return self.contents_at(section, section.address, section.size, section.name)

    def contents_at(self, section: Section, address: int, size: int, what: str) -> bytes:
        """`size` bytes at virtual `address`, which must lie in `section`."""
        if not section.stored or section.flags & FLAG_COMPRESSED:
            raise self.error(what, f"section {section.name!r} has no plain bytes in the file")
        start = address - section.address
        if start < 0 or size < 0 or start + size > section.size:
            raise self.error(what, f"{size} bytes at {address:#x} leave section {section.name!r}")
        return self.data[section.offset + start : section.offset + start + size]

    def symbols(self, table: str) -> tuple[Symbol, ...]:
        """Every symbol of section `table`; an empty tuple if there is no such section."""
        section = self.section(table)
        if section is None:
            return ()
        raw = self.contents(section)
        if len(raw) % SYMBOL_BYTES:
            raise self.error(table, f"{len(raw)} bytes", f"a multiple of {SYMBOL_BYTES}")
        if not 0 < section.link < len(self.sections):
            raise self.error(table, f"string table {section.link}", f"a section below {len(self.sections)}")
        names = self.contents(self.sections[section.link])
        return tuple(self._symbol(table, raw, at, names) for at in range(0, len(raw), SYMBOL_BYTES))

    def _symbol(self, table: str, raw: bytes, at: int, names: bytes) -> Symbol:
        entry = self._parse("Elf_Sym", raw, at, SYMBOL_BYTES, table)
        place = f"{table}[{at // SYMBOL_BYTES}]"
        section = entry["st_shndx"]
        if not isinstance(section, int):  # pyelftools spells the reserved indices (undefined, absolute …)
            section = None
        elif section >= len(self.sections):
            raise self.error(place, f"section {section}", f"a section below {len(self.sections)}")
        return Symbol(
            name=self._string(names, entry["st_name"], place),
            kind=entry["st_info"]["type"],
            other=raw[at + 5],
            section=section,
            value=entry["st_value"],
            size=entry["st_size"],
        )

    def _header(self) -> Any:
        data = self.data
        if not data:
            raise self.error("", "empty file", "an HSACO or a CUBIN")
        if len(data) < HEADER_BYTES or data[:4] != b"\x7fELF":
            raise self.error("", f"not an ELF file ({len(data)} bytes)", "an HSACO or a CUBIN")
        if data[4:7] != b"\x02\x01\x01":
            raise self.error("ELF header", f"class, order, version = {tuple(data[4:7])}", "(2, 1, 1)")
        header = self._parse("Elf_Ehdr", data, 0, HEADER_BYTES, "ELF header")
        # e_version is not judged: ptxas to 12.9 puts its own release there (129) instead of EV_CURRENT.
        if header["e_ehsize"] != HEADER_BYTES:
            raise self.error("ELF header", f"e_ehsize = {header['e_ehsize']}", str(HEADER_BYTES))
        for name, size in (("e_shentsize", SECTION_HEADER_BYTES), ("e_phentsize", PROGRAM_HEADER_BYTES)):
            if header[name] != size and (name == "e_shentsize" or header["e_phnum"]):
                raise self.error("ELF header", f"{name} = {header[name]}", str(size))
        return header

    def _check_table(self, what: str, offset: int, count: int, size: int) -> None:
        if count and offset + count * size > len(self.data):
            given = f"{count} entries at {offset} in a file of {len(self.data)} bytes"
            raise self.error(what, given, hint="the file is truncated or damaged")

    def _sections(self, header: Any) -> tuple[Section, ...]:
        offset, count, names_at = header["e_shoff"], header["e_shnum"], header["e_shstrndx"]
        if not count or not isinstance(names_at, int) or not 0 < names_at < count:
            given = f"{count} sections, name table {names_at}"
            raise self.error("ELF header", given, "a section table with names")
        self._check_table("section headers", offset, count, SECTION_HEADER_BYTES)
        raw = [self._section_header(offset, index) for index in range(count)]
        if sum(r["sh_size"] for r in raw if _is_stored(r)) > MAX_SECTION_BYTES_PER_FILE_BYTE * len(self.data):
            raise self.error("section headers", "sections overlap beyond reason")
        if not _is_stored(raw[names_at]):
            raise self.error("section headers", "the name table holds no bytes")
        start = raw[names_at]["sh_offset"]
        names = self.data[start : start + raw[names_at]["sh_size"]]
        sections = tuple(self._section(index, r, names) for index, r in enumerate(raw))
        self._check_unique(sections)
        return sections

    def _section_header(self, table: int, index: int) -> Any:
        place = f"section header {index}"
        raw = self._parse("Elf_Shdr", self.data, table + index * SECTION_HEADER_BYTES, 64, place)
        if _is_stored(raw) and raw["sh_offset"] + raw["sh_size"] > len(self.data):
            given = f"{raw['sh_size']} bytes at {raw['sh_offset']} in a file of {len(self.data)} bytes"
            raise self.error(place, given, hint="the file is truncated or damaged")
        return raw

    def _section(self, index: int, raw: Any, names: bytes) -> Section:
        return Section(
            index=index,
            name=self._string(names, raw["sh_name"], f"section header {index}"),
            kind=raw["sh_type"],
            flags=raw["sh_flags"],
            address=raw["sh_addr"],
            offset=raw["sh_offset"],
            size=raw["sh_size"],
            link=raw["sh_link"],
            info=raw["sh_info"],
        )

    def _check_unique(self, sections: tuple[Section, ...]) -> None:
        seen: set[str] = set()
        for section in sections[1:]:
            if section.name in seen:
                raise self.error("section headers", f"two sections named {section.name!r}")
            seen.add(section.name)

    def _string(self, table: bytes, offset: int, place: str) -> str:
        end = table.find(b"\0", offset) if offset < len(table) else -1
        if end < 0:
            raise self.error(place, f"name at {offset} leaves the string table")
        try:
            return table[offset:end].decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(place, f"name {table[offset:end]!r}", "UTF-8") from None

    def _parse(self, record: str, data: bytes, at: int, size: int, place: str) -> Any:
        try:
            return getattr(_layouts(), record).parse(data[at : at + size])
        except ConstructError:
            raise self.error(place, f"unreadable {record}") from None


def _is_stored(raw: Any) -> bool:
    return raw["sh_type"] not in ("SHT_NULL", "SHT_NOBITS")
