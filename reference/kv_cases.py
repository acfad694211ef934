"""What the cases of the kv families share: head sizes, layouts, scattered slots, and slots that are to be skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tensors import Strided, spaced

SLOT_TYPES = {"i32": np.int32, "i64": np.int64}
# Bytes of one cache element, and what holds it.
CODE_TYPES = {"bf16": np.uint16, "fp8_per_token_head": np.uint8, "int8_per_token_head": np.int8}
# Elements a program takes: cases with one token more than fit, whatever block_t is, must not depend on it.
_TILE = 2048
LAYOUTS = ("dense", "padded", "offset")


def head_sizes(axes: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes that the row is for: its largest, and masked ones; without alignment odd ones too."""
    most = axes["most_head_dim"]
    masked = {64: (48,), 128: (80, 96), 256: (192,), 512: (320,)}[most]
    return (most, *masked) if axes["alignment"] == 16 else (most, most - 7, 72)


def full_block(axes: Mapping[str, Any]) -> int:
    """Tokens of one program."""
    return _TILE // axes["most_head_dim"]


def place(values: NDArray[Any], filler: Any, axes: Mapping[str, Any], layout: str) -> Strided:
    """A tensor whose dimensions but the last are strided as a caller's layout may have them, in steps of the alignment.

    dense: nothing between the rows.  padded: behind each row and each token.  offset: that, and off the start.
    """
    step = max(1, axes["alignment"] // values.itemsize)
    gap = 0 if layout == "dense" else step
    lead = step if layout == "offset" else 0
    return spaced(values, values.dtype.type(filler), lead=lead, gaps=(2 * gap, gap), tail=3 * step)


def place_scales(values: NDArray[np.float32], layout: str) -> Strided:
    """Scales [capacity, kv_heads], FP32, of any alignment; NaN lies between them."""
    if layout == "dense":
        return spaced(values, np.float32(np.nan), tail=5)
    return spaced(values, np.float32(np.nan), lead=1, gaps=(3, 2), tail=5)


def scattered_slots(rng: np.random.Generator, count: int, capacity: int) -> NDArray[np.int64]:
    """Different slots, the first and the last among them where there are two."""
    between = 1 + rng.permutation(capacity - 2)
    return np.array([capacity - 1, 0, *between], np.int64)[:count]


def with_skipped(slots: NDArray[np.int64], capacity: int, slot_dtype: str) -> NDArray[np.int64]:
    """The same with every second one below 0 or behind the cache: padding, the ends, and the type's limits."""
    limits = np.iinfo(SLOT_TYPES[slot_dtype])
    wrong = [-1, capacity, -7, limits.max, limits.min, capacity + 1]
    # Their low halves alone would be slots.
    wrong += [2**32 + 1, -(2**32) + 1] if slot_dtype == "i64" else []
    out = slots.copy()
    places = np.arange(1, len(slots), 2)
    out[places] = np.resize(np.array(wrong, np.int64), len(places))
    return out


def stored_tokens(slots: NDArray[np.integer], capacity: int) -> list[tuple[int, int]]:
    """(token, slot) of each token that is not skipped."""
    return [(token, int(slot)) for token, slot in enumerate(slots) if 0 <= slot < capacity]
