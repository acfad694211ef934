"""One case of the corpus: a kernel, its inputs and what it must give; and the small float formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

TYPES = {
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
}


@dataclass
class Case:
    """`arrays` in the order of the kernel's pointers; `expected` maps some of them to what they must hold after."""

    name: str
    kernel: object
    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray | Callable]
    scalars: dict[str, int | float] = field(default_factory=dict)
    scalar_types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)
    grid: tuple[int, ...] = (1,)
    num_warps: int = 4
    tolerance: float = 0.0
    bf16: tuple[str, ...] = ()


def bf16_codes(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(codes: np.ndarray) -> np.ndarray:
    return (codes.astype(np.uint32) << 16).view(np.float32)


def e4m3(code: int) -> float:
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return float("nan")
    value = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -value if code & 0x80 else value


E4M3 = np.array([e4m3(code) for code in range(256)])
E5M2 = (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float64)


def _wrap(values: np.ndarray, dtype) -> np.ndarray:
    return values.astype(np.int64).astype(dtype) if np.issubdtype(dtype, np.signedinteger) else values.astype(dtype)
