"""Which keys a query sees, exactly (field cases C16, C17, C20)."""

import numpy as np
import pytest

from tests.kernels.shipped import run_decode, run_merge, shipped_merge

from .calls import HEAD_DIM, KINDS, assert_close, equal_scores_call, expected, kernel, random_call, widened


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_of_four_weighs_the_last_four_keys_a_quarter_each(kind):
    """C16: lengths W - 1, W, W + 1 and W + 2."""
    lengths = [3, 4, 5, 6]
    out, lse = run_decode(kernel(kind), equal_scores_call(kind, lengths, window=4))
    for request, length in enumerate(lengths):
        seen = min(length, 4)
        wanted = np.zeros(HEAD_DIM)
        wanted[length - seen : length] = 1 / seen
        np.testing.assert_allclose(out[request, :, 0], np.broadcast_to(wanted, out[request, :, 0].shape), rtol=1e-6)
        np.testing.assert_allclose(lse[request], np.log(seen), rtol=1e-6)
    assert set(np.unique(out[1:])) == {0.0, 0.25}


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("window", [1, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_wholly_outside_the_window_leave_no_nan(kind, window, sinks):
    """C17: 257 keys in four splits, through the merge."""
    call = random_call(kind, [257, 64, 65], [4, 4, 1], window=window)
    partials = run_decode(kernel(kind), call)
    wanted, wanted_lse = expected(call)
    assert_close(partials, (wanted, wanted_lse))
    merge = shipped_merge(head_dim=HEAD_DIM, sinks=sinks)
    logits = np.linspace(-2, 2, partials[0].shape[1]).astype(np.float32)
    out, lse = run_merge(merge, *partials, [4, 4, 1], logits if sinks else None)
    if sinks:
        total = np.logaddexp(wanted_lse, logits)
        wanted, wanted_lse = wanted * np.exp(wanted_lse - total)[..., None], total
    np.testing.assert_allclose(widened(out), wanted, rtol=0.02, atol=0.002)
    np.testing.assert_allclose(lse, wanted_lse, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_before_the_last_key_see_the_keys_up_to_their_own(kind):
    """C20: the last three of ten keys are queries; the first of them sees eight keys."""
    call = equal_scores_call(kind, [10, 10, 10])
    call.q_positions[:] = [7, 8, 9]
    out, lse = run_decode(kernel(kind), call)
    for request, seen in enumerate([8, 9, 10]):
        np.testing.assert_allclose(out[request, :, 0, :seen], 1 / seen, rtol=1e-6)
        assert not out[request, :, 0, seen:].any()
        np.testing.assert_allclose(lse[request], np.log(seen), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_before_the_first_key_give_zeros_and_minus_infinity(kind):
    """C20: ten queries on three keys, aligned at the end: seven of them see nothing."""
    call = equal_scores_call(kind, [3] * 10)
    call.q_positions[:] = np.arange(-7, 3)
    out, lse = run_decode(kernel(kind), call)
    assert not out[:7].any()
    assert np.isneginf(lse[:7]).all()
    np.testing.assert_allclose(lse[7:, 0, 0], np.log([1, 2, 3]), rtol=1e-6, atol=1e-7)
