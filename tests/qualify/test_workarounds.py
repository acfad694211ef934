"""The watch builds the plain form of what has a workaround, and says by figures whether it is as good."""

import shutil

import pytest

from tests.specs import SHIPPED, edit

FAMILY = "families/merge_splits.yaml"
TEMPLATE = "templates/merge_splits.py.j2"
ONE = "family=merge_splits,head_dim=64,most_splits=128,sinks=false"


@pytest.fixture
def specs(tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "specs")
    return tmp_path / "specs"


def declare(specs, when, alternative, hardware="[]"):
    text = (
        f"workarounds:\n  - {{name: tile, reason: a test, since: '3.8.0', when: {when}, alternative: {alternative}, "
        f"hardware: {hardware}}}\n\ntolerance:"
    )
    edit(specs, FAMILY, "\ntolerance:", f"\n{text}")


def choose_only(specs, splits):
    """Leave one candidate of those for head_dim 64 on AMD: a tile of so many splits."""
    head, each = "  - when: {target.backend: hip, head_dim: 64}\n    launches:\n", "num_stages: 1, num_warps: 1}\n"
    tried = "".join(f"      - {{block_splits: {count}, {each}" for count in (16, 8))
    edit(specs, FAMILY, f"{head}{tried}", f"{head}      - {{block_splits: {splits}, {each}")


@pytest.fixture
def qualify(assay, specs, tmp_path):
    arguments = ("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", "--json", "--only", ONE)
    return lambda *more: assay(*arguments, "--update-lock", *more)


def watched(ran):
    (workaround,) = ran.document["workarounds"]
    return workaround


def executed(ran):
    """What the chosen variant of the one problem executed, by the report of an ordinary run."""
    (problem,) = ran.document["problems"]
    return sum(problem["chosen"]["emulation"]["executed_instructions"].values())


@pytest.mark.parametrize(("chosen", "plain"), [(16, 8), (8, 16)])
def test_the_figures_are_those_of_both_forms_built_by_themselves(assay, qualify, specs, tmp_path, chosen, plain):
    shutil.copytree(specs, tmp_path / "plain")
    choose_only(tmp_path / "plain", plain)
    alone = executed(
        assay(
            "qualify",
            "--target",
            "gfx1201",
            "--specs",
            tmp_path / "plain",
            "--only",
            ONE,
            "--json",
            "--out",
            tmp_path / "alone",
            "--update-lock",
        )
    )
    choose_only(specs, chosen)
    declare(specs, f"{{block_splits: {chosen}}}", f"{{block_splits: {plain}}}")
    ran = qualify("--workarounds")
    assert ran.status == 0, ran.err
    (comparison,) = watched(ran)["comparisons"]
    forms = (comparison["workaround"], comparison["plain"])
    assert [form["launch"]["block_splits"] for form in forms] == [chosen, plain]
    assert [form["executed"] for form in forms] == [executed(ran), alone]
    no_more = alone <= executed(ran)
    assert watched(ran)["verdict"] == ("can go" if no_more else "keep")
    assert ("1 plain forms are as good" if no_more else "1 of 1 plain forms are not as good") in ran.said


def test_without_the_option_nothing_is_watched(qualify, specs):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}")
    ran = qualify()
    assert ran.document["workarounds"] is None
    assert "workaround" not in ran.said


def test_a_plain_form_without_the_hardware_instruction_does_not_replace_it(qualify, specs):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}", "[v_cvt_pk_f32_fp8]")
    ran = qualify("--workarounds")
    assert ran.status == 0
    assert watched(ran)["verdict"] == "keep"
    (comparison,) = watched(ran)["comparisons"]
    broken = {criterion["name"] for criterion in comparison["criteria"] if criterion["holds"] is False}
    assert "hardware instruction present" in broken
    assert "hardware instruction present: 0 of v_cvt_pk_f32_fp8" in ran.said


def test_a_plain_form_that_computes_wrong_does_not_replace_it(qualify, specs):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}")
    edit(
        specs, TEMPLATE, "    merged = ", "{% if block_splits == 8 %}\n    acc = acc * 1.5\n{% endif %}\n    merged = "
    )
    ran = qualify("--workarounds")
    assert ran.status == 0, ran.err
    (comparison,) = watched(ran)["comparisons"]
    wrong_one = next(item for item in comparison["criteria"] if item["name"] == "correct on every case")
    assert wrong_one["holds"] is False
    assert "elements wrong" in wrong_one["said"]
    assert watched(ran)["verdict"] == "keep"


def test_what_cannot_be_decided_without_executing_is_missing_evidence(assay, qualify, specs, tmp_path):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}")
    ran = qualify("--workarounds", "--evidence", "static")
    assert ran.status == 4
    assert ran.document["outcome"] == "workarounds_not_compared"
    assert watched(ran)["verdict"] == "undecided"
    assert "its plain form passes what was judged and was not executed; ask for --evidence emulated" in ran.said
    assert not (tmp_path / "out/gfx1201/gfx1201.only.assay").exists()
    where = ("--specs", specs, "--out", tmp_path / "new", "--only", ONE)
    ran = assay("qualify", "--target", "gfx1201", *where, "--workarounds", "--evidence", "static")
    assert "everything is new" in ran.text
    assert "to accept" not in ran.text, "--update-lock would write no lock either"


def test_what_static_evidence_decides_needs_no_execution(qualify, specs):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}", "[v_cvt_pk_f32_fp8]")
    assert qualify("--workarounds", "--evidence", "static").status == 0


def test_a_workaround_that_matches_nothing_is_named(qualify, specs):
    declare(specs, "{block_splits: 4}", "{block_splits: 8}")
    ran = qualify("--workarounds")
    assert ran.status == 0
    assert watched(ran)["verdict"] == "nothing to compare"
    assert "workaround tile of merge_splits on gfx1201 (since 3.8.0): no qualified variant has it" in ran.said


def test_families_without_workarounds_are_named_so(qualify):
    ran = qualify("--workarounds")
    assert ran.document["workarounds"] == []
    assert "the families that were built declare none" in ran.said


def test_the_watch_compiles_nothing_that_was_compiled_before(qualify, specs, monkeypatch):
    declare(specs, "{block_splits: 16}", "{block_splits: 8}")
    assert qualify("--workarounds").status == 0
    monkeypatch.setattr("assay.codegen.builder.Builder._start", None)
    monkeypatch.setattr("assay.qualify.executing.Executions._start", None)
    assert qualify("--workarounds").status == 0
