import pytest

from assay.bundle import BundleError, canonical


def test_equal_values_have_one_spelling():
    assert canonical.encode({"b": [1, True, None], "a": "é"}) == '{"a":"é","b":[1,true,null]}'.encode()


@pytest.mark.parametrize("value", [1.0, float("nan"), {1: 2}, {"a": {2}}, "\ud800", {"\ud800": 1}, b"x", [[[0.5]]]])
def test_what_has_no_portable_spelling_is_refused(value):
    with pytest.raises(BundleError):
        canonical.encode(value)


def test_everything_unspellable_is_listed_at_once_with_its_place():
    with pytest.raises(BundleError) as caught:
        canonical.encode({"a": [1, 0.5], "b": {"c": b""}}, "problem")
    assert [fault.where for fault in caught.value.faults] == ["problem.a[1]", "problem.b.c"]


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '{"x":{"a":1,"b":2,"a":3}}', "1.0", "1e2", "NaN", "-Infinity", "", "{", "[" * 100_000]
)
def test_duplicate_keys_floats_and_malformed_text_are_refused(text):
    with pytest.raises(BundleError):
        canonical.decode(text.encode(), "here")


def test_a_duplicate_key_is_named():
    with pytest.raises(BundleError, match=r"here.*duplicate key head_dim"):
        canonical.decode(b'{"head_dim":1,"x":2,"head_dim":1}', "here")


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(BundleError):
        canonical.decode(b'"\xff"', "here")
