"""Reading scattered cache rows and nothing else: what a decode kernel on page-size-1 slots cannot beat.

A Triton kernel, compiled by the Triton of the machine, combines every 32-bit word of the listed rows and stores one word
a program.  The best of several launches counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from gpu import Inputs

_BLOCKS, _WARPS, _PROGRAMS = (32, 64, 128), (2, 4), (132 * 2, 132 * 4, 132 * 8)


@triton.jit
def _gather(k, v, indices, out, keys, stride_slot, stride_head, WORDS: tl.constexpr, BLOCK_N: tl.constexpr):
    head, request, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    per_split = tl.cdiv(tl.cdiv(keys, tl.num_programs(2)), BLOCK_N) * BLOCK_N
    start = split * per_split
    end = tl.minimum(start + per_split, keys)
    words = head * stride_head + tl.arange(0, WORDS)
    seen = tl.zeros([BLOCK_N, WORDS], tl.int32)
    for first in tl.range(start, end, BLOCK_N):
        listed = request * keys + tl.minimum(first + tl.arange(0, BLOCK_N), end - 1)
        rows = tl.load(indices + listed).to(tl.int64)[:, None] * stride_slot + words[None, :]
        seen ^= tl.load(k + rows) ^ tl.load(v + rows)
    program = (split * tl.num_programs(1) + request) * tl.num_programs(0) + head
    tl.store(out + program, tl.xor_sum(tl.xor_sum(seen, 1), 0))


def gathers(inputs: Inputs) -> dict[str, Callable[[int], None]]:
    """Calls that read the rows of a decode call, by the launch's name; each takes a turn, and with it a set of slots."""
    shape = inputs.shape
    k, v = (inputs.caches[name].view(torch.int32) for name in "kv")
    out = torch.empty(1 << 16, device="cuda", dtype=torch.int32)
    found: dict[str, Callable[[int], None]] = {}
    for block_n, warps, programs in itertools.product(_BLOCKS, _WARPS, _PROGRAMS):
        splits = max(1, min(programs // (shape.batch * shape.kv_heads), -(-shape.keys // block_n)))
        grid = (shape.kv_heads, shape.batch, splits)

        def call(turn: int, grid: Any = grid, block_n: int = block_n, warps: int = warps) -> None:
            indices = inputs.copies[turn % len(inputs.copies)]
            _gather[grid](
                k, v, indices, out, shape.keys, k.stride(0), k.stride(1), k.shape[2], block_n, num_warps=warps
            )  # fmt: skip

        found[f"{block_n}/{warps}/{splits}"] = call
    return found
