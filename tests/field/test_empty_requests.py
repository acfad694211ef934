"""Requests without keys give nothing and change nothing (field cases C11, C13)."""

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.shipped import DecodeCall, run_decode, run_merge, shipped_merge

from .calls import HEAD_DIM, KINDS, kernel, random_call


def only(call: DecodeCall, kept: list[int]) -> DecodeCall:
    """The same call with some of its requests; the others have no keys, so indices stay as they are."""
    lengths = np.diff(call.indptr)[kept]
    assert lengths.sum() == len(call.indices)
    return replace(
        call,
        q=call.q[kept].copy(),
        indptr=np.cumsum([0, *lengths]).astype(np.int32),
        q_positions=call.q_positions[kept].copy(),
        num_kv_splits=call.num_kv_splits[kept].copy(),
        partial_out=None,
        partial_lse=None,
    )


BATCHES = [
    ([5, 0, 1, 0], [2, 1, 2, 2]),
    ([40, 0, 33, 7, 64, 1, 2, 31, 32, 90, 0, 65], [2, 2, 1, 1, 2, 2, 1, 2, 2, 2, 1, 2]),
]


@pytest.mark.parametrize(("lengths", "splits"), BATCHES, ids=["C11", "C13"])
@pytest.mark.parametrize("kind", KINDS)
def test_empty_requests_are_zeros_and_their_neighbours_are_bit_equal_to_a_call_without_them(kind, lengths, splits):
    """C11, C13: and so are the merged results, sinks or not."""
    call = random_call(kind, lengths, splits)
    kept = [request for request, length in enumerate(lengths) if length]
    empty = [request for request, length in enumerate(lengths) if not length]
    out, lse = run_decode(kernel(kind), call)
    alone = only(call, kept)
    out_alone, lse_alone = run_decode(kernel(kind), alone)
    assert not out[empty].any()
    assert np.isneginf(lse[empty]).all()
    np.testing.assert_array_equal(out[kept].view(np.uint32), out_alone.view(np.uint32))
    np.testing.assert_array_equal(lse[kept].view(np.uint32), lse_alone.view(np.uint32))
    for sinks in (None, np.linspace(-5, 5, out.shape[1])):
        merge = shipped_merge(head_dim=HEAD_DIM, sinks=sinks is not None)
        merged, merged_lse = run_merge(merge, out, lse, splits, sinks)
        merged_alone, merged_lse_alone = run_merge(merge, out_alone, lse_alone, list(alone.num_kv_splits), sinks)
        assert not merged[empty].any()
        assert np.isneginf(merged_lse[empty]).all()
        np.testing.assert_array_equal(merged[kept], merged_alone)
        np.testing.assert_array_equal(merged_lse[kept].view(np.uint32), merged_lse_alone.view(np.uint32))
