"""`--evidence interpreted` runs the source that would ship, on every target, apart from what was compiled of it."""

import dataclasses
import shutil
import subprocess
import sys

import pytest

from assay import objects
from assay.bundle import Bundle
from assay.codegen.builder import Builder
from assay.codegen.workers import finished
from assay.emulator import Program
from assay.qualify import executing
from tests.specs import SHIPPED, edit

MERGE = ("--only", "family=merge_splits,head_dim=64,sinks=true", "--evidence", "interpreted")
PACKED = ("--only", "family=decode_attention,reader=packed,head_dim=64,block_m=8,window=false,offset_bits=64")
TEMPLATE = "templates/merge_splits.py.j2"


@pytest.fixture
def specs(tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "specs")
    return tmp_path / "specs"


@pytest.fixture
def qualify(assay, specs, tmp_path):
    arguments = ("--specs", specs, "--out", tmp_path / "out", "--json")
    return lambda target, *more: assay("qualify", "--target", target, *arguments, *more)


def rows_of(lock):
    return [line for line in lock.read_text().splitlines() if " | " in line]


def reasons_in(document):
    return [reason for problem in document["problems"] for item in problem["rejected"] for reason in item["reasons"]]


def test_a_source_that_computes_right_is_interpreted_in_lock_report_and_bundle_of_a_target_without_emulator(
    qualify, tmp_path
):
    ran = qualify("sm90", *MERGE, "--update-lock", "--report", "json,md,html")
    assert ran.status == 0, ran.err
    for problem in ran.document["problems"]:
        assert problem["chosen"]["evidence"] == {"static": "pass", "interpreted": "pass"}
        assert problem["chosen"]["interpretation"]["cases"] >= 5
        assert 0 < problem["chosen"]["interpretation"]["largest_error"] < 0.02
        assert problem["chosen"]["emulation"] is None
    assert "evidence interpreted" in ran.err
    folder = tmp_path / "out" / "sm90"
    assert all(row.endswith("| static=pass interpreted=pass") for row in rows_of(folder / "qualified.core.lock"))
    with Bundle.open(folder / "sm90.only.assay") as bundle:
        assert bundle.evidence_names() == ("interpreted", "static")
        variants = bundle.evidence("interpreted")["variants"]
    assert {item["interpreted"] for item in variants.values()} == {"pass"}
    assert "interpreted=pass" in (folder / "report.only.html").read_text()


def test_a_kept_verdict_is_not_made_again(qualify, monkeypatch):
    assert qualify("sm90", *MERGE, "--update-lock").status == 0
    monkeypatch.setattr(executing.Executions, "_start", None)
    assert qualify("sm90", *MERGE).status == 0


def test_one_source_has_one_verdict_whatever_it_is_compiled_for(qualify, monkeypatch):
    assert qualify("sm90", *MERGE, "--update-lock").status == 0
    monkeypatch.setattr(executing.Executions, "_start", None)
    assert qualify("sm120", *MERGE, "--update-lock").status == 0


def test_a_wrong_template_fails_on_a_target_without_emulator(qualify, specs):
    edit(specs, TEMPLATE, "tl.exp(sink - new_top)", "tl.exp2(sink - new_top)")
    ran = qualify("sm90", *MERGE, "--update-lock", "--report", "junit,sarif,md")
    assert ran.status == 1
    assert {reason["budget"] for reason in reasons_in(ran.document)} == {"interpreted"}
    assert all("elements wrong, first at" in reason["detail"] for reason in reasons_in(ran.document))


def test_a_wrong_template_fails_on_a_wrong_address_and_says_which_line(qualify, specs):
    edit(specs, TEMPLATE, "tl.load(sinks + head)", "tl.load(sinks + head + 4096)")
    ran = qualify("gfx1201", *MERGE, "--update-lock")
    assert ran.status == 1
    detail = reasons_in(ran.document)[0]["detail"]
    assert "read of 4 bytes outside every buffer" in detail
    assert detail.endswith("of the rendered source: sink = tl.load(sinks + head + 4096)")


def test_inline_assembly_is_not_interpretable_and_never_a_pass(qualify, tmp_path):
    ran = qualify("gfx1201", *PACKED, "--evidence", "interpreted", "--update-lock", "--report", "json,md,html")
    assert ran.status == 0, ran.err
    (problem,) = ran.document["problems"]
    assert problem["chosen"]["evidence"] == {"static": "pass", "interpreted": "not_interpretable"}
    assert problem["chosen"]["interpretation"]["refusal"].startswith("inline assembly; line ")
    assert "evidence interpreted, 1 of them not interpretable" in ran.err
    folder = tmp_path / "out" / "gfx1201"
    (row,) = rows_of(folder / "qualified.core.lock")
    assert row.endswith("| static=pass interpreted=not_interpretable")
    with Bundle.open(folder / "gfx1201.only.assay") as bundle:
        (variant,) = bundle.evidence("interpreted")["variants"].values()
    assert variant["interpreted"] == "not_interpretable"
    for name in ("report.only.md", "report.only.html"):
        assert "1 not interpretable" in (folder / name).read_text()


def test_without_torch_it_is_4_with_what_to_install(qualify, tmp_path, monkeypatch):
    find = executing.importlib.util.find_spec
    monkeypatch.setattr(executing.importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    ran = qualify("sm90", *MERGE)
    assert ran.status == 4
    assert "torch is not installed" in ran.said
    assert "pip install '.[build,interpret]'" in ran.said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "check", ["emulating.require_emulation(target, families)", "interpreting.require_interpretation(families)"]
)
def test_what_is_missing_is_found_without_numpy(check):
    code = f"""
import sys
sys.modules["numpy"] = None
from pathlib import Path
from assay import kernel_specs
from assay.codegen.specs import load_specs
from assay.qualify import emulating, executing, interpreting
target, families = load_specs(Path(kernel_specs.DIRECTORY)).target("gfx1201"), ["merge_splits", "nothing"]
try:
    {check}
except executing.EvidenceError as error:
    print(*error.faults, sep="\\n")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "numpy is not installed" in said
    assert "add reference/nothing.py" in said
    assert "reference/merge_splits.py" not in said


def test_emulated_does_not_imply_interpreted_and_one_run_can_make_both(qualify):
    only = MERGE[:2]
    ran = qualify("gfx1201", *only, "--evidence", "emulated", "--evidence", "interpreted", "--update-lock")
    assert ran.status == 0, ran.err
    evidence = [problem["chosen"]["evidence"] for problem in ran.document["problems"]]
    assert all(list(item) == ["static", "interpreted", "emulated"] for item in evidence)
    alone = qualify("gfx1201", *only, "--evidence", "emulated")
    assert alone.document["problems"][0]["chosen"]["interpretation"] is None


def test_a_wrong_compilation_of_a_right_source_passes_interpreted_and_fails_emulated(qualify, monkeypatch):
    submit = Builder.submit
    monkeypatch.setattr(Builder, "submit", lambda self, request: finished(miscompiled(submit(self, request).result())))
    both = ("--evidence", "interpreted", "--evidence", "emulated")
    ran = qualify("gfx1201", *MERGE[:2], *both, "--update-lock")
    assert ran.status == 1
    assert {reason["budget"] for reason in reasons_in(ran.document)} == {"emulated"}
    assert qualify("gfx1201", *MERGE, "--update-lock").status == 0


def miscompiled(outcome):
    """The same object with its first v_exp_f32 turned into v_log_f32."""
    (kernel,) = objects.read_object(outcome.code, where="test").kernels
    instructions = Program.of_kernel(kernel, where="test").instructions
    at = next(item.address for item in instructions if item.opcode == "v_exp_f32")
    code = bytearray(kernel.code)
    word = int.from_bytes(code[at : at + 4], "little")
    # VOP1: the opcode is in bits 9 to 16 (RDNA4 ISA, section 15.3), 37 for V_EXP_F32 and 39 for V_LOG_F32.
    assert (word >> 25, word >> 9 & 0xFF) == (0x3F, 37)
    code[at : at + 4] = (word + (2 << 9)).to_bytes(4, "little")
    return dataclasses.replace(outcome, code=outcome.code.replace(kernel.code, bytes(code)))


@pytest.mark.slow
def test_decode_attention_with_bf16_products_qualifies_interpreted(qualify):
    only = "family=decode_attention,head_dim=128,block_m=8,kv_format=bf16,window=true"
    ran = qualify("sm90", "--only", only, "--evidence", "interpreted", "--update-lock")
    assert ran.status == 0, ran.err
    assert {problem["chosen"]["evidence"]["interpreted"] for problem in ran.document["problems"]} == {"pass"}
