"""The wheel's assembler takes what the rewriting makes, gives equal bytes for equal text, and says what it refuses."""

import pytest

from assay import objects
from assay.codegen import assembling
from assay.codegen.assembling import Assembler
from assay.codegen.ptx_rewriting import rewrite
from assay.codegen.toolchain import Toolchain, ToolchainError, find_toolchain
from assay.codegen.workers import Workers

# Each half of both results goes to memory, so that no instruction can be left out; c is overwritten by its own sum.
PACKED = """.version 9.3
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<6>;
	.reg .b32 %r<5>;
	.reg .pred %p<2>;
	ld.param.b64 %rd1, [p];
	ld.global.v2.b64 {%rd2, %rd3}, [%rd1];
	ld.global.v2.b64 {%rd4, %rd5}, [%rd1+16];
	griddepcontrol.wait;
	setp.ne.s64 %p1, %rd5, 0;
	fma.rn.f32x2 %rd4, %rd2, %rd3, %rd4;
	@%p1 add.rn.ftz.f32x2 %rd4, %rd4, %rd2;
	mov.b64 {%r1, %r2}, %rd4;
	max.NaN.f32 %r3, %r1, %r2, %r1;
	min.f32 %r2, %r1, %r2, 0f3F800000;
	st.global.b64 [%rd1], %rd4;
	st.global.b32 [%rd1+8], %r3;
	st.global.b32 [%rd1+12], %r2;
	ret;
}
"""


@pytest.fixture
def assemble(tmp_path):
    def run(ptx, arch, cache="cache"):
        with Workers(1) as workers:
            assembler = Assembler(tmp_path / cache, find_toolchain(), workers, 60.0)
            return assembler.submit(ptx, arch, contraction=True).result()

    return run


def counts(made):
    (counted,) = objects.count_instructions_sass(made["code"], objects.find_disassembler()).values()
    return counted.root


def test_both_texts_assemble_and_do_the_same_arithmetic(assemble):
    result = rewrite(PACKED, "sm_120a", "sm_90a", "k")
    assert sum(result.instructions.values()) == 4
    # sm_120 has neither in hardware: its own assembler makes two operations of each, as the rewriting does.
    for made in (assemble(PACKED, "sm_120a"), assemble(result.text, "sm_90a")):
        arithmetic = {name: count for name, count in counts(made).items() if name in ("FFMA", "FADD", "FMNMX")}
        assert arithmetic == {"FFMA": 2, "FADD": 2, "FMNMX": 4}


def test_equal_text_gives_equal_bytes_and_is_assembled_once(assemble, monkeypatch):
    text = rewrite(PACKED, "sm_120a", "sm_90a", "k").text
    first, elsewhere = assemble(text, "sm_90a"), assemble(text, "sm_90a", cache="other")
    assert first == elsewhere
    (kernel,) = objects.read_object(first["code"], where="assembled").kernels
    assert (kernel.name, kernel.arch) == ("k", "sm_90a")
    monkeypatch.setattr(Workers, "submit", None)
    assert assemble(text, "sm_90a") == first


def test_what_the_assembler_refuses_is_in_its_own_words_and_not_kept(assemble):
    for _ in range(2):
        made = assemble(PACKED.replace("sm_120a", "sm_90a"), "sm_90a")
        assert "code" not in made
        assert "f32x2" in made["failure"]
        assert "sm_100" in made["failure"]


def test_a_wheel_without_the_assembler_is_told_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(assembling, "TOOL", "ptxas-of-another-wheel")
    with pytest.raises(ToolchainError, match="ptxas-of-another-wheel: not in the installed Triton"):
        Assembler(tmp_path, Toolchain("3", "0"), Workers(1), 1.0)
