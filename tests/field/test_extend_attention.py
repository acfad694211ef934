"""Prefill over a history and a chunk: which keys a query sees, and where they lie (C3, C11, C13, C16, C17, C20)."""

import numpy as np
import pytest

from .extend_calls import HEAD_DIM, NAN_BF16, assert_attention, kernel, random_call, run_extend, values_of
from .test_memory import spread


def rows_of(call, requests):
    """The tokens of these requests."""
    return np.concatenate([np.arange(*call.q_indptr[request : request + 2]) for request in requests])


def without_empty_requests(call):
    """The same call, requests without tokens left out and their history with them."""
    kept = [request for request, chunk in enumerate(np.diff(call.q_indptr)) if chunk]
    histories = [slice(*call.hist_indptr[request : request + 2]) for request in kept]
    other = random_call([0], [1])
    for name in ("q", "k_new", "v_new"):
        setattr(other, name, getattr(call, name))
    for name in ("k_hist", "v_hist"):
        setattr(other, name, np.concatenate([getattr(call, name)[rows] for rows in histories]))
    other.q_indptr = np.cumsum([0, *np.diff(call.q_indptr)[kept]]).astype(np.int32)
    other.hist_indptr = np.cumsum([0, *np.diff(call.hist_indptr)[kept]]).astype(np.int32)
    other.window = call.window
    return other


@pytest.mark.parametrize(
    ("histories", "chunks"),
    [([4, 7, 0, 3], [5, 0, 1, 0]), ([2] * 12, [1, 0, 2, 1, 3, 1, 1, 2, 1, 1, 0, 4])],
    ids=["C11", "C13"],
)
def test_requests_without_tokens_change_nothing_for_their_neighbours(histories, chunks):
    call = random_call(histories, chunks, window=6)
    out, lse = run_extend(kernel(), call)
    wanted_out, wanted_lse = run_extend(kernel(), without_empty_requests(call))
    np.testing.assert_array_equal(out, wanted_out)
    np.testing.assert_array_equal(lse, wanted_lse)


@pytest.mark.parametrize("window", [5, 6, 7])
def test_a_window_holds_the_querys_own_key_and_those_before_it(window):
    """C16: equal scores, and the value of the key at position j is 1 at element j."""
    call = random_call([2], [4], gqa=1, window=window)
    call.q[:] = 0
    for name, first in (("v_hist", 0), ("v_new", 2)):
        rows = getattr(call, name)
        rows[:] = 0
        for row in range(len(rows)):
            rows[row, :, first + row] = 0x3F80
    out, _ = run_extend(kernel(), call)
    for token, row in enumerate(values_of(out)[:, 0]):
        position = 2 + token
        seen = np.arange(max(0, position - window + 1), position + 1)
        wanted = np.zeros(HEAD_DIM)
        wanted[seen] = 1 / len(seen)
        np.testing.assert_allclose(row, wanted, rtol=2**-8)


@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize("window", [1, 17])
@pytest.mark.parametrize("history", [0, 200, 250])
def test_tiles_wholly_outside_the_window_leave_no_nan(window, history, with_sinks):
    """C17: 257 keys, tiles of 64 and 32."""
    sinks = np.array([-np.inf, 0.5, 60.0], np.float32) if with_sinks else None
    assert_attention(kernel(sinks=with_sinks), random_call([history], [257 - history], window=window, sinks=sinks))


def test_the_first_of_three_queries_behind_seven_keys_sees_eight():
    """C20: the values of the eight keys differ from all others by a thousandfold."""
    call = random_call([7], [3], gqa=1, window=None)
    call.q[:] = 0
    call.v_hist[:] = 0x3F80
    call.v_new[:] = 0x3F80
    call.v_new[1:] = 0x4480
    out, lse = run_extend(kernel(window=False), call)
    np.testing.assert_allclose(values_of(out)[:, 0, 0], [1, (8 + 1024) / 9, (8 + 2048) / 10], rtol=2**-8)
    np.testing.assert_allclose(lse[:, 0], np.log([8, 9, 10]), rtol=1e-6)


def test_a_token_that_is_nan_spoils_no_other_request_and_no_earlier_query():
    """Its query and key are NaN; so is all that lies around the requests' rows."""
    call = random_call([9, 20], [12, 40], window=None)
    clean, _ = run_extend(kernel(window=False), call)
    call.q[12 + 30] = NAN_BF16
    call.k_new[12 + 30] = NAN_BF16
    call.out = None
    out, _ = run_extend(kernel(window=False), call)
    np.testing.assert_array_equal(out[: 12 + 30], clean[: 12 + 30])
    assert np.isnan(values_of(out[12 + 30 :])).all()


@pytest.mark.parametrize("name", ["q", "k_new", "v_new", "k_hist", "v_hist", "out", "lse"])
def test_rows_may_lie_gigabytes_apart(name):
    """C3, and the same of every other tensor: row offsets beyond 32 bits, in elements too."""
    call = random_call([33], [34], gqa=2, window=None)
    call.out = np.full(call.q.shape, NAN_BF16, np.uint16)
    call.lse = np.full(call.q.shape[:2], np.nan, np.float32)
    apart = 300 << 20
    assert apart * 32 // 2 > 1 << 32
    setattr(call, name, spread(getattr(call, name), apart))
    assert_attention(kernel(window=False), call)
