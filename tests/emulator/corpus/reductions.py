"""Cases of reductions, scans, sorting and other movement within a tile."""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .case import Case


def reduction_cases(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []

    def f32(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    for dtype, tolerance in ((np.float32, 1e-6), (np.float16, 2e-3)):
        x = f32(5, 300).astype(dtype)
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        cases.append(
            Case(
                f"softmax_{np.dtype(dtype).name}",
                k.softmax,
                {"x": x, "out": np.zeros((5, 300), dtype)},
                {"out": e / e.sum(1, keepdims=True)},
                {"stride": 300, "cols": 300},
                {},
                {"BLOCK": 512},
                (5,),
                4,
                tolerance,
            )
        )
    x, w, b = f32(4, 200), f32(200), f32(200)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    cases.append(
        Case(
            "layer_norm",
            k.layer_norm,
            {"x": x, "weight": w, "bias": b, "out": np.zeros((4, 200), np.float32)},
            {"out": normal * w + b},
            {"stride": 200, "cols": 200, "eps": 1e-5},
            {"eps": "fp32"},
            {"BLOCK": 256},
            (4,),
            4,
            1e-5,
        )
    )
    rms = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6)
    cases.append(
        Case(
            "rms_norm_loop",
            k.rms_norm_loop,
            {"x": x, "weight": w, "out": np.zeros((4, 200), np.float32)},
            {"out": rms * w},
            {"cols": 200, "eps": 1e-6},
            {"eps": "fp32"},
            {"BLOCK": 64},
            (4,),
            2,
            1e-5,
        )
    )
    for dtype in (np.float32, np.int32):
        x = (f32(16, 64) * 100).astype(dtype)
        cases.append(
            Case(
                f"reduce_rows_{np.dtype(dtype).name}",
                k.reduce_rows,
                {"x": x, "sums": np.zeros(16, dtype), "tops": np.zeros(16, dtype), "places": np.zeros(16, np.int32)},
                {"sums": x.sum(1, dtype=np.float64), "tops": x.max(1), "places": x.argmax(1)},
                constants={"ROWS": 16, "COLS": 64},
                tolerance=1e-5 if dtype is np.float32 else 0,
            )
        )
    x = f32(64, 32)
    cases.append(
        Case(
            "reduce_columns",
            k.reduce_columns,
            {"x": x, "sums": np.zeros(32, np.float32), "lows": np.zeros(32, np.float32)},
            {"sums": x.sum(0, dtype=np.float64), "lows": x.min(0)},
            constants={"ROWS": 64, "COLS": 32},
            tolerance=1e-5,
        )
    )
    x = rng.integers(0, 2**31, 512).astype(np.int32)
    cases.append(
        Case(
            "xor_reduce",
            k.xor_reduce,
            {"x": x, "out": np.zeros(1, np.int32)},
            {"out": np.array([np.bitwise_xor.reduce(x)])},
            constants={"BLOCK": 512},
        )
    )
    for dtype in (np.int32, np.float32):
        x = (f32(8, 256) * 10).astype(dtype)
        cases.append(
            Case(
                f"cumulative_sum_{np.dtype(dtype).name}",
                k.cumulative_sum,
                {"x": x, "out": np.zeros((8, 256), dtype)},
                {"out": x.astype(np.float64).cumsum(1)},
                constants={"ROWS": 8, "COLS": 256},
                tolerance=1e-4 if dtype is np.float32 else 0,
            )
        )
    x = (1 + f32(128) * 0.01).astype(np.float32)
    cases.append(
        Case(
            "cumulative_product",
            k.cumulative_product,
            {"x": x, "out": np.zeros(128, np.float32)},
            {"out": x.astype(np.float64)[::-1].cumprod()[::-1]},
            constants={"COLS": 128},
            tolerance=1e-5,
            num_warps=2,
        )
    )
    x = f32(4, 128)
    shape = {"ROWS": 4, "COLS": 128}
    for name, kernel, result in (
        ("sort_rows", k.sort_rows, np.sort(x, 1)),
        ("flip_rows", k.flip_rows, x[:, ::-1]),
        ("transpose", k.transpose, x.T),
    ):
        cases.append(
            Case(name, kernel, {"x": x, "out": np.zeros(x.size, np.float32)}, {"out": result}, constants=shape)
        )
    x16 = f32(32, 64).astype(np.float16)
    cases.append(
        Case(
            "transpose_f16",
            k.transpose,
            {"x": x16, "out": np.zeros(x16.size, np.float16)},
            {"out": x16.T},
            constants={"ROWS": 32, "COLS": 64},
        )
    )
    return cases
