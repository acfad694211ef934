"""Every output element must be written and close, and nothing else touched."""

from dataclasses import replace

import numpy as np
import pytest

from assay.reference import Case, Strided
from assay.reference.judging import compare

NAN = np.float32(np.nan)


@pytest.fixture
def ran():
    """A case whose output holds what was expected, between poison, and the storages from before the run."""
    storage = np.full(10, NAN, np.float32)
    case = Case(
        "c",
        {"out": Strided(storage, 1, (2, 3), (4, 1)), "x": Strided(np.arange(4.0), 0, (4,), (1,))},
        {},
        {},
        ("out",),
        {},
    )
    before = {name: tensor.storage.copy() for name, tensor in case.tensors.items()}
    expected = np.array([[1.0, -2.0, 0.0], [100.0, -np.inf, 5.0]])
    case.tensors["out"].view[...] = expected
    return case, before, expected


def verdict(ran):
    case, before, expected = ran
    return compare(case, {"out": "f32"}, {"out": expected}, before, 0.002, 0.02)


def test_what_was_expected_passes_with_its_largest_error(ran):
    ran[0].tensors["out"].view[1, 0] = 101.5
    result = verdict(ran)
    assert result.passed
    assert result.largest_error == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("index", "value"),
    [((0, 2), 0.0021), ((1, 0), 102.1), ((0, 0), NAN), ((1, 1), -1e30), ((1, 2), -np.inf)],
    ids=["absolute", "relative", "unwritten", "not minus infinity", "minus infinity"],
)
def test_one_wrong_element_fails_and_is_named(ran, index, value):
    ran[0].tensors["out"].view[index] = value
    result = verdict(ran)
    assert not result.passed
    assert f"1 of 6 elements wrong, first at {list(index)}" in result.fault


def test_a_write_between_rows_of_the_output_fails(ran):
    ran[0].tensors["out"].storage[4] = 0.0
    assert "element 4 around the output was written" in verdict(ran).fault


def test_a_write_to_an_input_fails(ran):
    ran[0].tensors["x"].storage[2] = 9.0
    assert "x: element 2 of the input was written" in verdict(ran).fault


def test_the_limits_of_a_case_count_where_they_are_tighter_and_never_loosen(ran):
    case, before, expected = ran
    case.tensors["out"].view[0, 0] += 0.001
    assert verdict(ran).passed
    assert not verdict((replace(case, limits={"out": (0.0, 0.0)}), before, expected)).passed
    case.tensors["out"].view[0, 0] += 1
    assert not verdict((replace(case, limits={"out": (9.0, 9.0)}), before, expected)).passed


def test_what_is_expected_as_bits_must_be_those_bits():
    """-0 is not 0 there, and one NaN is not another."""
    storage = np.array([0x3F80, 0x8000, 0x7FC0, 0x7F81], np.uint16)
    case = Case("c", {"out": Strided(storage, 0, (2, 2), (2, 1))}, {}, {}, ("out",), {})
    before, expected = {"out": storage.copy()}, storage.reshape(2, 2).copy()
    assert compare(case, {"out": "bf16"}, {"out": expected}, before, 0.0, 0.0).passed
    for place, bits in ((1, 0), (2, 0x7FC1)):
        storage[:] = before["out"]
        storage[place] = bits
        result = compare(case, {"out": "bf16"}, {"out": expected}, before, 1.0, 1.0)
        where = [place // 2, place % 2]
        assert result.fault.startswith(f"out: 1 of 4 elements wrong, first at {where}: {bits:#x}, expected")
