"""Cache rows of listed slots as BF16: cases, and the reference in integers (kv_rows says what it computes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kv_cases
from .kv_cases import Shape
from .kv_rows import reconstruct_row
from .number_formats import NAN_BF16
from .tensors import Case


@dataclass(frozen=True)
class _EveryCode(Shape):
    """Each row holds other codes than the one before: all 256, or BF16 numbers of every kind, zeros to NaN."""


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
    Shape("a few tokens of three heads", _ordinary, 5, 3),
    Shape("one token more than a program takes", _ties, 0, 1, head_dim=1, layout="padded"),
    Shape("padding and slots out of range", _ordinary, 17, 2, head_dim=1, layout="offset", skipped=True),
    _EveryCode("every code at a scale of 1", _one, 0, 1, layout="offset"),
    _EveryCode("every code, scales of any magnitude", _any_number, 0, 2, layout="padded"),
    Shape("slots listed again and again", _any_number, 12, 1, head_dim=2, layout="padded", repeated=True),
    Shape("no token that has a slot", _ordinary, 2, 1, skipped=True),
)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """Calls for a problem; with `every`, more token counts, head sizes and layouts besides."""
    shapes = _SHAPES + (kv_cases.every_size(_any_number) if every else ())
    return [_case(kv_cases.call(axes, shape, number)) for number, shape in enumerate(shapes)]


def _case(call: kv_cases.Call) -> Case:
    """Cache rows, and outputs full of poison, which stays where a token has no slot."""
    tensors = {}
    for name in "kv":
        rows = call.random_rows()
        if isinstance(call.shape, _EveryCode):
            rows = _every_code(rows)
        tensors[f"{name}_cache"] = call.place(rows, 0x55)
        if call.scaled:
            capacity, kv_heads, _ = call.cache
            scales = call.shape.numbers(call.rng, capacity * kv_heads).reshape(capacity, kv_heads)
            tensors[f"{name}_scale"] = kv_cases.place_scales(scales, call.shape.layout)
        tensors[f"{name}_out"] = call.place(np.full(call.new, NAN_BF16, np.uint16), NAN_BF16)
    return call.case(tensors, ("k_out", "v_out"))


def _every_code(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of all 256 codes in turn; of BF16 all upper halves, the lower ones 0, 0x80 and those of `rows` in turn."""
    if rows.itemsize == 1:
        return np.resize(np.arange(256, dtype=np.uint8), rows.shape).view(rows.dtype)
    at = np.arange(rows.size).reshape(rows.shape)
    lower = np.choose(at // 256 % 3, (0, 0x80, rows & 0xFF))
    return (at % 256 << 8 | lower).astype(rows.dtype)


def expected(case: Case) -> dict[str, NDArray[Any]]:
    """The outputs as bits: what they held, but for the rows of tokens that have a slot."""
    out: dict[str, NDArray[Any]] = {}
    for name in "kv":
        cache = case.tensors[f"{name}_cache"].view
        bits = out[f"{name}_out"] = case.tensors[f"{name}_out"].view.copy()
        tokens = kv_cases.stored_tokens(case.tensors["slots"].view, len(cache))
        if case.facts["kv_format"] == "bf16":
            for token, slot in tokens:
                bits[token] = cache[slot]
            continue
        codes, scales = cache.view(np.uint8), case.tensors[f"{name}_scale"].view.view(np.uint32)
        for token, slot in tokens:
            for head in range(codes.shape[1]):
                row = reconstruct_row(codes[slot, head], int(scales[slot, head]), case.facts["kv_format"])
                bits[token, head] = row
    return out
