"""What the disassembler prints is assembled into the same bytes again, by LLVM's assembler in the Triton wheel."""

from __future__ import annotations

import pytest

from assay.emulator.assembly import assembly_text, disassemble
from assay.objects import read_object

from .assembling import assemble
from .corpus.cases import make_cases
from .corpus.running import compile_case
from .planting import VGPR, encode, end, i

CASES = {case.name: case for case in make_cases()}
FEW = (
    "softmax_float16",
    "matmul_bf16_ragged",
    "atomic_mixture",
    "cumulative_sum_float32",
    "double_math",
    "quantise_rows",
)


def check_round_trip(code: bytes, arch: str = "gfx1201") -> None:
    assert assemble(assembly_text(disassemble(code)), arch)[: len(code)] == code


def text_of(code: bytes) -> str:
    return assembly_text(disassemble(code))


@pytest.mark.parametrize("name", FEW)
def test_a_compiled_kernel_is_assembled_to_its_own_bytes_without_a_number(name):
    kernel = read_object(compile_case(CASES[name], "plain").asm["hsaco"], where=name).kernels[0]
    assert not any(line.data for line in disassemble(kernel.code))
    check_round_trip(kernel.code)


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", ["plain", "aligned", "buffers"])
@pytest.mark.parametrize("name", CASES)
def test_every_corpus_kernel_is_assembled_to_its_own_bytes(name, specialisation):
    kernel = read_object(compile_case(CASES[name], specialisation).asm["hsaco"], where=name).kernels[0]
    check_round_trip(kernel.code)


def test_a_constant_that_the_assembler_would_put_elsewhere_stays_where_it_is():
    code = encode("VOP1", "v_mov_b32", vdst=0, src0=255, literal=1)
    assert text_of(code) == "\tv_mov_b32_e32 v0, lit(0x1)\n"
    assert assemble("v_mov_b32_e32 v0, 0x1") != code
    check_round_trip(code)


def test_a_field_that_the_text_cannot_name_comes_as_numbers():
    code = encode("SOP1", "s_setpc_b64", ssrc0=4, sdst=7)
    assert text_of(code) == "\t.long 0xbe874804  ; s_setpc_b64 s[4:5]\n"
    assert assemble("s_setpc_b64 s[4:5]") != code
    check_round_trip(code)


def test_bytes_that_are_no_instruction_come_as_numbers():
    code = bytes.fromhex("ffffffff") + end() + b"\x01\x02\x03"
    assert text_of(code) == "\t.long 0xffffffff\n\ts_endpgm\n\t.byte 0x01\n\t.byte 0x02\n\t.byte 0x03\n"
    check_round_trip(code)


def test_branches_lead_to_labels_in_order_of_address():
    loop = encode("SOPP", "s_nop") + encode("SOPP", "s_cbranch_scc1", simm16=0xFFFE) + end()
    code = encode("SOPP", "s_branch", simm16=2) + loop
    lines = disassemble(code)
    assert [line.label for line in lines] == ["", ".L0", "", ".L1"]
    assert [line.text for line in lines] == ["s_branch .L1", "s_nop 0", "s_cbranch_scc1 .L0", "s_endpgm"]
    check_round_trip(code)


def test_a_branch_into_an_instruction_keeps_its_distance():
    code = encode("SOPP", "s_branch", simm16=1) + encode("VOP2", "v_add_f32", vdst=1, src0=255, vsrc1=2, literal=99)
    assert disassemble(code)[0].text == "s_branch 1"
    check_round_trip(code)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (encode("VOP3", "v_fma_f32", vdst=1, src0=VGPR + 2, src1=VGPR + 3, src2=i(1), neg=5, abs=2, omod=1, clmp=1),
         "v_fma_f32 v1, -v2, |v3|, neg(1) clamp mul:2"),
        (encode("VGLOBAL", "global_load_b128", vdst=4, vaddr=8, saddr=2, th=1, scope=2, ioffset=-16),
         "global_load_b128 v[4:7], v8, s[2:3] offset:-16 th:TH_LOAD_NT scope:SCOPE_DEV"),
        (encode("VOP1_DPP16", "v_mov_b32", vdst=1, src0=250, vsrc0=7, dpp=0x161, row_mask=15, bank_mask=3, bc=1),
         "v_mov_b32_dpp v1, v7 row_xmask:1 row_mask:0xf bank_mask:0x3 bound_ctrl:1"),
    ],
    ids=["VOP3", "VGLOBAL", "DPP16"],
)  # fmt: skip
def test_modifiers_are_written_as_the_assembler_reads_them(code, text):
    (line,) = disassemble(code)
    assert (line.text, line.data) == (text, ())
    check_round_trip(code)
