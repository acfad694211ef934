"""The chosen cases cover every pair of what may go wrong together; each of them is needed."""

import functools

import pytest

from assay import reference

from .pairwise import FULL_SET_ONLY, IMPOSSIBLE, all_pairs, covered_pairs

AXES = {
    "head_dim": 64,
    "rows": 1,
    "block_m": 1,
    "soft_cap": False,
    "kv_format": "fp8_per_token_head",
    "window": True,
    "alignment": 16,
}


@functools.cache
def chosen():
    by_themselves = ("every code", "NaN in a query, and in a key")
    return [case for case in reference.cases("decode_attention", AXES) if case.name not in by_themselves]


def test_about_a_dozen_cases_cover_every_pair_that_a_call_can_have():
    cases = chosen()
    assert 8 <= len(cases) <= 13
    assert all_pairs() - covered_pairs(cases) == IMPOSSIBLE | FULL_SET_ONLY


@pytest.mark.parametrize("left_out", range(len(chosen())))
def test_without_any_one_case_a_pair_is_lost(left_out):
    cases = [case for number, case in enumerate(chosen()) if number != left_out]
    assert all_pairs() - covered_pairs(cases) > IMPOSSIBLE | FULL_SET_ONLY


def test_the_full_set_covers_every_pair_that_a_call_can_have():
    cases = reference.cases("decode_attention", AXES, every=True)
    assert all_pairs() - covered_pairs(cases) == IMPOSSIBLE


def test_the_full_set_holds_the_cross_product_of_keys_splits_windows_and_layouts():
    cases = reference.cases("decode_attention", AXES, every=True)
    combinations = set()
    for case in cases:
        lengths = case.tensors["indptr"].view[1:] - case.tensors["indptr"].view[:-1]
        layout = case.name.rpartition(" ")[2]
        for length, splits in zip(lengths, case.tensors["num_kv_splits"].view, strict=True):
            combinations.add((int(length), int(splits), case.scalars["window_length"], layout))
    wanted = {
        (length, splits, window, layout)
        for length in (0, 1, 17, 31, 32, 33, 513, 2048)
        for splits in (1, 8, 64)
        for window in (1, 13, 257, 2049)
        for layout in ("dense", "padded", "offset")
    }
    assert wanted <= combinations


def test_a_problem_without_a_window_keeps_lengths_splits_and_layouts():
    axes = {**AXES, "window": False}
    full = reference.cases("decode_attention", axes, every=True)
    assert len(full) == len(reference.cases("decode_attention", axes)) + 9
    assert all("window_length" not in case.scalars for case in full)
