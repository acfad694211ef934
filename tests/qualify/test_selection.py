"""The first candidate that qualifies is the row, whatever finishes first; where none does, nothing is written."""

import json

import pytest

from assay.qualify.gates import Judgement, Reason
from assay.qualify.selection import ProblemResult
from tests.specs import FAMILY, TEMPLATE, TOY, copy_toy, edit

# Slow where it is first, so that later candidates and problems finish before it.
SLOW = "import time, os\n{% if unroll == 1 and x_dtype == 'f32' %}time.sleep(1.0){% endif %}\nimport triton\n"
# Refused in the first candidate only.
FIRST_BREAKS = "import triton\n{% if unroll == 1 %}raise RuntimeError('first'){% endif %}\n"


@pytest.fixture
def qualify(assay, tmp_path):
    def run(specs, *options, out="out", target="gfx1201"):
        return assay("qualify", "--target", target, "--specs", specs, "--out", tmp_path / out, "--json", *options)

    return run


def chosen(ran):
    return [problem["chosen"]["launch"]["unroll"] for problem in ran.document["problems"]]


def test_the_first_qualifying_candidate_wins_with_any_number_of_jobs_and_in_any_order(qualify, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", SLOW)
    found = {}
    for jobs in ("1", "2"):
        # The source is another one for each, so that both compile.
        edit(specs, TEMPLATE, "times a", f"times {'a' * int(jobs)}") if jobs == "2" else None
        ran = qualify(specs, "--jobs", jobs, "--update-lock", "--only", "width=64", out=jobs)
        assert ran.status == 0
        found[jobs] = [(p["problem"], p["chosen"]["launch"], p["rejected"]) for p in ran.document["problems"]]
    assert found["1"] == found["2"]
    assert [launch["unroll"] for _, launch, _ in found["1"]] == [1] * 4


def test_the_next_candidate_is_tried_when_the_first_is_refused(qualify, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", FIRST_BREAKS)
    ran = qualify(specs, "--only", "width=64,alignment=16", "--update-lock")
    # The others are judged all the same, but what did not compile is a failure and never a skip.
    assert ran.status == 1
    assert "2 candidates did not compile" in ran.text
    assert "FAILED scale x_dtype=f16 width=64 alignment=16 (2 tried, 1 did not compile)" in ran.said
    assert not (tmp_path / "out" / "gfx1201" / "gfx1201.only.assay").exists()
    assert chosen(ran) == [2, 2]
    for problem in ran.document["problems"]:
        (rejected,) = problem["rejected"]
        assert rejected["launch"]["unroll"] == 1
        assert rejected["reasons"][0]["actual"] == "compile error"


def test_a_candidate_that_takes_too_long_is_told_with_what_to_do(qualify, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", "import triton\nimport time\ntime.sleep(60)\n")
    ran = qualify(specs, "--only", "width=64,alignment=16,x_dtype=f16", "--update-lock", "--time-limit", "1")
    assert ran.status == 1
    assert "scale x_dtype=f16 width=64 alignment=16, unroll=1" in ran.said
    assert "leave that launch out of the family's candidates, or give it a longer --time-limit" in ran.said


def test_where_none_qualifies_each_limit_is_named_and_the_previous_bundle_stays(assay, out, snapshot, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {vgpr_count: 1, code_bytes: 100}\n\ntolerance:\n")
    before = snapshot(out.out)
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out, "--update-lock")
    assert ran.status == 1
    after = snapshot(out.out)
    assert after.pop("gfx1201/report.json") != before.pop("gfx1201/report.json")
    assert after == before
    assert "NOT QUALIFIED: 0 of 6 problems have a qualified variant" in ran.text
    assert "6 of 6 problems have no qualified candidate" in ran.text
    report = json.loads((out.folder / "report.json").read_text())
    assert report["verdict"] == "failed"
    for problem in report["problems"]:
        assert problem["chosen"] is None
        assert len(problem["rejected"]) == 2
        for rejected in problem["rejected"]:
            assert [reason["budget"] for reason in rejected["reasons"]] == ["vgpr_count", "code_bytes"]
            for reason in rejected["reasons"]:
                over = reason["actual"] - reason["limit"]
                assert f"{reason['budget']} {reason['actual']:,} > {reason['limit']:,} ({over:,} over)" in ran.text
    assert ran.text.count("(nearest)") == 6


def test_one_failed_problem_fails_the_whole_target(assay, out, snapshot, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(
        specs, TEMPLATE, "import triton\n", "import triton\n{% if width == 96 %}raise RuntimeError('wide'){% endif %}\n"
    )
    before = snapshot(out.out)
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out)
    assert ran.status == 1
    assert "NOT QUALIFIED: 4 of 6 problems" in ran.text
    assert snapshot(out.out)["gfx1201/gfx1201.assay"] == before["gfx1201/gfx1201.assay"]
    # What failed is not reported as gone from the lock too.
    assert "gone:" not in ran.text


def test_a_problem_without_a_candidate_is_a_fault_of_the_specs(qualify, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "  - when: {}\n", "  - when: {x_dtype: f16}\n")
    ran = qualify(specs)
    assert (ran.status, ran.out) == (2, "")
    assert "4 problems without a candidate, such as gfx1201: x_dtype=f32 width=64 alignment=16" in ran.said


def result_of(*reasons):
    judgements = tuple(Judgement(None, None, None, None, tuple(items)) for items in reasons)
    return ProblemResult(None, None, None, judgements), judgements


def test_the_nearest_candidate_breaks_the_fewest_budgets_by_the_least():
    result, (_, nearest, _) = result_of(
        [Reason("lds_total_bytes", 65_536, 131_072)],
        [Reason("lds_total_bytes", 65_536, 65_792)],
        [Reason("lds_total_bytes", 65_536, 65_792), Reason("scratch_bytes", 0, 4)],
    )
    assert result.nearest() is nearest


def test_a_candidate_that_did_not_compile_is_never_the_nearest_of_those_that_did():
    result, (_, nearest) = result_of(
        [Reason("compilation", "compiled", "compile error")],
        [Reason("vgpr_spill_count", 0, 34), Reason("scratch_bytes", 0, 140)],
    )
    assert result.nearest() is nearest


def test_a_profile_builds_what_it_names(qualify):
    ran = qualify(TOY, "--profile", "half", "--update-lock")
    assert ran.status == 0
    assert {problem["problem"]["x_dtype"] for problem in ran.document["problems"]} == {"f16"}
    assert ran.document["profile"] == "half"
