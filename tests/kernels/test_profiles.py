"""What the shipped profiles hold of each target."""

import pytest

from assay import kernel_specs
from assay.codegen.expand import Selection, expand
from assay.codegen.records import Problem
from assay.codegen.specs import load_specs

SPECS = load_specs(kernel_specs.DIRECTORY)
MOST_ROWS = 1_500


def problems(target: str, profile: str) -> set[Problem]:
    return {item for item in expand(SPECS, target, Selection(profile, {})) if isinstance(item, Problem)}


@pytest.mark.parametrize("target", sorted(SPECS.targets))
def test_full_is_all_of_core_and_no_more_than_a_bundle_should_hold(target):
    full = problems(target, "full")
    assert problems(target, "core") < full
    assert len(full) <= MOST_ROWS


@pytest.mark.parametrize("target", sorted(SPECS.targets))
def test_the_sample_is_of_full_and_not_of_core(target):
    sample = problems(target, "full_sample")
    assert sample < problems(target, "full")
    assert not sample & problems(target, "core")


def test_the_sample_has_what_only_full_answers():
    """Each value that full has of an axis and core has not, but for sizes between others."""
    axes = {name for problem in problems("gfx1201", "full") for name, _ in problem.axes}
    missing = {}
    for axis in axes:
        seen = {
            profile: {value for problem in problems("gfx1201", profile) for name, value in problem.axes if name == axis}
            for profile in ("core", "full", "full_sample")
        }
        missing[axis] = seen["full"] - seen["core"] - seen["full_sample"]
    assert {axis: values for axis, values in missing.items() if values} == {"block_m": {32}}
