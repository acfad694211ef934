"""`--evidence emulated` executes what would ship, and what computes wrong does not qualify."""

import shutil

import pytest

from assay.bundle import Bundle
from assay.qualify import executing
from tests.specs import SHIPPED, edit

MERGE = ("--only", "family=merge_splits,head_dim=64,most_splits=128", "--evidence", "emulated")
TEMPLATE = "templates/merge_splits.py.j2"


@pytest.fixture
def specs(tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "specs")
    return tmp_path / "specs"


@pytest.fixture
def qualify(assay, specs, tmp_path):
    arguments = ("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", "--json")
    return lambda *more: assay(*arguments, *more)


def test_a_variant_that_computes_right_is_emulated_in_lock_report_and_bundle(qualify, tmp_path):
    ran = qualify(*MERGE, "--update-lock")
    assert ran.status == 0, ran.err
    for problem in ran.document["problems"]:
        assert problem["chosen"]["evidence"] == {"static": "pass", "emulated": "pass"}
        assert problem["chosen"]["emulation"]["cases"] >= 5
        assert problem["chosen"]["emulation"]["largest_error"] < 0.02
    folder = tmp_path / "out" / "gfx1201"
    rows = [
        line for line in (folder / "qualified.core.lock").read_text().splitlines() if line.startswith("merge_splits ")
    ]
    assert rows
    assert all(line.endswith("| static=pass emulated=pass") for line in rows)
    with Bundle.open(folder / "gfx1201.only.assay") as bundle:
        evidence = bundle.evidence("emulated")
    assert set(evidence["variants"]) == {problem["chosen"]["id"] for problem in ran.document["problems"]}


def test_a_kept_verdict_is_not_made_again(qualify, monkeypatch):
    assert qualify(*MERGE, "--update-lock").status == 0
    monkeypatch.setattr(executing.Executions, "_start", None)
    assert qualify(*MERGE).status == 0


def test_a_damaged_verdict_is_judged_anew_with_one_warning(qualify, compile_cache):
    assert qualify(*MERGE, "--update-lock").status == 0
    entries = sorted((compile_cache / "verdicts").rglob("*.verdict"))
    originals = {path: path.read_bytes() for path in entries}
    for path, data in originals.items():
        path.write_bytes(data[:-7])
    ran = qualify(*MERGE)
    assert ran.status == 0, ran.err
    judged = len(ran.document["problems"])
    assert judged > 1
    assert ran.err.count(f"warning: {judged} damaged cache entries were judged anew: ") == 1
    assert ran.document["warnings"] == [line[9:] for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert not qualify(*MERGE).document["warnings"]
    for path, data in originals.items():
        path.write_bytes(data)


def test_a_kernel_that_computes_wrong_does_not_qualify_although_its_binary_is_clean(qualify, specs):
    # tests/negative_controls has many more.
    edit(specs, TEMPLATE, "top + tl.log(tl.where", "top - tl.log(tl.where")
    ran = qualify(*MERGE, "--update-lock")
    assert ran.status == 1
    failed = [problem for problem in ran.document["problems"] if problem["verdict"] == "failed"]
    assert failed
    reasons = [reason for problem in failed for item in problem["rejected"] for reason in item["reasons"]]
    assert {reason["budget"] for reason in reasons} == {"emulated"}
    assert "elements wrong, first at" in reasons[0]["detail"]


def test_a_target_without_an_emulator_is_4(assay, tmp_path):
    ran = assay("qualify", "--target", "sm120", "--out", tmp_path / "out", "--evidence", "emulated")
    assert ran.status == 4
    assert "has no emulator" in ran.said
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_4_with_what_to_install(qualify, monkeypatch):
    find = executing.importlib.util.find_spec
    monkeypatch.setattr(executing.importlib.util, "find_spec", lambda name: None if name == "tinygrad" else find(name))
    ran = qualify(*MERGE)
    assert ran.status == 4
    assert "tinygrad is not installed" in ran.said
    assert "emulate" in ran.said


def test_a_family_without_a_reference_is_4(assay, tmp_path, specs):
    toy = SHIPPED.parent / "tests" / "specs" / "toy"
    shutil.copy(toy / "families" / "scale.yaml", specs / "families")
    shutil.copy(toy / "templates" / "scale.py.j2", specs / "templates")
    (specs / "profiles" / "toy.yaml").write_text(
        "schema: assay.profile/1\nprofile: toy\nsummary: added\nfamilies: {scale: {}}\n"
    )
    arguments = ("--specs", specs, "--profile", "toy", "--out", tmp_path / "out", "--evidence", "emulated")
    ran = assay("qualify", "--target", "gfx1201", *arguments)
    assert ran.status == 4
    assert "reference/scale.py" in ran.said


@pytest.mark.slow
def test_decode_attention_qualifies_emulated_with_both_readers(qualify):
    only = "family=decode_attention,head_dim=128,block_m=8,window=true"
    ran = qualify("--only", only, "--evidence", "emulated", "--update-lock")
    assert ran.status == 0, ran.err
    readers = {problem["problem"]["reader"] for problem in ran.document["problems"]}
    assert readers == {"packed", "generic"}
    assert all(problem["chosen"]["evidence"]["emulated"] == "pass" for problem in ran.document["problems"])
