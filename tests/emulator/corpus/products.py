"""Cases of matrix products."""

from __future__ import annotations

import numpy as np
import triton.language as tl

from . import kernels as k
from .case import E4M3, E5M2, Case, bf16_codes, from_bf16


def product_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for name, m, n, kk, warps in (("small", 32, 32, 32, 4), ("ragged", 40, 50, 70, 4)):
        for form in ("f16", "bf16", "i8", "f32", "f64"):
            sizes = {"m": m, "n": n, "k": kk, "lda": kk, "ldb": n, "ldc": n}
            bf16 = ()
            out = np.zeros((m, n), np.float32)
            acc = tl.float32
            if form == "i8":
                a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, kk), (kk, n)))
                exact, out, acc = a.astype(np.int64) @ b.astype(np.int64), np.zeros((m, n), np.int32), tl.int32
            else:
                a, b = (rng.standard_normal(s) for s in ((m, kk), (kk, n)))
                if form == "bf16":
                    a, b = bf16_codes(a), bf16_codes(b)
                    exact = from_bf16(a).astype(np.float64) @ from_bf16(b)
                    bf16 = ("a", "b")
                elif form == "f64":
                    exact, out, acc = a @ b, np.zeros((m, n), np.float64), tl.float64
                else:
                    a, b = (x.astype(np.float16 if form == "f16" else np.float32) for x in (a, b))
                    exact = a.astype(np.float64) @ b.astype(np.float64)
            cases.append(
                Case(
                    f"matmul_{form}_{name}",
                    k.matmul,
                    {"a": a, "b": b, "c": out},
                    {"c": exact},
                    sizes,
                    {},
                    {"BM": 32, "BN": 32, "BK": 32, "ACC": acc},
                    (-(-m // 32), -(-n // 32)),
                    warps,
                    0 if form == "i8" else 1e-4,
                    bf16,
                )
            )
    finite = np.array([c for c in range(256) if c & 0x78 != 0x78 and c & 0x7C != 0x7C], np.uint8)
    for form, table in (("e4nv", E4M3), ("e5", E5M2)):
        a, b = rng.choice(finite, (32, 64)), rng.choice(finite, (64, 32))
        cases.append(
            Case(
                f"matmul_fp8_{form}",
                k.matmul_fp8,
                {"a": a, "b": b, "c": np.zeros((32, 32), np.float32)},
                {"c": table[a] @ table[b]},
                constants={"K": 64, "BM": 32, "BN": 32, "FORM": form},
                tolerance=1e-4,
            )
        )
    return cases
