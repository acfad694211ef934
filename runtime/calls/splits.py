"""How many splits a decode call uses when its caller does not say."""

from __future__ import annotations

from ..limits import MOST_SPLITS

# A split covers a multiple of this many keys, so a finer cut leaves empty ones.
_LEAST_KEYS = 32
# Beyond this many splits a cut must leave each of them two tiles, and half as many keys as a row has elements, or the
# merge, which reads a row of each, costs what it saves.
_FEW_SPLITS = 16
# Shared memory, and so loads in flight, beyond which more workgroups on a multiprocessor read no faster and only leave
# more splits to merge.  Measured on an H200.
_FULL_LDS = 128 << 10
# With this much they read nearly as fast, and splitting for more gains less than the merge takes.  Above half of the
# full measure, so that it decides nothing where both ways have kernels of one size.
_ENOUGH_LDS = 72 << 10


def worth_having(resident: int, lds_bytes: int) -> int:
    """Workgroups that a multiprocessor should hold, of the `resident` that fit; lds_bytes: of one."""
    return min(resident, max(1, round(_FULL_LDS / lds_bytes))) if lds_bytes else resident


def enough_alone(pairs: int, processors: int, lds_bytes: int = _FULL_LDS) -> bool:
    """Whether one workgroup a (request, KV head) pair reads as fast as is worth having, with nothing split.

    lds_bytes: of one; left out: whether any could.
    """
    return pairs * lds_bytes >= processors * _ENOUGH_LDS


def default_splits(workgroups: int, requests: int, kv_heads: int, keys: int, head_dim: int, tile: int) -> int:
    """Splits of each request so that one wave of `workgroups` fills the device.

    workgroups: how many are to run on the device at once.  keys: of all requests together.  tile: keys that a
    workgroup takes at a time.
    """
    if requests == 0 or kv_heads == 0:
        return 1
    least = max(_LEAST_KEYS, tile)
    fill = workgroups // (requests * kv_heads)
    longest = -(-keys // requests)
    many = max(2 * least, head_dim // 2)
    useful = max(min(-(-longest // least), _FEW_SPLITS), -(-longest // many))
    return _without_empty(longest, max(1, min(fill, useful, MOST_SPLITS)), least)


def _without_empty(keys: int, splits: int, least: int) -> int:
    """As few splits as give each its keys, whole tiles: rounding those up would leave the last splits none."""
    keys_each = -(-keys // (splits * least)) * least
    return -(-keys // keys_each) if keys else 1
