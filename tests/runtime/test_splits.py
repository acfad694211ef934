"""How many splits a call gets that names none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.runtime.calls.splits import default_splits, pair_bytes, worth_having, worth_splitting

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
    [
        (12, 17_792, 8),
        (5, 38_656, 4),
        (6, 34_560, 4),
        (1, 134_144, 1),
        (2, 101_376, 1),
        (10, 11_392, 10),
        (2, 0, 2),
        (1, 200_192, 1),
    ],
)
def test_workgroups_beyond_a_full_shared_memory_are_not_worth_having(resident, lds_bytes, expected):
    assert worth_having(resident, lds_bytes) == expected


@pytest.mark.parametrize(
    ("pairs", "keys", "head_dim", "item_bytes", "splits", "lds_bytes", "expected"),
    [
        # As an H200 has it: microseconds split / not split.
        (512, 1024, 128, 1, 2, 20_224, False),  # 48.1 / 43.3
        (448, 4096, 128, 1, 2, 20_224, True),  # g4: 130.9 / 146
        (264, 4096, 128, 1, 5, 20_224, True),  # 84 / 123
        (128, 256, 64, 2, 2, 69_632, False),  # 7.7 / 5.2
        (72, 64, 128, 1, 2, 20_224, False),  # 5.9 / 4.1
        (32, 32768, 128, 2, 4, 136_192, True),
        (4, 512, 128, 2, 4, 136_192, True),
        (1, 32768, 128, 2, 128, 136_192, True),
    ],
)
def test_splits_are_worth_what_was_measured(pairs, keys, head_dim, item_bytes, splits, lds_bytes, expected):
    read, partial = pair_bytes(keys, head_dim, item_bytes), 4 * pairs * 8 * splits * head_dim
    assert worth_splitting(pairs, 132, read, partial, lds_bytes) == expected


def test_a_pair_reads_its_keys_and_values_with_their_scales():
    assert pair_bytes(1000, 128, 2) == 2 * 1000 * 256
    assert pair_bytes(50, 64, 1) == 2 * 50 * 68


NUMBERS = st.integers(1, 1 << 40)


@given(st.integers(1, 4000), st.integers(1, 200), NUMBERS, NUMBERS, st.integers(0, 232_448))
def test_no_row_makes_splits_worth_less_than_the_largest_does(pairs, processors, read, partial, lds_bytes):
    if worth_splitting(pairs, processors, read, partial):
        assert worth_splitting(pairs, processors, read, partial, lds_bytes)


TILES = st.sampled_from([16, 32, 64, 128])


@given(st.integers(1, 4000), st.integers(1, 64), st.integers(1, 16), st.integers(1, 1 << 18), TILES)
def test_no_split_is_empty(workgroups, requests, kv_heads, longest, tile):
    splits = default_splits(workgroups, requests, kv_heads, requests * longest, 128, tile)
    keys_each = math.ceil(math.ceil(longest / splits) / SPLIT_GRANULE) * SPLIT_GRANULE
    assert (splits - 1) * keys_each < longest
