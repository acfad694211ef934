"""How many splits a call gets that names none."""

import pytest

from assay.runtime.calls.splits import default_splits


@pytest.mark.parametrize(
    ("workgroups", "requests", "kv_heads", "keys", "expected"),
    [
        (1320, 8, 4, 8 * 32768, 41),  # one wave of the device
        (1320, 1, 4, 512, 16),  # not finer than 32 keys
        (1320, 1, 4, 100, 4),
        (1320, 1, 4, 8192, 64),  # nor, beyond 16, than 128 keys
        (1320, 1, 4, 32768, 128),  # nor more than the merge takes
        (1320, 400, 8, 400 * 8192, 1),  # the batch alone fills it
        (64, 1, 1, 1, 1),
        (64, 3, 1, 0, 1),
        (64, 0, 1, 0, 1),
    ],
)
def test_default_splits(workgroups, requests, kv_heads, keys, expected):
    assert default_splits(workgroups, requests, kv_heads, keys) == expected
