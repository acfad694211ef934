"""How many splits a call gets that names none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.runtime.calls.splits import default_splits

# Keys that the kernel rounds a split up to.
SPLIT_GRANULE = 32


@pytest.mark.parametrize(
    ("workgroups", "requests", "kv_heads", "keys", "head_dim", "expected"),
    [
        (1320, 8, 4, 8 * 32768, 128, 41),  # one wave of the device
        (1056, 8, 4, 8 * 32768, 128, 32),  # of which none is empty: 33 would be of 1,024 keys too
        (1320, 1, 4, 512, 128, 16),  # not finer than 32 keys
        (1320, 1, 4, 100, 128, 4),
        (1320, 1, 4, 4096, 128, 64),  # nor, beyond 16, than 64 keys
        (1320, 1, 4, 8192, 256, 64),  # twice as many where a row of them is twice as long
        (1320, 1, 4, 32768, 128, 128),  # nor more than the merge takes
        (1320, 400, 8, 400 * 8192, 128, 1),  # the batch alone fills it
        (64, 1, 1, 1, 128, 1),
        (64, 3, 1, 0, 128, 1),
        (64, 0, 1, 0, 128, 1),
    ],
)
def test_default_splits(workgroups, requests, kv_heads, keys, head_dim, expected):
    assert default_splits(workgroups, requests, kv_heads, keys, head_dim) == expected


@given(st.integers(1, 4000), st.integers(1, 64), st.integers(1, 16), st.integers(1, 1 << 18))
def test_no_split_is_empty(workgroups, requests, kv_heads, longest):
    splits = default_splits(workgroups, requests, kv_heads, requests * longest, 128)
    keys_each = math.ceil(math.ceil(longest / splits) / SPLIT_GRANULE) * SPLIT_GRANULE
    assert (splits - 1) * keys_each < longest
