"""What the cases of the kv families share: shapes of calls, head sizes, layouts, slots, and slots to be skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tensors import Case, Strided, dense, spaced

SLOT_TYPES = {"i32": np.int32, "i64": np.int64}
# Bytes of one cache element, and what holds it.
CODE_TYPES = {"bf16": np.uint16, "fp8_per_token_head": np.uint8, "int8_per_token_head": np.int8}
# Elements a program takes: cases with one token more than fit, whatever block_t is, must not depend on it.
_TILE = 2048
LAYOUTS = ("dense", "padded", "offset")


@dataclass(frozen=True)
class Shape:
    """What a case varies.  numbers: makes what the family's rows are about, from a generator and a size.

    tokens: 0 stands for one more than a program takes.  head_dim: which of the row's sizes.  repeated: a slot is listed
    more than once.  skipped: whether every second slot is none.
    """

    name: str
    numbers: Callable[..., NDArray[Any]]
    tokens: int
    kv_heads: int
    head_dim: int = 0
    layout: str = "dense"
    repeated: bool = False
    skipped: bool = False


@dataclass(frozen=True)
class Call:
    """A call without its rows: sizes, slots, and the generator to go on with."""

    shape: Shape
    axes: Mapping[str, Any]
    rng: np.random.Generator
    head_dim: int
    slots: NDArray[np.int64]

    @property
    def new(self) -> tuple[int, int, int]:
        """[tokens, kv_heads, head_dim]."""
        return len(self.slots), self.shape.kv_heads, self.head_dim

    @property
    def cache(self) -> tuple[int, int, int]:
        """[capacity, kv_heads, head_dim]."""
        return _capacity(len(self.slots)), self.shape.kv_heads, self.head_dim

    @property
    def scaled(self) -> bool:
        """Whether cache rows have scales."""
        return self.axes["kv_format"] != "bf16"

    def place(self, values: NDArray[Any], filler: Any) -> Strided:
        """A tensor in the case's layout: its dimensions but the last are strided in steps of the alignment."""
        return place(values, filler, self.axes, self.shape.layout)

    def random_rows(self) -> NDArray[Any]:
        """Cache rows of any bits."""
        held = CODE_TYPES[self.axes["kv_format"]]
        return self.rng.integers(0, 256, (*self.cache, np.dtype(held).itemsize), np.uint8).view(held)[..., 0]

    def case(self, tensors: Mapping[str, Strided], outputs: tuple[str, ...]) -> Case:
        """The case of these tensors and the slots."""
        slots = dense(self.slots.astype(SLOT_TYPES[self.axes["slot_dtype"]]))
        dims = {"tokens": len(self.slots), "kv_heads": self.shape.kv_heads}
        return Case(
            self.shape.name, {**tensors, "slots": slots}, {}, dims, outputs, {"kv_format": self.axes["kv_format"]}
        )


def every_size(numbers: Callable[..., NDArray[Any]]) -> tuple[Shape, ...]:
    """Token counts, head sizes and layouts, each with each."""
    return tuple(
        Shape(f"{tokens} tokens, size {size}, {layout}", numbers, tokens, 2, head_dim=size, layout=layout)
        for tokens in (1, 2, 33)
        for size in range(3)
        for layout in LAYOUTS
    )


def call(axes: Mapping[str, Any], shape: Shape, number: int) -> Call:
    """A shape's call for a problem; `number`, the case's, seeds the generator."""
    sizes = head_sizes(axes)
    head_dim = sizes[shape.head_dim % len(sizes)]
    tokens = shape.tokens or full_block(axes) + 1
    rng = np.random.default_rng([number, head_dim])
    slots = scattered_slots(rng, tokens, _capacity(tokens))
    if shape.repeated:
        slots = slots[rng.integers(0, 3, tokens)]
    if shape.skipped:
        slots = with_skipped(slots, _capacity(tokens), axes["slot_dtype"])
        slots[0] = -1 if tokens == 2 else slots[0]
    return Call(shape, axes, rng, head_dim, slots)


def _capacity(tokens: int) -> int:
    """Slots of a cache: more than are listed."""
    return tokens + 4


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
