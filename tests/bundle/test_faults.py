import pickle

import pytest

from assay.bundle import BundleError, Fault, FaultsError, nearest


def test_a_fault_is_one_line_with_all_its_parts():
    fault = Fault("spec.yaml:3:5", "num_warps: 3", "1, 2, 4, 8", "did you mean 4?")
    assert str(fault) == "spec.yaml:3:5: num_warps: 3; allowed: 1, 2, 4, 8; did you mean 4?"
    assert str(Fault("file", "two\nlines")) == "file: two\\nlines"


def test_an_error_lists_every_fault_once_in_the_order_found():
    error = FaultsError([Fault("b", "1"), Fault("a", "2"), Fault("b", "1")])
    assert str(error).splitlines() == ["b: 1", "a: 2"]


def test_an_error_without_faults_cannot_be_made():
    with pytest.raises(TypeError):
        FaultsError([])


def test_errors_cross_a_process_boundary():
    error = pickle.loads(pickle.dumps(BundleError(Fault("a", "b"))))
    assert type(error) is BundleError
    assert error.faults == (Fault("a", "b"),)


def test_nearest_names_what_was_meant_or_nothing():
    assert nearest("gfx1202", ["gfx1201", "sm90"]) == "gfx1201"
    assert nearest("GFX1201", ["gfx1201", "sm90"]) == "gfx1201"
    assert nearest("tpu", ["gfx1201", "sm90"]) is None
    assert nearest("Qwen3-30B", ["Qwen3-32B", "Qwen3-30B-A3B"]) == "Qwen3-30B-A3B"
    assert nearest("", ["gfx1201"]) is None
