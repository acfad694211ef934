"""Several queries of a request, and groups of any size (field cases C9, C20)."""

import numpy as np
import pytest

from tests.kernels.shipped import DecodeCall, Shipped, run_decode

from .calls import HEAD_DIM, assert_attention, equal_scores_call, kernel, random_call

INT8 = {"kv_format": "int8_per_token_head", "reader": "generic", "alignment": 16, "offset_bits": 64}
KINDS = {"bf16": "bf16", "packed": "packed", "generic": "generic", "int8": "packed"}


def decode(kind: str, *, rows: int = 8, block_m: int = 16) -> Shipped:
    """The kernel with a window and no cap."""
    axes = {"rows": rows, "block_m": block_m, "soft_cap": False}
    return kernel(KINDS[kind], profile="full", **axes, **(INT8 if kind == "int8" else {}))


@pytest.mark.parametrize("kind", KINDS)
def test_the_queries_of_a_request_are_causal_among_themselves(kind):
    """C20: the last three of ten keys are queries of one request; the first of them sees eight keys."""
    out, lse = run_decode(decode(kind), equal_scores_call(kind, [10, 3, 10], rows=3, group=5))
    for request, length in enumerate([10, 3, 10]):
        for row in range(3):
            seen = length - 2 + row
            np.testing.assert_allclose(out[request, row, :, 0, :seen], 1 / seen, rtol=1e-6)
            assert not out[request, row, :, 0, seen:].any()
            np.testing.assert_allclose(lse[request, row], np.log(seen), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_before_the_first_key_of_their_request_give_zeros_and_minus_infinity(kind):
    """C20: eight queries on three keys: five of them see nothing; and on none, and on more."""
    out, lse = run_decode(decode(kind), equal_scores_call(kind, [3, 0, 9], rows=8, group=2))
    assert not out[0, :5].any()
    assert np.isneginf(lse[0, :5]).all()
    np.testing.assert_allclose(lse[0, 5:, 0, 0], np.log([1, 2, 3]), rtol=1e-6, atol=1e-7)
    assert not out[1].any()
    assert np.isneginf(lse[1]).all()
    np.testing.assert_allclose(lse[2, :, 0, 0], np.log(np.arange(2, 10)), rtol=1e-6)


@pytest.mark.parametrize("window", [1, 4])
def test_each_query_of_a_request_has_a_window_of_its_own(window):
    """C16, C20"""
    out, lse = run_decode(decode("bf16"), equal_scores_call("bf16", [9, 2], window, rows=4, group=3))
    for request, length in enumerate([9, 2]):
        for row in range(4):
            end = max(0, length - 3 + row)
            wanted = np.zeros(HEAD_DIM)
            wanted[max(0, end - window) : end] = 1 / max(1, min(end, window))
            np.testing.assert_allclose(out[request, row, :, 0], np.broadcast_to(wanted, (3, HEAD_DIM)), rtol=1e-6)
            assert np.isneginf(lse[request, row]).all() == (end == 0)


@pytest.mark.parametrize(("rows", "group"), [(1, 6), (2, 7), (5, 3), (8, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_several_queries_over_splits_windows_and_two_kv_heads_are_attention(kind, rows, group):
    """C9, C20"""
    sizes = {"rows": rows, "group": group, "kv_heads": 2}
    assert_attention(decode(kind), random_call(kind, [70, 33, 3, 0], [3, 2, 1, 1], **sizes))
    assert_attention(decode(kind), random_call(kind, [70, 33, 3, 0], [3, 2, 1, 1], window=5, **sizes))


@pytest.mark.parametrize("window", [4, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_queries_of_a_request_may_stand_anywhere_in_any_order(kind, window):
    """C20: so far apart that whole tiles come before the first key of one query, and behind the last of another."""
    for splits in (1, 3):
        call = random_call(kind, [300, 40], [splits, 1], window=window, rows=3, group=5)
        call.q_positions[:] = [[5, 290, 150], [39, -7, 0]]
        assert_attention(decode(kind), call)


def poisoned(call: DecodeCall, kv_head: int) -> DecodeCall:
    """The same call with NaN in one KV head's keys and values."""
    for name in "kv":
        scale, cache = getattr(call, f"{name}_scale"), getattr(call, f"{name}_cache")
        if scale is None:
            cache[:, kv_head] = 0x7FC1
        else:
            scale[:, kv_head] = np.nan
    return call


@pytest.mark.parametrize(
    ("kind", "rows", "group"),
    [
        ("bf16", 1, 72),
        ("bf16", 8, 9),
        pytest.param("int8", 8, 24, marks=pytest.mark.slow),
        pytest.param("packed", 1, 130, marks=pytest.mark.slow),
        pytest.param("packed", 3, 24, marks=pytest.mark.slow),
        pytest.param("generic", 8, 72, marks=pytest.mark.slow),
    ],
)
def test_query_rows_beyond_one_block_stay_with_their_kv_head(kind, rows, group):
    """C9: NaN in one of three KV heads is seen by its own query heads, all of them, and by no other."""
    large = decode(kind, rows=8 if rows > 1 else 1, block_m=64)
    sizes = {"rows": rows, "group": group, "kv_heads": 3}
    call = random_call(kind, [40, 9], [2, 1], **sizes)
    assert_attention(large, call)
    out, lse = call.partial_out, call.partial_lse
    for bad in range(3):
        got, got_lse = run_decode(large, poisoned(random_call(kind, [40, 9], [2, 1], **sizes), bad))
        own = np.arange(3 * group) // group == bad
        # A query that sees no key of the poisoned head has nothing to be NaN.
        seen = ~np.isneginf(lse[..., own, :])
        assert np.isnan(got[..., own, :, :][seen]).all()
        assert np.isnan(got_lse[..., own, :][seen]).all()
        np.testing.assert_array_equal(got[..., ~own, :, :].view(np.uint32), out[..., ~own, :, :].view(np.uint32))
        np.testing.assert_array_equal(got_lse[..., ~own, :].view(np.uint32), lse[..., ~own, :].view(np.uint32))


def test_query_rows_behind_the_last_block_write_nothing_beyond_their_own():
    """C9, C21: 65 query rows in blocks of 64; what lies behind the outputs is another's."""
    call = random_call("bf16", [40], [2], rows=1, group=65)
    guard = np.float32(-123.25)
    wholes = [np.full(65 * 2 * width + 4096, guard) for width in (HEAD_DIM, 1)]
    call.partial_out = wholes[0][:-4096].reshape(1, 1, 65, 2, HEAD_DIM)
    call.partial_lse = wholes[1][:-4096].reshape(1, 1, 65, 2)
    assert_attention(decode("bf16", rows=1, block_m=64), call)
    assert all((whole[-4096:] == guard).all() for whole in wholes)
