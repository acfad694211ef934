import pytest

from assay.bundle import Condition


@pytest.mark.parametrize(
    ("op", "value", "good", "bad"),
    [
        ("eq", 128, [128], [64, "128", True, 128.0, None]),
        ("eq", 1, [1], [True, 1.0, "1"]),
        ("eq", True, [True], [1, "true", False]),
        ("eq", False, [False], [0, None, ""]),
        ("eq", None, [None], [0, False, ""]),
        ("eq", "bf16", ["bf16"], ["BF16", b"bf16", None]),
        ("one_of", (4, 8), [4, 8], [6, "4", 4.0]),
        ("one_of", (1,), [1], [True]),
        ("multiple_of", 16, [16, 32, 2**40], [0, -16, 8, 16.0, "16", True, None]),
        ("at_least", 1, [1, 2**40], [0, True, 1.5, "2"]),
        ("at_most", 2**31 - 1, [2**31 - 1, 0], [2**31, -1, False, "1"]),
        ("at_least", -5, [0, 3], [-1, -5]),
    ],
)
def test_each_operator_admits_exactly_its_values_of_exactly_its_type(op, value, good, bad):
    condition = Condition("x", op, value)
    assert all(condition.holds({"x": item}) for item in good)
    assert not any(condition.holds({"x": item}) for item in bad)


def test_a_field_that_is_not_given_does_not_hold_and_is_said_so():
    condition = Condition("x", "at_least", 0)
    assert not condition.holds({})
    assert condition.requested({}) == "not given"


@pytest.mark.parametrize(("op", "value"), [("near", 3), ("one_of", 5), ("multiple_of", 0), ("at_most", "9")])
def test_a_condition_that_is_not_understood_never_holds(op, value):
    assert not any(Condition("x", op, value).holds({"x": item}) for item in (0, 3, 5, "9", None))


def test_a_number_of_a_foreign_type_is_shown_with_its_type():
    class Integer(int):
        pass

    condition = Condition("x", "eq", 3)
    assert not condition.holds({"x": Integer(3)})
    assert condition.requested({"x": Integer(3)}) == "3 (Integer)"
