"""Cache rows of codes as BF16: cases, and the reference in integers (kv_rows says what it computes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kv_cases
from .kv_rows import reconstruct_row
from .number_formats import NAN_BF16
from .tensors import Case, dense


@dataclass(frozen=True)
class _Shape:
    """What a case varies.  scales: FP32 [rows], from a generator and a count.  head_dim: which of the row's sizes.

    tokens: 0 stands for one more than a program takes.  every_code: each row holds other codes than the one before.
    repeated: a slot is listed more than once.  skipped: whether every second slot is none.
    """

    name: str
    scales: Callable[[np.random.Generator, int], NDArray[np.float32]]
    tokens: int
    kv_heads: int
    head_dim: int = 0
    layout: str = "dense"
    every_code: bool = False
    repeated: bool = False
    skipped: bool = False


def _ordinary(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    return (10.0 ** rng.uniform(-4, -1, count)).astype(np.float32)


def _one(_rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    return np.ones(count, np.float32)


def _ties(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Of one bit more than BF16 has: the product with a power of two lies half-way between two of its numbers."""
    return ((2 * rng.integers(128, 256, count) + 1) * 2.0 ** rng.integers(-20, 4, count)).astype(np.float32)


def _any_number(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Of any magnitude, also such that a product is subnormal or infinite; some infinite, NaN or below zero."""
    bits = rng.integers(0, 0x7F800000, count, np.uint32)
    bits[::7] |= 0x80000000
    bits[3::11], bits[5::13], bits[1::9] = 0x7F800000, 0x7FC00001, 0x7F7FFFFF
    bits[2::8] = rng.integers(0, 0x02000000, len(bits[2::8]), np.uint32)
    bits[4::17] = 0
    return bits.view(np.float32)


_SHAPES = (
    _Shape("a few tokens of three heads", _ordinary, 5, 3),
    _Shape("one token more than a program takes", _ties, 0, 1, head_dim=1, layout="padded"),
    _Shape("padding and slots out of range", _ordinary, 17, 2, head_dim=1, layout="offset", skipped=True),
    _Shape("every code at a scale of 1", _one, 0, 1, layout="offset", every_code=True),
    _Shape("every code, scales of any magnitude", _any_number, 0, 2, layout="padded", every_code=True),
    _Shape("slots listed again and again", _any_number, 12, 1, head_dim=2, layout="padded", repeated=True),
    _Shape("no token that has a slot", _ordinary, 2, 1, skipped=True),
)
_EVERY = tuple(
    _Shape(f"{tokens} tokens, size {size}, {layout}", _any_number, tokens, 2, head_dim=size, layout=layout)
    for tokens in (1, 2, 33)
    for size in range(3)
    for layout in kv_cases.LAYOUTS
)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """Calls for a problem; with `every`, more token counts, head sizes and layouts besides."""
    return [_make(axes, shape, number) for number, shape in enumerate(_SHAPES + (_EVERY if every else ()))]


def _make(axes: Mapping[str, Any], shape: _Shape, number: int) -> Case:
    sizes = kv_cases.head_sizes(axes)
    head_dim = sizes[shape.head_dim % len(sizes)]
    tokens = shape.tokens or kv_cases.full_block(axes) + 1
    rng = np.random.default_rng([number, head_dim])
    capacity = tokens + 4
    slots = kv_cases.scattered_slots(rng, tokens, capacity)
    if shape.repeated:
        slots = slots[rng.integers(0, 3, tokens)]
    if shape.skipped:
        slots = kv_cases.with_skipped(slots, capacity, axes["slot_dtype"])
        slots[0] = -1 if tokens == 2 else slots[0]
    cache, new = (capacity, shape.kv_heads, head_dim), (tokens, shape.kv_heads, head_dim)
    held = kv_cases.CODE_TYPES[axes["kv_format"]]
    tensors = {}
    for name in "kv":
        rows = rng.integers(0, 256, cache, np.uint8)
        if shape.every_code:
            rows = np.resize(np.arange(256, dtype=np.uint8), cache)
        scales = shape.scales(rng, capacity * shape.kv_heads).reshape(cache[:2])
        tensors[f"{name}_cache"] = kv_cases.place(rows.view(held), 0x55, axes, shape.layout)
        tensors[f"{name}_scale"] = kv_cases.place_scales(scales, shape.layout)
        poison = np.full(new, NAN_BF16, np.uint16)
        tensors[f"{name}_out"] = kv_cases.place(poison, NAN_BF16, axes, shape.layout)
    tensors["slots"] = dense(slots.astype(kv_cases.SLOT_TYPES[axes["slot_dtype"]]))
    dims = {"tokens": tokens, "kv_heads": shape.kv_heads}
    return Case(shape.name, tensors, {}, dims, ("k_out", "v_out"), {"kv_format": axes["kv_format"]})


def expected(case: Case) -> dict[str, NDArray[Any]]:
    """The outputs as bits: what they held, but for the rows of tokens that have a slot."""
    out: dict[str, NDArray[Any]] = {}
    for name in "kv":
        cache, scales = case.tensors[f"{name}_cache"].view, case.tensors[f"{name}_scale"].view.view(np.uint32)
        codes = cache.view(np.uint8)
        bits = out[f"{name}_out"] = case.tensors[f"{name}_out"].view.copy()
        for token, slot in kv_cases.stored_tokens(case.tensors["slots"].view, len(codes)):
            for head in range(codes.shape[1]):
                row = reconstruct_row(codes[slot, head], int(scales[slot, head]), case.facts["kv_format"])
                bits[token, head] = row
    return out
