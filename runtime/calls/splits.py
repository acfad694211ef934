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
_FULL_LDS = 136 << 10
# What decides whether to split at all, fitted to 808 shapes on an H200 (docs/decisions.md): shared memory that each
# multiprocessor must hold to read at full speed, what of it one workgroup uses at most, and what each multiprocessor
# reads in the time that a second kernel takes.
_FAST_LDS, _ALONE_LDS, _MERGE_BYTES = 80 << 10, 64 << 10, 160 << 10


def worth_having(resident: int, lds_bytes: int) -> int:
    """Workgroups that a multiprocessor should hold, of the `resident` that fit; lds_bytes: of one."""
    return min(resident, max(1, round(_FULL_LDS / lds_bytes))) if lds_bytes else resident


def pair_bytes(keys: int, head_dim: int, item_bytes: int) -> int:
    """Bytes of keys, values and scales that one (request, KV head) pair reads; keys: of its request.

    A window's length is no part of it: one plan serves every length, whichever came first.
    """
    scale = 4 if item_bytes == 1 else 0
    return 2 * keys * (head_dim * item_bytes + scale)


def worth_splitting(
    pairs: int, processors: int, read_bytes: int, partial_bytes: int, lds_bytes: int = _ALONE_LDS
) -> bool:
    """Whether splits save more time of reading than it takes to merge them.

    pairs: of request and KV head, one workgroup each of the kernel that does not split, with `lds_bytes` of shared
    memory; left out: the most that counts, for which splits save least.  read_bytes: what each reads.  partial_bytes:
    partial results of all splits together.

    Fewer bytes in flight than `_FAST_LDS` on each multiprocessor take as many times longer to read.  Partial results
    are written and read, and nothing runs beside either.
    """
    held = min(lds_bytes, _ALONE_LDS)
    saved = read_bytes * (processors * _FAST_LDS - pairs * held)
    return saved > (processors * _MERGE_BYTES + 4 * partial_bytes) * held


def gains(
    splits: int,
    shape: tuple[int, int, int, int],
    kv_heads: int,
    keys: int,
    item_bytes: int,
    processors: int,
    **of_row: int,
) -> bool:
    """Whether so many splits are better for a call than none.

    shape: [batch, rows, q_heads, head_dim], as q has it.  keys: of all requests together; item_bytes: of a cache.
    of_row: `lds_bytes`, where the row that does not split is known.
    """
    batch, rows, q_heads, head_dim = shape
    read = pair_bytes(-(-keys // batch), head_dim, item_bytes)
    partial = 4 * batch * rows * q_heads * splits * head_dim
    return splits > 1 and worth_splitting(batch * kv_heads, processors, read, partial, **of_row)


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
