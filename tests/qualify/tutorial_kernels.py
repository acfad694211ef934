"""Kernels as people write them after Triton's tutorials, compiled for gfx1201 without any of assay's specs."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


@triton.jit
def fused_softmax(out, x, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    """Each program takes every so many rows, all columns at once."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        scores = tl.load(x + row * x_stride + at, mask=at < columns, other=float("-inf"))
        weights = tl.exp(scores - tl.max(scores, axis=0))
        tl.store(out + row * out_stride + at, weights / tl.sum(weights, axis=0), mask=at < columns)


@triton.jit
def grouped_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """c = a @ b, row-major; programs of GROUP rows of tiles go down the columns together."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = program // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    within = program % (GROUP * tiles_n)
    rows = (first + within % height) * BM + tl.arange(0, BM)
    columns = within // height * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + depth, mask=(rows < m)[:, None] & (depth < k), other=0.0)
        right = tl.load(b + depth[:, None] * n + columns, mask=(depth < k)[:, None] & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total.to(tl.float16), mask=(rows < m)[:, None] & (columns < n))


@triton.jit
def all_at_one_place(out):
    tl.store(out, tl.program_id(0))


@triton.jit
def scale_codes(x, out, factor, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at).to(tl.float32) * factor).to(tl.bfloat16))


def compile_for(kernel, signature, constants=None, *, arch="gfx1201", num_warps=4):
    """What triton.compile gives: `.asm["hsaco"]`, and LDS bytes in `.metadata.shared`."""
    constants = constants or {}
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, types, places, {})
    return triton.compile(source, target=GPUTarget("hip", arch, 32), options={"num_warps": num_warps})
