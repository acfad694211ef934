"""Cases of conversions between formats."""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .case import E4M3, E5M2, Case, bf16_codes


def conversion_cases(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    n = 700

    def f32(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    conversions = [
        ("f32_f16", f32(n), np.float16),
        ("f16_f32", f32(n).astype(np.float16), np.float32),
        ("f32_i32", f32(n) * 1000, np.int32),
        ("f32_i8", f32(n) * 30, np.int8),
        ("i32_f32", rng.integers(-(2**31), 2**31, n).astype(np.int32), np.float32),
        ("u32_f32", rng.integers(0, 2**32, n).astype(np.uint32), np.float32),
        ("i64_f32", rng.integers(-(2**62), 2**62, n), np.float32),
        ("i64_f64", rng.integers(-(2**62), 2**62, n), np.float64),
        ("f64_i64", f32(n).astype(np.float64) * 1e12, np.int64),
        ("u8_f16", rng.integers(0, 256, n).astype(np.uint8), np.float16),
        ("i16_i64", rng.integers(-30000, 30000, n).astype(np.int16), np.int64),
    ]
    for name, x, dtype in conversions:
        arrays = {"x": x, "out": np.zeros(n, dtype)}
        expected = {"out": x.astype(dtype)}
        cases.append(Case(f"convert_{name}", k.convert, arrays, expected, {"n": n}, {}, {"BLOCK": 256}, (3,)))
    x = f32(n)
    arrays = {"x": x, "out": np.zeros(n, np.uint16)}
    expected = {"out": bf16_codes(x)}
    cases.append(
        Case("convert_f32_bf16", k.convert, arrays, expected, {"n": n}, {}, {"BLOCK": 256}, (3,), bf16=("out",))
    )
    finite = np.array([c for c in range(256) if c & 0x7F != 0x7F], np.uint8)
    for form, table in (("e4nv", E4M3), ("e5", E5M2)):
        codes = finite if form == "e4nv" else np.array([c for c in range(256) if c & 0x7C != 0x7C], np.uint8)
        for dtype in (np.float32, np.float16):
            cases.append(
                Case(
                    f"convert_{form}_{np.dtype(dtype).name}",
                    k.convert_fp8,
                    {"x": codes, "out": np.zeros(len(codes), dtype)},
                    {"out": table[codes].astype(dtype)},
                    {"n": len(codes)},
                    {},
                    {"BLOCK": 256, "FORM": form},
                )
            )
        values = table[codes].astype(np.float32)
        cases.append(
            Case(
                f"narrow_{form}",
                k.narrow_fp8,
                {"x": values, "out": np.zeros(len(codes), np.uint8)},
                {"out": codes},
                {"n": len(codes)},
                {},
                {"BLOCK": 256, "FORM": form},
            )
        )
    x, y = f32(n).astype(np.float16), f32(n).astype(np.float16)
    a, b = x.astype(np.float64), y.astype(np.float64)
    cases.append(
        Case(
            "half_math",
            k.half_math,
            {"x": x, "y": y, "out": np.zeros(n, np.float16)},
            {"out": (a * b + a - b) * np.maximum(a, b) + np.minimum(a, b)},
            {"n": n},
            {},
            {"BLOCK": 512},
            (2,),
            4,
            1e-2,
        )
    )
    return cases
