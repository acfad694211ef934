"""Predicates compare values of one type, and every operator means what its name says."""

import pytest

from assay.codegen.predicates import holds

FACTS = {"gqa": 8, "window": False, "one": 1, "kv": "bf16", "target.features": ("wmma", "fp8")}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, True),
        ({"gqa": 8}, True),
        ({"gqa": "8"}, False),
        ({"gqa": [4, 8]}, True),
        ({"gqa": [4, 16]}, False),
        ({"window": 0}, False),
        ({"one": True}, False),
        ({"gqa": {"not": 8}}, False),
        ({"gqa": {"not": [4, 16]}}, True),
        ({"gqa": {"at_least": 8, "at_most": 8}}, True),
        ({"gqa": {"at_least": 9}}, False),
        ({"gqa": {"at_most": 7}}, False),
        ({"gqa": {"multiple_of": 4}}, True),
        ({"gqa": {"multiple_of": 3}}, False),
        ({"target.features": {"contains": "fp8"}}, True),
        ({"target.features": {"contains": "fp"}}, False),
        ({"target.features": {"lacks": "fp8"}}, False),
        ({"target.features": {"lacks": "fp"}}, True),
        ({"gqa": 8, "kv": "bf16"}, True),
        ({"gqa": 8, "kv": "fp8"}, False),
    ],
)
def test_a_predicate_holds_exactly_where_it_says(when, expected):
    assert holds(when, FACTS) is expected
