"""Elements as they lie in memory and the values they stand for, by the dtype names of `--arg`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.reference.number_formats import NAN_BF16, e4m3fn_values, from_bf16, to_bf16

_STORAGE = {
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "fp8": np.uint8,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}
# Those that lie in memory as codes of a format that numpy does not have.
CODED = ("bf16", "fp8")
_LARGEST_E4M3FN, _NAN_E4M3FN = 0x7E, 0x7F


def storage(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of one element in memory."""
    return np.dtype(_STORAGE[dtype])


def encode(dtype: str, values: NDArray[Any]) -> NDArray[Any]:
    """Values as elements: bf16 and fp8 rounded to the nearest, ties to even; fp8 beyond 448 becomes 448."""
    if dtype == "bf16":
        return np.where(np.isnan(values), np.uint16(NAN_BF16), to_bf16(values))
    if dtype == "fp8":
        return _to_e4m3fn(np.asarray(values, np.float64))
    return values.astype(storage(dtype))


def decode(dtype: str, elements: NDArray[Any]) -> NDArray[Any]:
    """The values of elements: float64 for bf16 and fp8, others as they are."""
    if dtype == "bf16":
        return from_bf16(elements)
    return e4m3fn_values()[elements] if dtype == "fp8" else elements


def _to_e4m3fn(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    magnitudes = e4m3fn_values()[: _LARGEST_E4M3FN + 1]
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    code = np.searchsorted(middles, np.abs(values))
    on_middle = np.abs(values) == np.append(middles, np.nan)[code]
    code = np.where(np.isnan(values), _NAN_E4M3FN, code + (on_middle & (code % 2 == 1)))
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
