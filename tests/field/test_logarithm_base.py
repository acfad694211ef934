"""Log-sum-exps are natural logarithms on both sides of the workspace (field case C14)."""

import numpy as np
import pytest

from tests.kernels.shipped import run_decode, run_merge, shipped_merge, shipped_specs

from .calls import HEAD_DIM, KINDS, equal_scores_call, kernel, widened


@pytest.mark.parametrize("kind", KINDS)
def test_two_equal_scores_of_zero_have_the_natural_logarithm_of_two(kind):
    """C14"""
    _, lse = run_decode(kernel(kind), equal_scores_call(kind, [2]))
    np.testing.assert_allclose(lse, np.log(2), rtol=1e-6)


@pytest.mark.parametrize(("sink", "wanted"), [(None, 0.75), (0.0, 0.6)])
def test_partials_of_weights_one_and_three_merge_to_three_quarters(sink, wanted):
    """C14: outputs 0 and 1; a sink of logit 0 weighs one more."""
    partial = np.zeros((1, 1, 2, HEAD_DIM), np.float32)
    partial[:, :, 1] = 1
    lse = np.log([[[1.0, 3.0]]]).astype(np.float32)
    merge = shipped_merge(head_dim=HEAD_DIM, sinks=sink is not None)
    out, merged = run_merge(merge, partial, lse, [2], None if sink is None else np.array([sink]))
    np.testing.assert_allclose(widened(out), wanted, rtol=2**-8)
    np.testing.assert_allclose(merged, np.log(4 if sink is None else 5), rtol=1e-6)


def test_the_contracts_of_both_families_state_the_base():
    """C14"""
    for family, argument in (
        ("decode_attention", "partial_lse"),
        ("merge_splits", "partial_lse"),
        ("merge_splits", "lse"),
    ):
        (spec,) = (item for item in shipped_specs().families[family].model.arguments if item.name == argument)
        assert "natural logarithm" in spec.about
