"""The decode template computes attention: its rendered source, run by Triton's interpreter, against float64 numpy."""

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.decode_reference import attention, fp16_error_bound, make_case, make_wide_case, merge
from tests.kernels.running import interpret, variant_for

ABSOLUTE, RELATIVE = 0.002, 0.02


def decode_variant(launch: dict, **axes: object):
    """An aligned, 64-bit decode variant.  The generic reader only: the interpreter refuses inline assembly."""
    fixed = {"reader": "generic", "alignment": 16, "offset_bits": 64, "head_dim": 128, "pairs": "any"}
    return variant_for("decode_attention", "sm90", launch, **{**fixed, **axes})


def run(variant, case, tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Partial outputs and LSE; both are poisoned first, so what the kernel leaves out is seen."""
    batch, q_heads, head_dim = case.q.shape
    splits = int(case.splits.max()) + 1
    arrays = {
        "q": case.q,
        "k_cache": case.k,
        "v_cache": case.v,
        "partial_out": np.full((batch, q_heads, splits, head_dim), np.nan, np.float32),
        "partial_lse": np.full((batch, q_heads, splits), np.nan, np.float32),
    }
    dims = {"q": ("batch", "head"), "k_cache": ("slot", "head"), "v_cache": ("slot", "head")}
    dims |= {"partial_out": ("batch", "head", "split"), "partial_lse": ("batch", "head", "split")}
    if case.k_scale is not None:
        arrays |= {"k_scale": case.k_scale, "v_scale": case.v_scale}
        dims |= {"k_scale": ("slot", "head"), "v_scale": ("slot", "head")}
    inputs = {**arrays, "indptr": case.indptr, "indices": case.indices, "q_positions": case.positions}
    inputs |= {"num_kv_splits": case.splits, "sm_scale": case.scale, "window_length": case.window or 0}
    inputs["group"] = q_heads // case.k.shape[1]
    for name, array in arrays.items():
        prefix = name.removeprefix("partial_").removesuffix("_cache")
        for axis, dim in enumerate(dims[name]):
            inputs[f"{prefix}_stride_{dim}"] = array.strides[axis] // array.itemsize
    bf16 = ("q",) if case.k_scale is not None else ("q", "k_cache", "v_cache")
    result = interpret(variant, inputs, (case.k.shape[1], batch, splits), tmp_path, bf16)
    return result["partial_out"], result["partial_lse"]


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    error = np.abs(actual - expected)
    assert not np.isnan(actual).any()
    assert (error <= ABSOLUTE + RELATIVE * np.abs(expected)).all(), f"largest error {error.max()}"


@pytest.mark.parametrize("window", [None, 17])
@pytest.mark.parametrize(
    ("kv_format", "group", "score_form", "alignment"),
    [
        ("bf16", 4, "queries_as_rows", 16),
        ("bf16", 4, "keys_as_rows", 16),
        ("fp8_per_token_head", 8, "queries_as_rows", 16),
        ("fp8_per_token_head", 8, "keys_as_rows", 16),
        ("fp8_per_token_head", 8, "transposed_fp16", 16),
        ("fp8_per_token_head", 6, "transposed_fp16", 1),
    ],
)
def test_split_decode_is_attention(tmp_path, kv_format, group, score_form, alignment, window):
    case = make_case(
        np.random.default_rng(7),
        lengths=[70, 1, 0, 33],
        splits=[3, 1, 2, 2],
        kv_format=kv_format,
        group=group,
        window=window,
    )
    launch = {"score_form": score_form, "block_n": 32}
    block = 1 << (group - 1).bit_length()
    axes = {"kv_format": kv_format, "block_m": block, "window": window is not None, "alignment": alignment}
    partial, lse = run(decode_variant(launch, **axes), case, tmp_path)
    whole, whole_lse = merge(partial, lse)
    expected, expected_lse = attention(case)
    assert_close(whole, expected)
    finite = ~np.isneginf(expected_lse)
    assert (np.isneginf(whole_lse) == ~finite).all()
    assert_close(whole_lse[finite], expected_lse[finite])


def test_a_split_without_keys_holds_zeros_and_minus_infinity(tmp_path):
    case = make_case(np.random.default_rng(1), lengths=[40, 0], splits=[4, 2], kv_format="bf16", group=4)
    variant = decode_variant({"block_n": 32}, kv_format="bf16", block_m=4, window=False)
    partial, lse = run(variant, case, tmp_path)
    # 40 keys in splits of 32: the third and later are empty, and so is every split of the second request.
    assert np.isfinite(lse[0, :, :2]).all()
    assert np.isneginf(lse[0, :, 2:]).all()
    assert np.isneginf(lse[1]).all()
    assert (partial[0, :, 2:] == 0).all()
    assert (partial[1] == 0).all()


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_window_of_four_sees_the_query_and_three_keys_before_it(tmp_path, length):
    case = make_case(
        np.random.default_rng(3), lengths=[length], splits=[1], kv_format="bf16", group=4, kv_heads=1, window=4
    )
    case.q[:] = 0  # equal scores: the output is the mean of the visible values
    case.v[:] = 0
    for position in range(length):
        case.v[case.indices[position], 0, position] = 1.0
    variant = decode_variant({"block_n": 32}, kv_format="bf16", block_m=4, window=True)
    partial, lse = run(variant, case, tmp_path)
    seen = min(length, 4)
    expected = np.zeros(128)
    expected[length - seen : length] = 1 / seen
    np.testing.assert_allclose(partial[0, :, 0], np.broadcast_to(expected, (4, 128)), atol=2e-3)
    np.testing.assert_allclose(lse[0, :, 0], np.log(seen), rtol=1e-6)


def test_a_large_key_scale_does_not_overflow_where_the_scores_are_finite(tmp_path):
    case = make_case(
        np.random.default_rng(5), lengths=[2], splits=[1], kv_format="fp8_per_token_head", group=4, kv_heads=1
    )
    case.scale = 2.0
    case.q[:] = 0
    case.q[..., 0] = 0.25
    case.k[:] = 0
    case.k[case.indices[0], 0, 0] = 0x38  # the code of 1.0
    case.k_scale[case.indices[0], 0] = 3.4e38
    case.k_scale[case.indices[1], 0] = 1e-30
    axes = {"kv_format": "fp8_per_token_head", "block_m": 4, "window": False}
    partial, lse = run(decode_variant({"block_n": 32}, **axes), case, tmp_path)
    expected, expected_lse = attention(case)
    assert np.isfinite(lse[0, :, 0]).all()
    np.testing.assert_allclose(lse[0, :, 0], expected_lse[0], rtol=1e-5)
    assert_close(partial[0, :, 0], expected[0])


@pytest.mark.parametrize(("order", "alignment"), [("random", 16), ("random", 1), ("rising", 16), ("falling", 16)])
def test_fp16_products_lose_nothing_to_scales_of_thirty_four_orders_of_magnitude(tmp_path, order, alignment):
    case = make_wide_case(np.random.default_rng(13), length=101, group=8, order=order)
    launch = {"score_form": "transposed_fp16", "block_n": 32}
    axes = {"kv_format": "fp8_per_token_head", "block_m": 8, "window": False, "alignment": alignment}
    partial, lse = run(decode_variant(launch, **axes), case, tmp_path)
    expected, expected_lse = attention(case)
    np.testing.assert_allclose(lse[..., 0], expected_lse, rtol=1e-5, atol=1e-5)
    assert (np.abs(partial[:, :, 0] - expected) <= fp16_error_bound(case)).all()
