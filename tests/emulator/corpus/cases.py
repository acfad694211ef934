"""Inputs and expected outputs of the corpus kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from . import kernels as k

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


def make_cases() -> list[Case]:
    rng = np.random.default_rng(2024)
    cases: list[Case] = []
    n = 700
    f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731

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
    from math import erf

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
    cases += _products(rng)
    return cases + _others(rng)


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


def _products(rng) -> list[Case]:
    cases = []
    for name, m, n, kk, warps in (("small", 32, 32, 32, 4), ("ragged", 40, 50, 70, 4)):
        for form in ("f16", "bf16", "i8", "f32", "f64"):
            sizes = {"m": m, "n": n, "k": kk, "lda": kk, "ldb": n, "ldc": n}
            bf16 = ()
            out = np.zeros((m, n), np.float32)
            import triton.language as tl

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


def _others(rng) -> list[Case]:
    cases = []
    f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
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
    bags = np.stack([table[indices[a:b]].astype(np.float64).sum(0) for a, b in zip(offsets, offsets[1:], strict=False)])
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
