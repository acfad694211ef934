"""Bytes outside the code neither hide nor invent a difference."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from assay.objects import ObjectError
from assay.objects.executed import executed_parts
from assay.qualify.comparing.listing import NoListing, kernel_listing
from assay.qualify.comparing.normalising import same_after_renaming, same_code_section


def section_at(data: bytes, name: str) -> tuple[int, int]:
    """Offset in the file and size of a section."""
    section = ELFFile(io.BytesIO(data)).get_section_by_name(name)
    return section["sh_offset"], section["sh_size"]


def patched(data: bytes, offset: int, mask: int = 0x01) -> bytes:
    return data[:offset] + bytes([data[offset] ^ mask]) + data[offset + 1 :]


def same(a: bytes, b: bytes, symbol: str = "k") -> bool:
    return same_code_section(a, b, symbol, symbol)


@pytest.mark.parametrize("backend", ["hip", "cuda"])
def test_a_path_in_the_line_table_is_no_difference(from_folders, backend):
    one, other = from_folders(backend, "here"), from_folders(backend, "somewhere_else", lines_above=7)
    assert one != other
    assert same(one, other, "scale")


def test_a_comment_of_another_length_is_no_difference(link):
    one, other = link(), link(comment="made by another build of the linker, 0123456789abcdef")
    assert one != other
    assert same(one, other)


@pytest.mark.parametrize("build_id", [b"\2" * 20, b"\2" * 16])
def test_another_build_id_is_no_difference(link, build_id):
    one, other = link(), link(build_id=build_id)
    assert section_at(one, ".note.build_id")[1] == 16 + 20
    assert one != other
    assert same(one, other)


def test_every_byte_of_the_functions_counts(link):
    data = link()
    elf = ELFFile(io.BytesIO(data))
    text = elf.get_section_by_name(".text")
    functions = [s for s in elf.get_section_by_name(".symtab").iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
    assert sorted(function.name for function in functions) == ["helper", "k"]
    for function in functions:
        start = function["st_value"] - text["sh_addr"] + text["sh_offset"]
        for at in range(start, start + function["st_size"]):
            assert not same(data, patched(data, at))


def test_a_function_that_the_kernel_may_call_counts(link):
    assert not same(link(helper=1), link(helper=2))


def test_a_constant_that_the_code_reads_counts(link):
    one, other = link(constant=7), link(constant=8)
    assert kernel_listing(one, "k", "hip") == kernel_listing(other, "k", "hip")
    assert not same(one, other)
    assert not same_after_renaming(one, other, "k", "k", "hip")


def test_the_descriptor_counts(link):
    one, other = link(vgprs=8), link(vgprs=96)
    assert not same(one, other)
    assert same_after_renaming(one, other, "k", "k", "hip")  # the count of registers alone


def test_a_bit_of_the_descriptor_that_is_no_count_is_a_difference_of_both_kinds(link):
    data = link()
    symbol = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab").get_symbol_by_name("k.kd")[0]
    rodata = ELFFile(io.BytesIO(data)).get_section_by_name(".rodata")
    start = symbol["st_value"] - rodata["sh_addr"] + rodata["sh_offset"]
    changed = patched(data, start + 49, 0x10)  # FLOAT_ROUND_MODE_32 of COMPUTE_PGM_RSRC1
    assert not same(data, changed)
    assert not same_after_renaming(data, changed, "k", "k", "hip")


def test_renamed_registers_are_the_same_after_renaming_alone(link):
    one = link(body="v_mov_b32_e32 v1, s6\n\tv_add_f32_e32 v2, v1, v1", vgprs=8)
    other = link(body="v_mov_b32_e32 v5, s6\n\tv_add_f32_e32 v6, v5, v5", vgprs=8)
    assert not same(one, other)
    assert not same_after_renaming(one, other, "k", "k", "hip")  # v1 is written by the function too, and stays there
    other = link(body="v_mov_b32_e32 v1, s6\n\tv_add_f32_e32 v6, v1, v1", vgprs=8)
    assert same_after_renaming(one, other, "k", "k", "hip")


def test_a_file_without_the_kernel_is_the_same_as_none(link):
    data = link()
    assert not same_code_section(data, data, "k", "other")
    assert not same(data, b"\x7fELF damaged")
    with pytest.raises(ObjectError, match="no kernel 'other'; allowed: k"):
        executed_parts(data, "other")


def test_code_of_an_architecture_without_a_disassembler_is_said_to_be_that():
    from pathlib import Path

    path = Path(__file__).parents[2] / "objects" / "data" / "copy.gfx942.hsaco"
    with pytest.raises(NoListing, match="no disassembler for gfx942"):
        kernel_listing(path.read_bytes(), "copy", "hip")


def test_a_damaged_file_has_no_listing():
    for backend in ("hip", "cuda"):
        with pytest.raises(NoListing):
            kernel_listing(b"\x7fELF", "k", backend)
