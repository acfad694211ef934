"""report.sarif against what SARIF 2.1.0 and GitHub's code scanning require of it."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from assay.codegen.specs import load_specs
from assay.qualify.lock import LockChange
from assay.qualify.reports import sarif_report
from tests.specs import FAMILY, copy_toy, edit

from .conftest import FEWER_SPILLS, HOSTILE, SPILLS, Maker

LEVELS = {"none", "note", "warning", "error"}


def parse(run):
    document = json.loads(sarif_report.render(run))
    check(document)
    return document["runs"][0]


def check(document):
    """The properties that the SARIF 2.1.0 schema requires, and those that GitHub's documentation asks for."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "assay"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", driver["version"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    fingerprints = set()
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert "\\" not in physical["artifactLocation"]["uri"]
        assert physical["region"]["startLine"] >= 1
        assert physical["region"]["startColumn"] >= 1
        fingerprints.add(result["partialFingerprints"]["primaryLocationLineHash"])
    assert len(fingerprints) == len(run["results"]), "two results that code scanning would take for one"
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        for note in invocation["toolExecutionNotifications"]:
            assert note["level"] in LEVELS
            assert note["message"]["text"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Toy specs in a folder whose name needs quoting, below the working directory."""
    folder = copy_toy(tmp_path / "my specs")
    monkeypatch.chdir(tmp_path)
    return folder


def line_of(folder, text):
    lines = (folder / FAMILY).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def test_a_failed_problem_is_an_error_at_the_nearest_candidates_launch(checkout):
    make = Maker(load_specs(Path("my specs")))
    (result,) = parse(make.run(make.failed(SPILLS, nearest=(FEWER_SPILLS,)), status=1))["results"]
    assert (result["ruleId"], result["level"]) == ("budget/vgpr_spill_count", "error")
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "my%20specs/families/scale.yaml"
    assert physical["region"] == {"startLine": line_of(checkout, "unroll: 2"), "startColumn": 9}
    text = result["message"]["text"]
    assert text.splitlines() == [
        "scale x_dtype=f32 width=64 alignment=16: no candidate qualifies, of 2 tried.",
        "Nearest: unroll=2 num_stages=1 num_warps=4: vgpr_spill_count 8 > 0 (8 over)",
        "unroll=1 num_stages=1 num_warps=2: vgpr_spill_count 40 > 0 (40 over)",
    ]


def test_lock_changes_for_the_worse_are_errors_and_those_for_the_better_are_not_findings(checkout):
    make = Maker(load_specs(Path("my specs")))
    key = "scale x_dtype=f32 width=64 alignment=16"
    changes = [LockChange(kind, f"scale {kind}") for kind in ("better", "new", "gone", "changed")]
    changes += [LockChange("worse", key, (("vgpr_count", "10", "12"),)), LockChange("gone", "other_family x=1")]
    results = parse(make.run(make.passed(), changes=tuple(changes), status=1))["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("lock/gone", "error"),
        ("lock/changed", "warning"),
        ("lock/worse", "error"),
        ("lock/gone", "error"),
    ]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    # The family that is still there, the launch that was chosen, and the profile where the family is gone as well.
    assert places[0]["region"]["startLine"] == line_of(checkout, "family: scale")
    assert places[2]["region"]["startLine"] == line_of(checkout, "unroll: 1, num_stages")
    assert unquote(places[3]["artifactLocation"]["uri"]).startswith("my specs/profiles/")
    assert results[2]["message"]["text"] == f"{key}: worse: vgpr_count 10 -> 12"


def test_near_limits_are_notes(make):
    (result,) = parse(make.run(make.passed(vgpr_count=254)))["results"]
    assert (result["ruleId"], result["level"]) == ("near/vgpr_count", "note")
    assert result["message"]["text"].endswith("vgpr_count 254 of 256 (0.8 % left)")


def test_fingerprints_stay_when_lines_and_figures_move(checkout):
    def fingerprints(reason):
        make = Maker(load_specs(Path("my specs")))
        run = parse(make.run(make.failed(reason), make.failed(reason, problem=make.problem(alignment=4)), status=1))
        results = run["results"]
        return [r["partialFingerprints"] for r in results], [r["locations"][0]["physicalLocation"] for r in results]

    before, old_places = fingerprints(SPILLS)
    edit(checkout, FAMILY, "candidates:\n", "# one\n# two\ncandidates:\n")
    after, new_places = fingerprints(FEWER_SPILLS)
    assert before == after
    assert before[0] != before[1]
    assert new_places[0]["region"]["startLine"] == old_places[0]["region"]["startLine"] + 2


def test_specs_outside_the_checkout_are_absolute_uris(make, tmp_path, monkeypatch):
    folder = copy_toy(tmp_path / "elsewhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make = Maker(load_specs(folder))
    (result,) = parse(make.run(make.failed(SPILLS), status=1))["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (folder / FAMILY).as_uri()


def test_a_problem_without_any_candidate_points_to_the_candidates(make):
    (result,) = parse(make.run(make.failed(), status=1))["results"]
    assert result["ruleId"] == "budget/candidates"


def test_what_has_no_line_is_a_notification_with_the_exit_status(make):
    run = make.run(
        make.passed(), status=3, said="OTHER COMPILER BUILD", messages=("other build",), warnings=("careful",)
    )
    (invocation,) = parse(run)["invocations"]
    assert (invocation["exitCode"], invocation["exitCodeDescription"]) == (3, "OTHER COMPILER BUILD")
    notes = [(note["level"], note["message"]["text"]) for note in invocation["toolExecutionNotifications"]]
    assert notes == [("error", "other build"), ("warning", "careful")]


def test_no_text_becomes_a_link_and_long_ones_are_cut(hostile_run, make):
    run = parse(hostile_run)
    texts = [result["message"]["text"] for result in run["results"]]
    assert any("\\[x\\](http://evil.example)" in text for text in texts)
    assert not any(re.search(r"(?<!\\)\[", text) for text in texts)
    assert any(
        HOSTILE in location["name"] for r in run["results"] for location in r["locations"][0]["logicalLocations"]
    )
    (long,) = parse(make.run(make.passed(), messages=("x" * 10_000,)))["invocations"]
    assert len(long["toolExecutionNotifications"][0]["message"]["text"]) < 2_100
