"""The merge template weighs splits by exp(LSE) and applies a sink once: its source, interpreted, against numpy."""

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.decode_reference import merge
from tests.kernels.running import interpret, variant_for


def run(partial_out, partial_lse, splits, tmp_path: Path, sinks=None, out_fill=np.nan, launch=None):
    """Merged output [batch, heads, D] and LSE [batch, heads] of partials [batch, heads, splits, D]."""
    batch, heads, _, head_dim = partial_out.shape
    arrays = {
        "partial_out": partial_out.astype(np.float32),
        "partial_lse": partial_lse.astype(np.float32),
        "out": np.full((batch, heads, head_dim), out_fill, np.float32),
        "lse": np.full((batch, heads), out_fill, np.float32),
    }
    dims = {"partial_out": ("batch", "head", "split"), "partial_lse": ("batch", "head", "split")}
    dims |= {"out": ("batch", "head"), "lse": ("batch", "head")}
    prefixes = {"partial_out": "partial"}
    inputs = {**arrays, "num_kv_splits": np.array(splits, np.int32)}
    for name, array in arrays.items():
        for axis, dim in enumerate(dims[name]):
            inputs[f"{prefixes.get(name, name)}_stride_{dim}"] = array.strides[axis] // array.itemsize
    inputs |= dict.fromkeys(("partial_stride_row", "partial_lse_stride_row", "out_stride_row", "lse_stride_row"), 0)
    if sinks is not None:
        inputs["sinks"] = np.array(sinks, np.float32)
    variant = variant_for("merge_splits", "sm90", launch, head_dim=head_dim, sinks=sinks is not None, most_splits=128)
    result = interpret(variant, inputs, (batch, heads), tmp_path, ("out",))
    return result["out"], result["lse"]


def test_weights_are_natural_exponentials_of_the_lse(tmp_path):
    partial = np.zeros((1, 1, 2, 64))
    partial[0, 0, 1] = 1.0
    out, lse = run(partial, np.array([[[0.0, np.log(3.0)]]]), [2], tmp_path)
    np.testing.assert_allclose(out, 0.75)
    np.testing.assert_allclose(lse, np.log(4.0), rtol=1e-6)


@pytest.mark.parametrize("block_splits", [8, 32])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_a_merge_is_the_float64_merge(tmp_path, with_sinks, block_splits):
    rng = np.random.default_rng(11)
    # More than one tile of splits, whole and not, and whole tiles without keys.
    partial = rng.standard_normal((3, 4, 37, 128))
    partial_lse = rng.uniform(-8, 8, (3, 4, 37))
    partial_lse[rng.random((3, 4, 37)) < 0.3] = -np.inf
    partial_lse[1:, :, 0] = 1.5
    partial_lse[0, :, :16] = -np.inf
    partial_lse[0, :, 16] = 1.5
    # Behind a request's splits, and in splits without keys, stands whatever an earlier call left.
    partial[np.isneginf(partial_lse)] = np.nan
    splits = [37, 19, 1]
    for request, count in enumerate(splits):
        partial[request, :, count:] = np.nan
        partial_lse[request, :, count:] = np.nan
    sinks = np.array([-2.0, 0.0, 1.0, 30.0]) if with_sinks else None
    out, lse = run(partial, partial_lse, splits, tmp_path, sinks, launch={"block_splits": block_splits})
    for request, count in enumerate(splits):
        used = np.nan_to_num(partial[request, :, :count])
        expected, expected_lse = merge(used, partial_lse[request, :, :count])
        if sinks is not None:
            total = np.logaddexp(expected_lse, sinks)
            expected, expected_lse = expected * np.exp(expected_lse - total)[:, None], total
        np.testing.assert_allclose(out[request], expected, atol=2e-3, rtol=2e-2)
        np.testing.assert_allclose(lse[request], expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("sinks", [None, [0.5, 3.0]])
def test_a_request_without_keys_gives_zeros_and_minus_infinity_and_leaves_its_neighbours_alone(tmp_path, sinks, splits):
    partial = np.ones((3, 2, splits, 64))
    partial[1] = np.nan
    partial_lse = np.zeros((3, 2, splits))
    partial_lse[1] = -np.inf
    out, lse = run(partial, partial_lse, [splits] * 3, tmp_path, sinks)
    assert (out[1] == 0).all()
    assert np.isneginf(lse[1]).all()
    np.testing.assert_array_equal(out[0], out[2])
    weight = 1.0 if sinks is None else splits / (splits + np.exp(sinks))
    np.testing.assert_allclose(out[0, :, 0], weight, rtol=1e-2)
