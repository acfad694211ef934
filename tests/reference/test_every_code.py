"""The case of every code notices one code that reads as another, in either cache and at any place of a word."""

import numpy as np
import pytest

from assay import reference
from assay.reference import decode_attention
from assay.reference.judging import compare

DTYPES = {"partial_out": "f32", "partial_lse": "f32"}
FINITE = [code for code in range(256) if code & 0x7F != 0x7F]
AXES = {
    "rows": 1,
    "block_m": 2,
    "kv_format": "fp8_per_token_head",
    "window": False,
    "soft_cap": False,
    "alignment": 16,
}


@pytest.fixture(params=[64, 256])
def case(request):
    axes = {**AXES, "head_dim": request.param}
    return next(case for case in reference.cases("decode_attention", axes) if case.name == "every code")


def judged(case, expected, actual):
    """The verdict on outputs `actual`, FP32."""
    before = {}
    for name, tensor in case.tensors.items():
        if name in actual:
            tensor.view[...] = actual[name].astype(np.float32)
        before[name] = tensor.storage.copy()
    return compare(case, DTYPES, expected, before, 0.002, 0.02)


def read_wrong(case, cache, code, place):
    """The reference of a reader that takes `code` for its neighbour where it is byte `place` of a word."""
    tensor = case.tensors[f"{cache}_cache"]
    original = tensor.storage.copy()
    bytes_of_words = tensor.view[..., place::4]
    bytes_of_words[bytes_of_words == code] = code - 1 if code & 0x7F else code + 1
    try:
        return reference.expected("decode_attention", case)
    finally:
        tensor.storage[:] = original


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["k", "v"])
def test_one_code_read_as_its_neighbour_at_one_place_of_a_word_fails(case, cache):
    expected = reference.expected("decode_attention", case)
    assert judged(case, expected, expected).passed
    for code in FINITE:
        for place in range(4):
            assert not judged(case, expected, read_wrong(case, cache, code, place)).passed, (code, place)


WRONG_TABLES = {
    "sign turned": lambda table: -table,
    "sign lost": np.abs,
    "exponent bias": lambda table: 2 * table,
    "one bit of BF16": lambda table: table * (1 + 2**-8),
    "no subnormals": lambda table: np.where(abs(table) < 2**-6, 0, table),
}


@pytest.mark.parametrize("cache", ["k", "v"])
@pytest.mark.parametrize("wrong", WRONG_TABLES)
def test_a_table_that_is_wrong_as_a_whole_fails(case, cache, wrong, monkeypatch):
    expected = reference.expected("decode_attention", case)
    table, decode = decode_attention.e4m3fn_values(), decode_attention._decode
    tables = {name: WRONG_TABLES[wrong](table) if name == cache else table for name in "kv"}

    def decode_wrong(case, name):
        monkeypatch.setattr(decode_attention, "e4m3fn_values", lambda: tables[name])
        return decode(case, name)

    monkeypatch.setattr(decode_attention, "_decode", decode_wrong)
    assert not judged(case, expected, reference.expected("decode_attention", case)).passed
