"""Decoded instructions are the assembler's, one to one, with its registers."""

from __future__ import annotations

import re

import pytest

from assay.emulator.decode import DecodeError, decode, decode_one
from assay.objects import read_object

from .corpus.cases import make_cases
from .corpus.running import compile_case
from .planting import VGPR, encode, i

_REGISTER = re.compile(
    r"(?<![\w.])(?:[vs]\[\d+:\d+\]|v\d+(?:\.[lh])?|s\d+|ttmp\d+|vcc_lo|vcc_hi|vcc|exec_lo|exec|m0)(?![\w.])"
)
CASES = {case.name: case for case in make_cases()}
FEW = ("softmax_float16", "matmul_bf16_ragged", "atomic_mixture", "integer_functions_int64", "convert_e4nv_float32")


def assembler_lines(text: str) -> list[tuple[str, list[str]]]:
    """(mnemonic, registers) of each instruction in the compiler's assembly; both halves of a VOPD pair apart."""
    found = []
    for line in text.splitlines():
        if line.strip().startswith(".amdgpu_metadata"):
            break
        code = re.sub(r";.*|//.*", "", line)
        if not re.match(r"^\s+[a-z]\w*", code):
            continue
        for half in code.strip().split("::"):
            name, _, rest = half.strip().partition(" ")
            found.append((name, sorted(_REGISTER.findall(rest))))
    while found and found[-1][0] == "s_code_end":
        found.pop()
    return found


def check_against_assembler(name: str, specialisation: str) -> None:
    compiled = compile_case(CASES[name], specialisation)
    code = read_object(compiled.asm["hsaco"], where=name).kernels[0].code
    decoded = [part for item in decode(code) for part in (item.parts or (item,))]
    ours = [(item.name, sorted(_REGISTER.findall(item.text.partition(" ")[2]))) for item in decoded]
    assert ours == assembler_lines(compiled.asm["amdgcn"])


@pytest.mark.parametrize("name", FEW)
def test_decoded_instructions_are_the_assemblers(name):
    check_against_assembler(name, "plain")


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", ["plain", "aligned", "buffers"])
@pytest.mark.parametrize("name", CASES)
def test_every_corpus_kernel_decodes_to_the_assemblers_text(name, specialisation):
    check_against_assembler(name, specialisation)


def test_a_literal_makes_the_instruction_longer():
    code = encode("VOP2", "v_add_nc_u32", vdst=1, src0=255, vsrc1=2, literal=0xDEADBEEF)
    instruction = decode_one(code, 0)
    assert (instruction.size, instruction.literal) == (8, 0xDEADBEEF)
    assert instruction.text == "v_add_nc_u32_e32 v1, 0xdeadbeef, v2"


def test_the_dpp_forms_of_long_encodings_are_known():
    code = encode("VOP3_DPP16", "v_add_f32", vdst=1, src0=250, vsrc0=7, src1=VGPR + 2, dpp=0x161, row_mask=15)
    instruction = decode_one(code, 0)
    assert (instruction.name, instruction.size, instruction.dpp) == ("v_add_f32_e64_dpp", 12, "dpp16")
    assert instruction["src0"] == VGPR + 7


def test_dpp8_names_eight_lanes():
    lanes = {f"lane_sel_{lane}": 7 - lane for lane in range(8)}
    instruction = decode_one(encode("VOP1_DPP8", "v_mov_b32", vdst=1, src0=233, vsrc0=7, **lanes), 0)
    assert (instruction.name, instruction.size) == ("v_mov_b32_dpp8", 8)
    assert [instruction[f"lane_sel_{lane}"] for lane in range(8)] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_buffer_instruction_is_known():
    code = encode("VBUFFER", "buffer_load_b128", vdata=4, vaddr=9, rsrc=8, offen=1, soffset=124, ioffset=16)
    assert decode_one(code, 0).text.startswith("buffer_load_b128 v[4:7], ")


def test_a_dual_instruction_has_two_parts():
    code = encode(
        "VOPD",
        "v_dual_mov_b32",
        opy=16,
        vdstx=2,
        vdsty=1,
        srcx0=i(1),
        srcy0=VGPR + 4,
        vsrcy1=5,
    )
    instruction = decode_one(code, 0)
    assert instruction.text == "v_dual_mov_b32 v2, 1 :: v_dual_add_nc_u32 v3, v4, v5"


@pytest.mark.parametrize("code", [b"\xff\xff\xff\xff", bytes.fromhex("00007ed6"), b"\x7e\x02"])
def test_bytes_that_are_no_instruction_are_refused_with_their_address(code):
    with pytest.raises(DecodeError, match="0x4: "):
        decode(encode("SOPP", "s_nop", simm16=0) + code)


def test_code_that_ends_inside_an_instruction_is_refused():
    whole = encode("VOP2", "v_add_nc_u32", vdst=1, src0=255, vsrc1=2, literal=1)
    with pytest.raises(DecodeError, match="ends inside v_add_nc_u32"):
        decode(whole[:-2])


def test_padding_behind_the_program_is_left_out():
    end = encode("SOPP", "s_endpgm")
    assert len(decode(end + encode("SOPP", "s_code_end") * 5)) == 1
