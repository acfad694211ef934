"""Division as LLVM compiles it is IEEE division: correctly rounded, for every kind of operand."""

from __future__ import annotations

import numpy as np
import pytest

from .corpus import kernels
from .corpus.case import Case
from .corpus.running import compile_case, run_case

COUNT = 4096


def operands(dtype, rng) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of awkward numbers, ordinary ones, and random bits."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}").type
    info = np.finfo(dtype)
    awkward = [0.0, 1.0, 3.0, np.inf, np.nan, info.tiny, info.max, info.smallest_subnormal, info.tiny * 0.75, info.eps]
    awkward = np.array([sign * value for value in awkward for sign in (1, -1)], dtype)
    x, y = (rng.integers(0, np.iinfo(bits).max, COUNT, bits).view(dtype) for _ in "xy")
    pairs = len(awkward) ** 2
    x[:pairs], y[:pairs] = np.repeat(awkward, len(awkward)), np.tile(awkward, len(awkward))
    x[pairs : pairs + 500], y[pairs : pairs + 500] = rng.standard_normal((2, 500))
    return x, y


@pytest.mark.parametrize(
    ("kernel", "dtype"), [(kernels.divide_exactly, np.float32), (kernels.divide_doubles, np.float64)]
)
def test_compiled_division_is_correctly_rounded(kernel, dtype):
    x, y = operands(dtype, np.random.default_rng(17))
    with np.errstate(all="ignore"):
        expected = x / y
    case = Case(
        "division",
        kernel,
        {"x": x, "y": y, "out": np.zeros(COUNT, dtype)},
        {"out": expected},
        {"n": COUNT},
        {},
        {"BLOCK": 256},
        (COUNT // 256,),
    )
    arrays, _ = run_case(case, compile_case(case, "plain"))
    bits = f"u{np.dtype(dtype).itemsize}"
    same = (arrays["out"].view(bits) == expected.view(bits)) | (np.isnan(arrays["out"]) & np.isnan(expected))
    assert same.all(), [(x[at], y[at], arrays["out"][at], expected[at]) for at in np.flatnonzero(~same)[:5]]
