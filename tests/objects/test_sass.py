import importlib.util
import os
import subprocess
import sys
import tempfile

import pytest

from assay.objects import (
    ObjectError,
    count_instructions_sass,
    count_local_accesses,
    find_disassembler,
    parse_ptxas_report,
    read_object,
)
from assay.objects.sass import _count_by_function

LISTING = """
\t.headerflags\t@"EF_CUDA_SM90"
//--------------------- .text.k --------------------------
\t.section\t.text.k,"ax",@progbits
k:
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @P0  LDL.LU.64 R2, [R1+0x8] ;
        /*0020*/             @!P1  STL [R1], R2 ;
        /*0030*/            @!UPT  STL.128 [R1+0x10], R4 ;
.L_x_0:
        /*0040*/                   LDLX_NOT_LOCAL R1 ;
        /*0050*/                   BRA `(.L_x_0);
\t.section\t.nv.constant0.k,"a",@progbits
\t.section\t".text.other",#alloc,#execinstr
        /*0000*/                   EXIT ;
"""


@pytest.fixture
def tool(tmp_path):
    """Makes an executable that stands in for a disassembler."""

    def make(body):
        path = tmp_path / "nvdisasm"
        path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
        path.chmod(0o755)
        return path

    return make


def test_predicated_and_suffixed_instructions_count():
    counts = _count_by_function(LISTING)
    assert counts["k"] == {
        "LDC": 1,
        "LDL.LU.64": 1,
        "STL": 1,
        "STL.128": 1,
        "LDLX_NOT_LOCAL": 1,
        "BRA": 1,
    }
    assert counts["other"] == {"EXIT": 1}


@pytest.mark.parametrize("name", ["nvdisasm", "cuobjdump"])
def test_both_of_nvidias_tools_give_the_same_counts(data, disassembler, name):
    for file, expected in (
        ("three.sm_90a.cubin", {"calls": (1, 4), "reverse": (0, 0), "add_one": (0, 0)}),
        ("shared.sm_90a.abi7.cubin", {"shared_100": (0, 0)}),
    ):
        assert count_local_accesses(data(file), disassembler.with_name(name)) == expected


def test_local_accesses_of_a_callee_in_another_section_are_the_kernels(data, disassembler):
    counts = count_instructions_sass(data("linked.sm_90a.cubin"), disassembler)
    assert set(counts) == {"recursive"}
    assert (counts["recursive"].root["LDL"], counts["recursive"].root["STL"]) == (4, 4)
    assert counts["recursive"].full.total() == counts["recursive"].root.total()


def test_full_and_root_mnemonics_come_from_one_listing(data, disassembler):
    counts = count_instructions_sass(data("three.sm_90a.cubin"), disassembler)["calls"]
    assert counts.full["STL.64"] == counts.root["STL"] == 4
    assert all("." not in name for name in counts.root)


def test_a_file_read_with_a_disassembler_has_its_local_counts(data, disassembler):
    raw = data("three.sm_120.cubin")
    read = {k.name: k.resources for k in read_object(raw, where="x", disassembler=disassembler).kernels}
    assert (read["calls"].local_load_count, read["calls"].local_store_count) == (1, 4)
    assert (read["reverse"].local_load_count, read["reverse"].local_store_count) == (0, 0)


def test_spills_that_the_assembler_reports_are_local_accesses_in_the_file(compiled, wheel_tool, tmp_path):
    path = tmp_path / "spills.ptx"
    path.write_bytes(compiled("spills.120.ptx"))
    cubin = tmp_path / "spills.cubin"
    text = wheel_tool("ptxas-blackwell", "-v", "--gpu-name=sm_120a", path, "-o", cubin)
    report = parse_ptxas_report(text)["product"]
    (kernel,) = read_object(cubin.read_bytes(), where="x", disassembler=find_disassembler()).kernels
    assert report.registers == kernel.resources.register_count == 40
    assert report.stack_bytes == kernel.resources.stack_bytes > 0
    assert report.spill_load_bytes > 0
    assert report.spill_store_bytes > 0
    assert kernel.resources.local_load_count > 0
    assert kernel.resources.local_store_count > 0


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("sys.exit('no such instruction')", "exit status 1: no such instruction"),
        ("import os; os.abort()", "exit status -6"),
        ("", "printed 0 instructions"),
        ("print('\\t.section\\t.text.calls,\"ax\"')", "printed 0 instructions"),
        ("sys.stdout.buffer.write(bytes(range(256)))", "printed 0 instructions"),
    ],
    ids=["fails", "crashes", "silent", "half", "garbage"],
)
def test_a_tool_that_fails_is_an_error_and_not_a_zero(data, tool, body, part):
    with pytest.raises(ObjectError, match=part):
        read_object(data("three.sm_90a.cubin"), where="x", disassembler=tool(body))


def test_a_tool_that_hangs_is_stopped(data, tool):
    with pytest.raises(ObjectError, match="no answer within"):
        count_instructions_sass(data("three.sm_90a.cubin"), tool("time.sleep(60)"), timeout_s=0.3)


def test_a_tool_that_leaves_one_instruction_out_is_noticed(data, tool, disassembler):
    body = f"""
import subprocess
lines = subprocess.run([{str(disassembler)!r}, *sys.argv[1:]], capture_output=True, text=True).stdout
print("\\n".join(line for line in lines.splitlines() if "/*0010*/" not in line))
"""
    with pytest.raises(ObjectError, match="instructions for"):
        count_local_accesses(data("shared.sm_90a.abi7.cubin"), tool(body))


def test_a_missing_tool_is_an_error(data, tmp_path):
    with pytest.raises(ObjectError, match="cannot run"):
        count_local_accesses(data("three.sm_90a.cubin"), tmp_path / "nvdisasm")


@pytest.mark.parametrize("body", ["sys.exit(1)", "time.sleep(60)"])
def test_the_temporary_copy_is_removed_after_a_failure(data, tool, tmp_path, monkeypatch, body):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(ObjectError):
        count_instructions_sass(data("three.sm_90a.cubin"), tool(body), timeout_s=0.3)
    assert os.listdir(folder) == []


def test_an_unsound_file_never_reaches_the_tool(tool, tmp_path):
    mark = tmp_path / "ran"
    with pytest.raises(ObjectError):
        count_local_accesses(b"\x7fELF" + bytes(100), tool(f"open({str(mark)!r}, 'w')"))
    assert not mark.exists()


def test_the_tool_is_found_without_importing_triton():
    script = "import sys; from assay.objects import find_disassembler as f; print(f(), 'triton' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    path, imported = run.stdout.split()
    assert imported == "False"
    if importlib.util.find_spec("triton") is not None:
        assert path.endswith("triton/backends/nvidia/bin/nvdisasm")


def test_without_triton_and_without_a_path_there_is_no_tool(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "")
    assert find_disassembler() is None
