"""The shipped decode template with an edit that spills: what the gate's reports say of it."""

import json
import shutil
import xml.dom.minidom

import pytest

from tests.specs import SHIPPED, edit

TEMPLATE = "templates/attention_bf16.j2"
FAMILY = "families/decode_attention.yaml"
ONLY = (
    "family=decode_attention,kv_format=bf16,block_m=8,window=false,alignment=16,offset_bits=64,head_dim=64,head_dim=256"
)
PROBLEM = (
    "decode_attention q_dtype=bf16 head_dim={} rows=1 block_m=8 kv_format=bf16 slot_dtype=i32 window=false "
    "soft_cap=false alignment=16 offset_bits=64 reader=generic pairs=any"
)


@pytest.fixture
def regression(assay, tmp_path, monkeypatch):
    """The lock of the good template, then one run of the bad one: its status, and its reports' folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SHIPPED, "kernel_specs", ignore=shutil.ignore_patterns("__pycache__"))
    command = ("qualify", "--target", "gfx1201", "--specs", "kernel_specs", "--only", ONLY, "--evidence", "static")
    assert assay(*command, "--update-lock").status == 0
    # Somebody wants the scores more exact: without the matrix instruction for BF16, whole tiles are held as FP32.
    for left, right in (("k", "query"), ("query", "k")):
        exact = f"tl.dot({left}.to(tl.float32), tl.trans({right}).to(tl.float32))"
        edit(tmp_path / "kernel_specs", TEMPLATE, f"tl.dot({left}, tl.trans({right}))", exact)
    ran = assay(*command, "--report", "json,junit,sarif,md,html")
    return ran, tmp_path / "artifacts/gfx1201"


def line_of_launch(folder, group, launch):
    """Line of a launch in the family file: the first one behind the line of its group."""
    lines = (folder / "kernel_specs" / FAMILY).read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if group in line)
    return next(number for number, line in enumerate(lines[start:], start + 1) if launch in line)


def test_a_template_edit_that_spills_shows_in_every_report(regression, tmp_path):
    ran, folder = regression
    assert ran.status == 1
    document = json.loads((folder / "report.only.json").read_text())
    small, large = document["problems"]
    assert (small["verdict"], large["verdict"]) == ("qualified", "failed")
    nearest = min(large["rejected"], key=lambda rejected: sum(reason["actual"] for reason in rejected["reasons"]))
    spilled = next(reason["actual"] for reason in nearest["reasons"] if reason["budget"] == "vgpr_spill_count")
    assert spilled > 0
    said = f"vgpr_spill_count {spilled:,} > 0 ({spilled:,} over)"

    # The lock: the small head lost its large tile, which is worse; the failed one is not gone.
    (change,) = document["lock_changes"]
    assert change["problem"] == PROBLEM.format(64)
    assert change["kind"] in ("worse", "changed")
    what = {name: (before, now) for name, before, now in change["details"]}
    assert "block_n=128" in what["launch"][0]
    assert "block_n=128" not in what["launch"][1]

    # SARIF: at the line of the launch that came nearest, with a path that the checkout resolves.
    (run,) = json.loads((folder / "report.only.sarif").read_text())["runs"]
    failed, changed, *notes = run["results"]
    assert (failed["ruleId"], failed["level"]) == ("budget/vgpr_spill_count", "error")
    assert said in failed["message"]["text"]
    where = failed["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": f"kernel_specs/{FAMILY}"}
    launch = nearest["launch"]
    spelled = (
        f"{{score_form: {launch['score_form']}, block_n: {launch['block_n']}, num_stages: {launch['num_stages']}, "
        f"num_warps: {launch['num_warps']}}}"
    )
    clamped = launch["score_form"].endswith("clamped")
    group = "kv_format: bf16, head_dim: 256" if clamped else "reader: [generic, emulated_e4m3], head_dim: [192, 256]"
    assert where["region"]["startLine"] == line_of_launch(tmp_path, group, spelled)
    assert changed["ruleId"] == f"lock/{change['kind']}"
    assert all(note["level"] == "note" for note in notes)

    # JUnit: one failed case of two, and the lock's.
    junit = xml.dom.minidom.parse(str(folder / "junit.only.xml"))
    failures = {
        failure.parentNode.getAttribute("name"): failure.firstChild.data
        for failure in junit.getElementsByTagName("failure")
    }
    assert said in failures[PROBLEM.format(256).partition(" ")[2]]
    assert PROBLEM.format(64).partition(" ")[2] not in failures
    assert "launch: block_n=128" in failures[PROBLEM.format(64)]

    # Markdown and HTML.
    text = (folder / "report.only.md").read_text()
    assert text.startswith("## assay gfx1201, a part of core: NOT QUALIFIED\n")
    assert f"| {PROBLEM.format(256)} |" in text
    assert said in text
    assert f"| {nearest['variant']} |" in text
    assert f"| {change['kind']} | {PROBLEM.format(64)} | launch block_n=128 " in text
    assert said.replace(">", "&gt;") in (folder / "report.only.html").read_text()
