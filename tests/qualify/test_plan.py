"""A plan is one JSON document or lines, takes the same memory whatever its length, and is quick for huge expansions."""

import json
import time
import tracemalloc

import pytest

from assay.codegen.expand import Selection
from assay.codegen.specs import load_specs
from assay.qualify import planning
from tests.specs import FAMILY, SHIPPED, TOY, copy_toy, edit

HUGE = 10_000
# Measured: 0.6 s for 10,800 problems on one busy core of an EPYC; the promise is 5 s.
GENEROUS_SECONDS = 15.0
# A list of these problems with their candidates takes 12 MB; a piece at a time, 0.3 MB at most.
FLAT_BYTES = 2_000_000


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """The toy specs with two further axes: 10,800 problems on gfx1201."""
    specs = copy_toy(tmp_path_factory.mktemp("huge") / "specs")
    numbers = {"rows": range(60), "columns": range(30)}
    axes = "".join(f"  {name}: {{values: {list(values)}, about: many}}\n" for name, values in numbers.items())
    edit(specs, FAMILY, "axes:\n", f"axes:\n{axes}")
    return specs


def test_ten_thousand_problems_are_planned_in_seconds(assay, huge):
    started = time.perf_counter()
    ran = assay("plan", "--specs", huge, "--target", "gfx1201", "--json")
    seconds = time.perf_counter() - started
    assert ran.status == 0
    assert len(ran.document["targets"]["gfx1201"]["problems"]) >= HUGE
    assert seconds < GENEROUS_SECONDS


@pytest.mark.parametrize("plan", [planning.plan_json, planning.plan_lines])
def test_memory_does_not_grow_with_the_plan(huge, plan):
    specs = load_specs(huge)
    tracemalloc.start()
    try:
        pieces = sum(1 for _ in plan(specs, ["gfx1201"], Selection("core", {})))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pieces > HUGE
    assert peak < FLAT_BYTES


def test_the_pieces_are_one_document_with_every_problem_and_every_exclusion(assay):
    document = assay("plan", "--specs", TOY, "--json").document
    assert (document["schema"], document["profile"]) == ("assay.plan/1", "core")
    assert list(document["targets"]) == ["gfx1201", "sm90"]
    content = document["targets"]["gfx1201"]
    assert (len(content["problems"]), len(content["excluded"])) == (6, 2)
    assert content["problems"][0]["candidates"][1] == {"unroll": 2, "num_stages": 1, "num_warps": 4}
    assert content["excluded"][0] == {
        "family": "scale",
        "problem": {"x_dtype": "f32", "width": 96, "alignment": 16},
        "reason": "narrow rows are for halves",
    }


def test_people_get_a_line_a_problem_and_exclusions_by_reason(assay):
    ran = assay("plan", "--specs", TOY, "--target", "sm90")
    lines = ran.out.splitlines()
    assert lines[0] == "sm90, profile core"
    assert "  scale x_dtype=f32 width=64 alignment=16: 2 candidates" in lines
    assert "4 problems, at most 8 candidates to compile" in lines
    assert "excluded: 2 of scale: narrow rows are for halves" in lines


def test_a_target_named_twice_is_planned_once(assay):
    document = assay("plan", "--specs", TOY, "--target", "sm90", "--target", "sm90", "--json").out
    assert document.count('"sm90"') == 1


@pytest.mark.parametrize("options", [["--target", "sm9"], ["--profile", "cor"], ["--only", "width=65"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_bad_input_is_found_before_anything_is_printed(assay, options, form):
    ran = assay("plan", "--specs", TOY, "--target", "gfx1201", *options, *form)
    assert (ran.status, ran.out) == (2, "")


def test_an_empty_part_is_still_a_document(assay):
    ran = assay("plan", "--specs", TOY, "--target", "gfx1201", "--only", "x_dtype=f32,width=96", "--json")
    assert ran.document["targets"]["gfx1201"]["problems"] == []
    assert len(ran.document["targets"]["gfx1201"]["excluded"]) == 2


def test_the_shipped_specs_have_a_plan_for_every_target_and_profile():
    specs = load_specs(SHIPPED)
    for profile in specs.profiles:
        document = json.loads("".join(planning.plan_json(specs, tuple(specs.targets), Selection(profile, {}))))
        assert set(document["targets"]) == set(specs.targets)
        for content in document["targets"].values():
            assert len(content["problems"]) >= (25 if profile == "full_sample" else 150)
            assert all(problem["candidates"] for problem in content["problems"])
