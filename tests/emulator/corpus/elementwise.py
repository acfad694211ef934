"""Cases of arithmetic on elements."""

from __future__ import annotations

from math import erf

import numpy as np

from . import kernels as k
from .case import Case


def elementwise_cases(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    n = 700

    def f32(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    for dtype in (np.float32, np.float16, np.int32, np.int64, np.int8):
        if np.issubdtype(dtype, np.floating):
            x, y = f32(n).astype(dtype), f32(n).astype(dtype)
        else:
            x, y = (rng.integers(-60, 60, n).astype(dtype) for _ in "xy")
        cases.append(
            Case(
                f"add_{np.dtype(dtype).name}",
                k.add,
                {"x": x, "y": y, "out": np.zeros(n, dtype)},
                {"out": x + y},
                {"n": n},
                constants={"BLOCK": 256},
                grid=(3,),
            )
        )
    x = f32(n)
    cases.append(
        Case(
            "affine",
            k.affine,
            {"x": x, "out": np.zeros(n, np.float16)},
            {"out": (x.astype(np.float64) * 1.7 + 0.3)},
            {"n": n, "a": 1.7, "b": 0.3},
            {"a": "fp32", "b": "fp32"},
            {"BLOCK": 512},
            (2,),
            2,
            2e-3,
        )
    )
    x = f32(n)
    wide = x.astype(np.float64)
    functions = (
        np.exp(wide)
        + np.log(np.abs(wide) + 1)
        + np.sin(wide) * np.cos(wide)
        + np.sqrt(np.abs(wide))
        + 1 / np.sqrt(np.abs(wide) + 0.5)
    )
    functions += np.floor(x) + np.ceil(x * np.float32(3)) + np.array([erf(v) for v in wide])
    functions += np.exp2(wide) + np.log2(np.abs(wide) + 2)
    base = {"x": x, "out": np.zeros(n, np.float32)}
    cases.append(
        Case(
            "float_functions",
            k.float_functions,
            base,
            {"out": functions},
            {"n": n},
            {},
            {"BLOCK": 256},
            (3,),
            4,
            1e-5,
        )
    )
    x, y = f32(n), f32(n)
    cases.append(
        Case(
            "divisions",
            k.divisions,
            {"x": x, "y": y, "out": np.zeros(n, np.float32)},
            {"out": x.astype(np.float64) / y + y.astype(np.float64) / x + np.sqrt(np.abs(x.astype(np.float64)))},
            {"n": n},
            {},
            {"BLOCK": 256},
            (3,),
            4,
            2e-6,
        )
    )
    for dtype in (np.int32, np.int64, np.int16):
        x, y = rng.integers(-30000, 30000, n).astype(dtype), rng.integers(1, 300, n).astype(dtype)
        y[::3] *= -1
        a, b = x.astype(np.int64), y.astype(np.int64)
        quotient = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
        r = quotient + (a - quotient * b) * 3 + (a ^ b) - (a & b) + (a | b) + (a << (b & 7)) + (a >> (b & 3))
        r = r + np.minimum(a, b) + np.maximum(a, b) * np.abs(a) + np.where(a > b, a, -b) + ~a
        cases.append(
            Case(
                f"integer_functions_{np.dtype(dtype).name}",
                k.integer_functions,
                {"x": x, "y": y, "out": np.zeros(n, dtype)},
                {"out": r.astype(dtype)},
                {"n": n},
                {},
                {"BLOCK": 256},
                (3,),
            )
        )
    for dtype in (np.uint32, np.uint64, np.uint8):
        top = np.iinfo(dtype).max
        x, y = rng.integers(0, top, n, dtype, endpoint=True), rng.integers(1, top, n, dtype, endpoint=True)
        y[::2] = (y[::2] & dtype(31)) | dtype(1)
        r = x // y + x % y + x * y + (x >> (y & dtype(3))) + np.where(x > y, x, y)
        cases.append(
            Case(
                f"unsigned_functions_{np.dtype(dtype).name}",
                k.unsigned_functions,
                {"x": x, "y": y, "out": np.zeros(n, dtype)},
                {"out": r.astype(dtype)},
                {"n": n},
                {},
                {"BLOCK": 256},
                (3,),
            )
        )
    for dtype in (np.uint32, np.uint64):
        x, y = (rng.integers(0, np.iinfo(dtype).max, n, dtype) for _ in "xy")
        bits = np.dtype(dtype).itemsize * 8
        high = np.array([int(p) * int(q) >> bits for p, q in zip(x, y, strict=True)], dtype)
        arrays = {"x": x, "y": y, "out": np.zeros(n, dtype)}
        cases.append(
            Case(
                f"multiply_high_{bits}",
                k.multiply_high,
                arrays,
                {"out": high},
                {"n": n},
                {},
                {"BLOCK": 256},
                (3,),
            )
        )
    for kind, a, b in (("i32", -12345, 37), ("i64", 123456789012345, -987654)):
        values = np.array([a + p for p in range(4)], dtype=object)
        quotient = np.array([abs(v) // abs(b) * (1 if (v < 0) == (b < 0) else -1) for v in values], dtype=object)
        r = [q * 1000 + (v - q * b) for v, q in zip(values, quotient, strict=True)]
        dtype = np.int32 if kind == "i32" else np.int64
        expected = np.array(r, np.int64)[:, None] + np.arange(64)
        cases.append(
            Case(
                f"scalar_division_{kind}",
                k.scalar_division,
                {"out": np.zeros((4, 64), dtype)},
                {"out": expected.astype(dtype)},
                {"a": a, "b": b},
                {"a": kind, "b": kind},
                {"BLOCK": 64},
                (4,),
                2,
            )
        )
    return cases
