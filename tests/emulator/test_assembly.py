"""What the disassembler prints is assembled into the same bytes again, by LLVM's assembler in the Triton wheel."""

from __future__ import annotations

import random
import re

import pytest

from assay.codegen.expand import candidates
from assay.codegen.records import Problem
from assay.codegen.render import Renderer
from assay.codegen.variants import make_variant
from assay.emulator.assembly import assembly_text, disassemble
from assay.objects import read_object
from tests.kernels.shipped import compile_variant, problems, shipped_specs

from .assembling import assemble, try_to_assemble
from .corpus.cases import make_cases
from .corpus.running import compile_case
from .encoding_samples import NAMES, samples
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

# Opcodes that LLVM has no words for on gfx12, or none without an operand that these samples do not make.
WORDLESS = re.compile(
    r"s_atc_probe.*|s_barrier_init|s_barrier_join|s_get_barrier_state|s_dcache_inv|s_prefetch_.*_pc_rel|global_.*_addtid_b32"
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


FAMILIES = ("merge_splits", "kv_store", "kv_reconstruct", "decode_attention", "extend_attention")


def check_problem(problem: Problem) -> None:
    """The first candidate that compiles, whether it qualifies or not."""
    specs = shipped_specs()
    model, target = specs.families[problem.family].model, specs.target(problem.target)
    variant = make_variant(model, target, candidates(model, target, problem)[0], Renderer(specs.templates))
    outcome = compile_variant(variant)
    assert outcome.code, outcome.messages
    kernel = read_object(outcome.code, where=variant.id).kernels[0]
    assert not any(line.data for line in disassemble(kernel.code))
    check_round_trip(kernel.code, kernel.arch)


@pytest.mark.usefixtures("compile_cache")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_shipped_kernel_of_each_family_is_assembled_to_its_own_bytes(family):
    check_problem(problems(shipped_specs(), family)[0])


@pytest.mark.slow
@pytest.mark.usefixtures("compile_cache")
@pytest.mark.parametrize("target", ["gfx1201", "gfx1200"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_shipped_kernel_is_assembled_to_its_own_bytes(family, target):
    for problem in problems(shipped_specs(), family, "core", target):
        check_problem(problem)


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


def check_samples(name: str, seed: int, each: int) -> None:
    """Every sample comes back, and no text is refused; each in front of a mark, so that one cannot hide in the next."""
    code = b"".join(item + i_mark(number) for number, (item, _) in enumerate(samples(name, random.Random(seed), each)))
    made, said = try_to_assemble(text_of(code))
    assert made is not None, said
    assert made[: len(code)] == code, first_difference(code, made)


def i_mark(number: int) -> bytes:
    """`s_nop` with a number: text of one length wherever it stands."""
    return encode("SOPP", "s_nop", simm16=number & 0xFFFF)


def first_difference(code: bytes, made: bytes) -> str:
    at = next(at for at in range(0, len(code), 4) if made[at : at + 4] != code[at : at + 4])
    place = next(line for line in reversed(disassemble(code)) if line.address <= at)
    return f"{place.text}: {code[place.address : place.address + 12].hex()} became {made[place.address :][:12].hex()}"


@pytest.mark.parametrize("name", NAMES)
def test_random_instructions_of_every_opcode_come_back(name):
    check_samples(name, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", NAMES)
def test_many_random_instructions_of_every_opcode_come_back(name, seed):
    check_samples(name, seed, 10)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "VINTERP"])
def test_most_opcodes_have_words(name):
    """Numbers are for what the assembler cannot say, not for what this printer cannot."""
    worded, seen = set(), set()
    for code, instruction in samples(name, random.Random(3), 120 if name == "VOP3P" else 60):
        names = {part.opcode for part in instruction.parts or (instruction,)}
        seen |= names
        worded |= names if not any(line.data for line in disassemble(code)) else set()
    left = {f"{name} {item}" for item in seen - worded if not WORDLESS.fullmatch(item)}
    assert left <= {"VOP3 v_readfirstlane_b32"}  # it has a short form alone
