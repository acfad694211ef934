"""How many splits a decode call uses when its caller does not say."""

from __future__ import annotations

from ..limits import MOST_SPLITS

# A split covers a multiple of this many keys, so a finer cut leaves empty ones.
_LEAST_KEYS = 32
# Beyond this many splits a cut must leave each of them more keys, or the merge, which reads a row of each, costs what
# it saves: 64 keys where rows have up to 128 elements, 128 where they have 256.
_FEW_SPLITS, _MANY_KEYS = 16, 64


def default_splits(workgroups: int, requests: int, kv_heads: int, keys: int, head_dim: int) -> int:
    """Splits of each request so that one wave of `workgroups` fills the device.

    workgroups: how many run on the device at once.  keys: of all requests together.
    """
    if requests == 0 or kv_heads == 0:
        return 1
    fill = workgroups // (requests * kv_heads)
    longest = -(-keys // requests)
    many = max(_MANY_KEYS, head_dim // 2)
    useful = max(min(-(-longest // _LEAST_KEYS), _FEW_SPLITS), -(-longest // many))
    return _without_empty(longest, max(1, min(fill, useful, MOST_SPLITS)))


def _without_empty(keys: int, splits: int) -> int:
    """As few splits as give each its keys: rounding those up would leave the last splits none."""
    keys_each = -(-keys // (splits * _LEAST_KEYS)) * _LEAST_KEYS
    return -(-keys // keys_each) if keys else 1
