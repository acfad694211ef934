"""Storing K and V rows into their slots: cases, and the reference in integers (kv_rows says what it computes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kv_cases
from .kv_cases import Shape
from .kv_rows import store_row
from .number_formats import NAN_BF16, e4m3fn_values, to_bf16
from .tensors import Case

_LARGEST, _INFINITY, _NAN, _NEGATIVE = 0x7F7F, 0x7F80, 0x7FC0, 0x8000


def _ordinary(rng: np.random.Generator, size: tuple[int, int, int]) -> NDArray[np.uint16]:
    return to_bf16(rng.standard_normal(size))


def _any_number(rng: np.random.Generator, size: tuple[int, int, int]) -> NDArray[np.uint16]:
    """Of every magnitude that BF16 has, a row's within 12 binades of its largest, subnormal ones among them."""
    top = rng.integers(0, 255, size[:2])[..., None]
    exponent = np.clip(top - rng.integers(0, 12, size), 0, 254)
    sign, mantissa = rng.integers(0, 2, size), rng.integers(0, 128, size)
    return (sign << 15 | exponent << 7 | mantissa).astype(np.uint16)


def _limits(_rng: np.random.Generator, size: tuple[int, int, int]) -> NDArray[np.uint16]:
    """Zeros of both signs, subnormal numbers, the floor of a row's magnitude, the largest numbers, infinities, NaN."""
    floors = to_bf16(np.array([448.0, 127.0]) * 2.0**-126).tolist()
    rows = [
        [0],
        [0, _NEGATIVE],
        [1, _NEGATIVE | 1, 2, 3, 0],
        [0x7F, _NEGATIVE | 0x7F, 1, 0x40],
        *([floor + step, 1, _NEGATIVE | 0x80, floor >> 1] for floor in floors for step in (-1, 0, 1)),
        [_LARGEST, _NEGATIVE | _LARGEST, 0x7F00, 0x3F80, 0x7000],
        [_INFINITY, 0x3F80, _NEGATIVE | _INFINITY, _LARGEST, 0],
        [_NAN, 0x3F80, _NEGATIVE | _NAN, 0x4000, NAN_BF16, _INFINITY | 1],
        [_NAN],
        [_NAN, _INFINITY, 0xFF80, 1],
    ]
    return _cycled(rows, size)


def _ties(_rng: np.random.Generator, size: tuple[int, int, int]) -> NDArray[np.uint16]:
    """At a scale of exactly 1 for either format: every code's value, what lies half-way between two, and beside it."""
    positive = e4m3fn_values()[:0x7F]
    halves = to_bf16((positive[1:] + positive[:-1]) / 2)
    fp8 = np.concatenate([to_bf16(positive), halves, halves - 1, halves + 1])
    int8 = to_bf16(np.concatenate([np.arange(127), np.arange(127) + 0.5, [0.25, 126.6]]))
    rows = []
    for top, numbers in ((448.0, fp8), (127.0, int8)):
        signed = np.concatenate([numbers, numbers | _NEGATIVE])
        largest, per_row = to_bf16(np.array([top])), size[2] - 1
        rows += [[*largest, *signed[at : at + per_row]] for at in range(0, len(signed), per_row)]
    return _cycled(rows, size)


def _cycled(rows: list[list[int]], size: tuple[int, int, int]) -> NDArray[np.uint16]:
    """Each row's numbers repeated to its width, row after row."""
    wide = np.array([np.resize(np.array(row), size[2]) for row in rows], np.uint16)
    return np.resize(wide, size)


_SHAPES = (
    Shape("a few tokens of three heads", _ordinary, 5, 3),
    Shape("one token more than a program takes", _ordinary, 0, 1, head_dim=1, layout="padded"),
    Shape("padding and slots out of range", _ordinary, 17, 2, head_dim=1, layout="offset", skipped=True),
    Shape("limits of the formats", _limits, 15, 1, layout="padded"),
    Shape("ties", _ties, 0, 2, layout="offset"),
    Shape("numbers of any magnitude", _any_number, 8, 2, head_dim=2, layout="padded"),
    Shape("no token that has a slot", _ordinary, 2, 1, skipped=True),
)


def cases(axes: Mapping[str, Any], every: bool) -> list[Case]:
    """Calls for a problem; with `every`, more token counts, head sizes and layouts besides."""
    shapes = _SHAPES + (kv_cases.every_size(_any_number) if every else ())
    return [_case(kv_cases.call(axes, shape, number)) for number, shape in enumerate(shapes)]


def _case(call: kv_cases.Call) -> Case:
    """New rows, and caches full of others, which must stay where no token is stored."""
    layout = call.shape.layout
    tensors = {name: call.place(call.shape.numbers(call.rng, call.new), NAN_BF16) for name in "kv"}
    outputs = []
    for name in "kv":
        tensors[f"{name}_cache"] = call.place(call.random_rows(), 0x55)
        outputs.append(f"{name}_cache")
        if call.scaled:
            tensors[f"{name}_scale"] = kv_cases.place_scales(np.full(call.cache[:2], np.nan, np.float32), layout)
            outputs.append(f"{name}_scale")
    return call.case(tensors, tuple(outputs))


def expected(case: Case) -> dict[str, NDArray[Any]]:
    """The caches and scales as bits: what they held, but for the rows that were stored."""
    out: dict[str, NDArray[Any]] = {}
    kv_format = case.facts["kv_format"]
    for name in "kv":
        rows = case.tensors[name].view
        cache = case.tensors[f"{name}_cache"].view
        bits = cache.view(f"u{cache.itemsize}").copy()
        out[f"{name}_cache"] = bits
        scales = None
        if kv_format != "bf16":
            scales = out[f"{name}_scale"] = case.tensors[f"{name}_scale"].view.view(np.uint32).copy()
        for token, slot in kv_cases.stored_tokens(case.tensors["slots"].view, len(bits)):
            for head in range(rows.shape[1]):
                if scales is None:
                    bits[slot, head] = rows[token, head]
                else:
                    bits[slot, head], scales[slot, head] = store_row(rows[token, head], kv_format)
    return out
