"""Cases of gathers, scatters, atomics and random numbers."""

from __future__ import annotations

import numpy as np

from . import kernels as k
from .case import Case


def philox(count: int, seed: int) -> np.ndarray:
    """tl.randint: the first word of Philox 4×32-10 with the element's number as counter."""
    c = [np.arange(count, dtype=np.uint32), *(np.zeros(count, np.uint32) for _ in range(3))]
    key = [np.uint32(seed), np.uint32(0)]
    with np.errstate(over="ignore"):
        for _ in range(10):
            p, q = (np.uint64(m) * c[i].astype(np.uint64) for m, i in ((0xD2511F53, 0), (0xCD9E8D57, 2)))
            c = [
                (q >> np.uint64(32)).astype(np.uint32) ^ c[1] ^ key[0],
                q.astype(np.uint32),
                (p >> np.uint64(32)).astype(np.uint32) ^ c[3] ^ key[1],
                p.astype(np.uint32),
            ]
            key = [key[0] + np.uint32(0x9E3779B9), key[1] + np.uint32(0xBB67AE85)]
    return c[0].view(np.int32)


def memory_cases(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    n = 700

    def f32(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    x, indices = f32(20, 96), rng.permutation(20)[:9].astype(np.int32)
    cases.append(
        Case(
            "gather_rows",
            k.gather_rows,
            {"x": x, "indices": indices, "out": np.zeros((9, 96), np.float32)},
            {"out": x[indices]},
            {"cols": 96},
            {},
            {"BLOCK": 128},
            (9,),
            2,
        )
    )
    x, places = f32(n), rng.permutation(n).astype(np.int64)
    scattered = np.zeros(n, np.float32)
    scattered[places] = x
    cases.append(
        Case(
            "scatter_elements",
            k.scatter_elements,
            {"x": x, "indices": places, "out": np.zeros(n, np.float32)},
            {"out": scattered},
            {"n": n},
            {},
            {"BLOCK": 256},
            (3,),
        )
    )
    x, lanes = f32(16, 32), rng.integers(0, 32, (16, 32)).astype(np.int32)
    cases.append(
        Case(
            "gather_lanes",
            k.gather_lanes,
            {"x": x, "indices": lanes, "out": np.zeros((16, 32), np.float32)},
            {"out": np.take_along_axis(x, lanes, 1)},
            constants={"ROWS": 16, "COLS": 32},
        )
    )
    bins = rng.integers(0, 32, 1024).astype(np.int32)
    cases.append(
        Case(
            "histogram",
            k.histogram,
            {"x": bins, "out": np.zeros(32, np.int32)},
            {"out": np.bincount(bins, minlength=32)},
            constants={"BLOCK": 1024, "BINS": 32},
        )
    )
    cases.append(
        Case(
            "atomic_count",
            k.atomic_count,
            {"x": bins, "out": np.zeros(32, np.int32)},
            {"out": np.bincount(bins, minlength=32)},
            {"n": 1024},
            {},
            {"BLOCK": 256},
            (4,),
        )
    )
    x = rng.integers(-1000, 1000, n).astype(np.int32)
    at = np.arange(n) % 8
    groups = [x[at == place] for place in range(8)]
    cases.append(
        Case(
            "atomic_mixture",
            k.atomic_mixture,
            {
                "x": x,
                "sums": np.zeros(8, np.float32),
                "tops": np.full(8, -(2**31), np.int32),
                "lows": np.full(8, 2**31 - 1, np.int32),
                "bits": np.zeros(8, np.int32),
            },
            {
                "sums": np.array([g.sum() for g in groups]),
                "tops": np.array([g.max() for g in groups]),
                "lows": np.array([g.min() for g in groups]),
                "bits": np.array([np.bitwise_or.reduce(g) for g in groups]),
            },
            {"n": n},
            {},
            {"BLOCK": 256},
            (3,),
        )
    )
    cases.append(
        Case(
            "atomic_ticket",
            k.atomic_ticket,
            {"counter": np.zeros(1, np.int32), "out": np.full(7, -1, np.int32)},
            {"counter": np.array([7]), "out": lambda got: sorted(got) == list(range(7))},
            grid=(7,),
            num_warps=1,
        )
    )
    x = (rng.integers(-8, 8, 512) / 4).astype(np.float16)
    cases.append(
        Case(
            "atomic_half",
            k.atomic_half,
            {"x": x, "out": np.zeros(64, np.float16)},
            {"out": x.reshape(8, 64).sum(0)},
            {"n": 512},
            {},
            {"BLOCK": 256},
            (2,),
            2,
            1e-3,
        )
    )
    cases.append(
        Case(
            "compare_and_swap",
            k.compare_and_swap,
            {"lock": np.array([0, -1], np.int32), "out": np.zeros(16, np.int32)},
            {"out": lambda got: set(got[:8]) <= set(range(9)) and sorted([*got[8:]])[0] == -1},
            constants={"BLOCK": 8},
            grid=(8,),
            num_warps=1,
        )
    )
    x = f32(n)
    cases.append(
        Case(
            "dropout",
            k.dropout,
            {"x": x, "out": np.zeros(n, np.float32)},
            {"out": lambda got: 0.15 < (got == 0).mean() < 0.35 and np.allclose(got[got != 0], (x / 0.75)[got != 0])},
            {"n": n, "p": 0.25, "seed": 123},
            {"p": "fp32"},
            {"BLOCK": 256},
            (3,),
        )
    )
    cases.append(
        Case(
            "random_integers",
            k.random_integers,
            {"out": np.zeros(512, np.int32)},
            {"out": philox(512, 77)},
            {"seed": 77},
            {},
            {"BLOCK": 256},
            (2,),
        )
    )
    return cases
