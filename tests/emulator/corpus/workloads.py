"""Cases of whole small workloads: attention, convolution, embedding, quantisation, doubles, bit packing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import kernels as k
from .case import Case


def workload_cases(rng: np.random.Generator) -> list[Case]:
    cases = []

    def f32(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    n = 70
    q, keys, values = (f32(n, 32).astype(np.float16) for _ in "qkv")
    scores = q.astype(np.float64) @ keys.astype(np.float64).T * 0.25
    scores[np.triu_indices(n, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    cases.append(
        Case(
            "attention",
            k.attention,
            {"q": q, "k": keys, "v": values, "out": np.zeros((n, 32), np.float32)},
            {"out": weights @ values.astype(np.float64) / weights.sum(1, keepdims=True)},
            {"n": n, "scale": 0.25},
            {"scale": "fp32"},
            {"D": 32, "BM": 32, "BN": 32},
            (3,),
            4,
            2e-3,
        )
    )
    image, weight = f32(21, 17), f32(3, 3)
    padded = np.pad(image.astype(np.float64), 1)
    result = sum(padded[dy : dy + 21, dx : dx + 17] * weight[dy, dx] for dy in range(3) for dx in range(3))
    cases.append(
        Case(
            "convolution",
            k.convolution,
            {"x": image, "w": weight, "out": np.zeros((21, 17), np.float32)},
            {"out": result},
            {"height": 21, "width": 17},
            {},
            {"BLOCK": 128},
            (3,),
            4,
            1e-5,
        )
    )
    table, offsets = f32(50, 64), np.array([0, 3, 3, 11, 12], np.int32)
    indices = rng.integers(0, 50, 12).astype(np.int32)
    bags = np.stack([table[indices[a:b]].astype(np.float64).sum(0) for a, b in pairwise(offsets)])
    cases.append(
        Case(
            "embedding_bag",
            k.embedding_bag,
            {"table": table, "indices": indices, "offsets": offsets, "out": np.zeros((4, 64), np.float32)},
            {"out": bags},
            constants={"DIM": 64},
            grid=(4,),
            num_warps=1,
            tolerance=1e-6,
        )
    )
    starts = np.array([1, 6, 27, 97, 871], np.int32)

    def steps(v: int) -> int:
        count = 0
        while v != 1:
            v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
        return count

    cases.append(
        Case(
            "collatz",
            k.collatz,
            {"x": starts, "out": np.zeros(5, np.int32)},
            {"out": np.array([steps(int(v)) for v in starts])},
            {"n": 5},
            {},
            {"BLOCK": 32},
            (5,),
            1,
        )
    )
    x = f32(3, 400).astype(np.float16)
    gate, up = x[:, :200].astype(np.float64), x[:, 200:].astype(np.float64)
    cases.append(
        Case(
            "swiglu",
            k.swiglu,
            {"x": x, "out": np.zeros((3, 200), np.float16)},
            {"out": gate / (1 + np.exp(-gate)) * up},
            {"cols": 200},
            {},
            {"BLOCK": 128},
            (3, 2),
            4,
            2e-3,
        )
    )
    x = f32(4, 100)
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    ratio = x / scale
    cases.append(
        Case(
            "quantise_rows",
            k.quantise_rows,
            {"x": x, "codes": np.zeros((4, 100), np.int8), "scales": np.zeros(4, np.float32)},
            {
                "codes": lambda got: (np.abs(got.reshape(4, 100) - ratio) <= 0.5001).all(),
                "scales": scale[:, 0],
            },
            {"cols": 100},
            {},
            {"BLOCK": 128},
            (4,),
            4,
            1e-6,
        )
    )
    x, y = rng.standard_normal(300), rng.standard_normal(300)
    result = x / y + np.sqrt(np.abs(x)) + np.maximum(x, y) * np.minimum(x, y) - np.floor(x) + (x * y + x)
    cases.append(
        Case(
            "double_math",
            k.double_math,
            {"x": x, "y": y, "out": np.zeros(300)},
            {"out": result + y.astype(np.float32) + np.trunc(x)},
            {"n": 300},
            {},
            {"BLOCK": 256},
            (2,),
            4,
            1e-13,
        )
    )
    cases.append(
        Case(
            "double_sum",
            k.double_sum,
            {"x": x[:256].copy(), "out": np.zeros(1)},
            {"out": np.array([x[:256].sum()])},
            constants={"BLOCK": 256},
            tolerance=1e-13,
        )
    )
    x = f32(256)
    packed = np.packbits(x > 0, bitorder="little").view(np.int32)
    cases.append(
        Case(
            "pack_bits",
            k.pack_bits,
            {"x": x, "out": np.zeros(8, np.int32)},
            {"out": packed},
            constants={"BLOCK": 256},
        )
    )
    x, y = f32(256), f32(256)
    both = np.stack([x, y], 1)
    cases.append(
        Case(
            "interleave",
            k.interleave,
            {"x": x, "y": y, "out": np.zeros(512, np.float32)},
            {"out": both},
            constants={"BLOCK": 256},
        )
    )
    cases.append(
        Case(
            "split_complex",
            k.split_complex,
            {"x": both.copy(), "real": np.zeros(256, np.float32), "imaginary": np.zeros(256, np.float32)},
            {"real": x, "imaginary": y},
            constants={"BLOCK": 256},
        )
    )
    v = rng.integers(0, 2**32, 300).astype(np.uint32)
    digits = sum(((v >> np.uint32(4 * i)) & 15).astype(np.int64) for i in range(8))
    cases.append(
        Case(
            "digit_sum",
            k.reversed_bits_count,
            {"x": v, "out": np.zeros(300, np.int32)},
            {"out": digits},
            {"n": 300},
            {},
            {"BLOCK": 256},
            (2,),
        )
    )
    return cases
