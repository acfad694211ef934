"""Rules that can never do anything are faults of the spec, found before anything is compiled."""

import pytest

from assay.codegen.specs import SpecError, load_specs
from tests.specs import FAMILY, copy_toy, edit


@pytest.fixture
def specs(tmp_path):
    return copy_toy(tmp_path / "specs")


def faults_of(specs):
    with pytest.raises(SpecError) as caught:
        load_specs(specs)
    return [str(fault) for fault in caught.value.faults]


def line_of(specs, text):
    lines = (specs / FAMILY).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_when_that_no_problem_meets_is_named_with_its_line(specs):
    # Each value exists, but constraints never admit the two together.
    edit(specs, FAMILY, "  - when: {alignment: 16}", "  - when: {width: 96, x_dtype: f32}")
    (fault,) = faults_of(specs)
    assert f"scale.yaml:{line_of(specs, 'when: {width: 96, x_dtype: f32}')}:" in fault
    assert "never matches" in fault


def test_a_candidate_group_that_no_problem_meets_is_named(specs):
    group = "  - when: {width: 96, x_dtype: f32}\n    launches:\n      - {unroll: 1, num_stages: 1, num_warps: 1}\n\n"
    edit(specs, FAMILY, "dispatch:\n", f"{group}dispatch:\n")
    assert any("never matches" in fault for fault in faults_of(specs))


def test_a_constraint_that_nothing_breaks_is_named(specs):
    edit(specs, FAMILY, "    require: {x_dtype: f16}", "    require: {x_dtype: [f16, f32]}")
    (fault,) = faults_of(specs)
    assert "excludes nothing" in fault


def test_constraints_that_exclude_everything_are_one_fault(specs):
    extra = "constraints:\n  - when: {}\n    require: {width: 96}\n    reason: one\n"
    extra += "  - when: {}\n    require: {width: 64}\n    reason: the other\n"
    edit(specs, FAMILY, "constraints:\n", extra)
    (fault,) = faults_of(specs)
    assert "exclude every combination" in fault


def test_a_problem_without_a_candidate_is_named(specs):
    edit(specs, FAMILY, "  - when: {}\n    launches:", "  - when: {width: 64}\n    launches:")
    (fault,) = faults_of(specs)
    assert "without a candidate" in fault
    assert "width=96" in fault


def test_an_integer_test_that_no_value_meets_never_matches(specs):
    edit(specs, FAMILY, "  - when: {alignment: 16}", "  - when: {alignment: {at_least: 32}}")
    assert any("never matches" in fault for fault in faults_of(specs))


def test_a_family_may_speak_of_a_backend_that_has_no_target_here(specs):
    edit(specs, FAMILY, "  - when: {alignment: 16}", "  - when: {target.backend: cuda}")
    edit(
        specs,
        FAMILY,
        "constraints:\n",
        "constraints:\n  - when: {target.backend: cuda}\n    require: {width: 64}\n    reason: x\n",
    )
    (specs / "targets" / "sm90.yaml").unlink()
    assert {parsed.model.backend for parsed in load_specs(specs).targets.values()} == {"hip"}
    # Of a backend that has one, it is a fault as ever.
    edit(
        specs,
        FAMILY,
        "  - when: {target.backend: cuda}\n    require",
        "  - when: {target.backend: hip, width: 64}\n    require",
    )
    assert any("excludes nothing" in fault for fault in faults_of(specs))
