"""How many splits a decode call uses when its caller does not say."""

from __future__ import annotations

from ..kernels import MOST_SPLITS

# Fewer keys than this a split cost more in the merge than they save.
_LEAST_KEYS = 128


def default_splits(workgroups: int, requests: int, kv_heads: int, keys: int) -> int:
    """Splits of each request so that one wave of `workgroups` fills the device.

    workgroups: how many run on the device at once.  keys: of all requests together.
    """
    if requests == 0 or kv_heads == 0:
        return 1
    fill = workgroups // (requests * kv_heads)
    useful = -(-keys // (requests * _LEAST_KEYS))
    return max(1, min(fill, useful, MOST_SPLITS))
