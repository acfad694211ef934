"""How many splits a call gets that names none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.runtime.calls.splits import default_splits, enough_alone, worth_having

# Keys that the kernel rounds a split up to.
SPLIT_GRANULE = 32


@pytest.mark.parametrize(
    ("workgroups", "requests", "kv_heads", "keys", "head_dim", "tile", "expected"),
    [
        (1320, 8, 4, 8 * 32768, 128, 32, 41),  # one wave of the device
        (1056, 8, 4, 8 * 32768, 128, 32, 32),  # of which none is empty: 33 would be of 1,024 keys too
        (1320, 1, 4, 512, 128, 32, 16),  # not finer than 32 keys
        (1320, 1, 4, 100, 128, 32, 4),
        (1320, 1, 4, 4096, 128, 32, 64),  # nor, beyond 16, than 64 keys
        (1320, 1, 4, 8192, 256, 32, 64),  # twice as many where a row of them is twice as long
        (1320, 1, 4, 32768, 128, 32, 128),  # nor more than the merge takes
        (1320, 400, 8, 400 * 8192, 128, 32, 1),  # the batch alone fills it
        (64, 1, 1, 1, 128, 32, 1),
        (64, 3, 1, 0, 128, 32, 1),
        (64, 0, 1, 0, 128, 32, 1),
        (132, 8, 4, 8 * 32768, 128, 128, 4),  # one large workgroup on each of 132 multiprocessors
        (132, 1, 4, 8192, 128, 128, 32),  # two whole tiles a split
        (132, 1, 4, 512, 128, 128, 4),  # one, where there are few
        (528, 8, 4, 8 * 512, 128, 64, 8),
        (1320, 8, 4, 8 * 8192, 64, 64, 32),  # 37 splits would be of three and a half tiles each
    ],
)
def test_default_splits(workgroups, requests, kv_heads, keys, head_dim, tile, expected):
    assert default_splits(workgroups, requests, kv_heads, keys, head_dim, tile) == expected


@pytest.mark.parametrize(
    ("resident", "lds_bytes", "expected"),
    [(12, 17_792, 7), (6, 34_560, 4), (1, 134_144, 1), (2, 101_376, 1), (10, 11_392, 10), (2, 0, 2), (1, 200_192, 1)],
)
def test_workgroups_beyond_a_full_shared_memory_are_not_worth_having(resident, lds_bytes, expected):
    assert worth_having(resident, lds_bytes) == expected


@pytest.mark.parametrize(
    ("pairs", "processors", "lds_bytes", "expected"),
    [
        (512, 132, 20_224, True),  # FP8 rows on an H200: 128 x 1,024 keys took 48 us in two splits, 43 in none
        (480, 132, 20_224, False),  # and fewer pairs of long contexts gain by splits
        (640, 132, 11_008, False),
        (4096, 132, 0, False),
        (75, 132, 131_072, True),
        (74, 132, 131_072, False),
    ],
)
def test_workgroups_that_read_fast_enough_without_splits(pairs, processors, lds_bytes, expected):
    assert enough_alone(pairs, processors, lds_bytes) == expected
    assert not expected or enough_alone(pairs, processors)


@given(st.integers(1, 4000), st.integers(1, 200), st.integers(1, 131_072), st.integers(1, 16))
def test_where_both_ways_have_kernels_of_one_size_it_decides_nothing(pairs, processors, lds_bytes, resident):
    workgroups = processors * worth_having(resident, lds_bytes)
    splits = default_splits(workgroups, pairs, 1, pairs * 8192, 128, 64)
    fit = round(131_072 / lds_bytes)
    # Rounding to whole workgroups alone may admit a few more.
    if splits > 1 and fit and abs(131_072 / lds_bytes - fit) < fit / 16:
        assert not enough_alone(pairs, processors, lds_bytes)


TILES = st.sampled_from([16, 32, 64, 128])


@given(st.integers(1, 4000), st.integers(1, 64), st.integers(1, 16), st.integers(1, 1 << 18), TILES)
def test_no_split_is_empty(workgroups, requests, kv_heads, longest, tile):
    splits = default_splits(workgroups, requests, kv_heads, requests * longest, 128, tile)
    keys_each = math.ceil(math.ceil(longest / splits) / SPLIT_GRANULE) * SPLIT_GRANULE
    assert (splits - 1) * keys_each < longest
