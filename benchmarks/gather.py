"""Reading scattered cache rows and nothing else: the floor of any decode kernel on page-size-1 slots.

A Triton kernel, compiled by the Triton of the machine, combines every 32-bit word of the listed rows, and their scales,
by exclusive or, and stores one word a program.  The best of several launches counts.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from gpu import Inputs, Shape, Timed, said

BLOCKS, WARPS, STAGES = (32, 64), (2, 4), (1, 3, 4)
PROGRAMS_A_PROCESSOR = (4, 8, 16)
_TURNS, _TRIES = 4, 3


class Launch(NamedTuple):
    """How the rows are read.  block_n: rows at once; splits: programs a (request, KV head)."""

    block_n: int
    num_warps: int
    num_stages: int
    splits: int


class Floor(NamedTuple):
    """The fastest launch; its call takes a turn, and with it a set of slots."""

    launch: Launch
    call: Callable[[int], Any]


@triton.jit
def _gather(
    k,
    v,
    k_scale,
    v_scale,
    indices,
    out,
    keys,
    stride_slot,
    stride_head,
    scale_stride_slot,
    scale_stride_head,
    SCALED: tl.constexpr,
    WORDS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    head, request, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    split_keys = tl.cdiv(tl.cdiv(keys, tl.num_programs(2)), BLOCK_N) * BLOCK_N
    start = split * split_keys
    end = tl.minimum(start + split_keys, keys)
    words = head * stride_head + tl.arange(0, WORDS)
    listed = indices + request * keys + tl.arange(0, BLOCK_N)
    seen = tl.zeros([BLOCK_N, WORDS], tl.int32)
    seen_scales = tl.zeros([BLOCK_N], tl.int32)
    for first in tl.range(start, end, BLOCK_N, num_stages=STAGES):
        slots = tl.load(listed + first).to(tl.int64)
        rows = slots[:, None] * stride_slot + words[None, :]
        seen ^= tl.load(k + rows) ^ tl.load(v + rows)
        if SCALED:
            scales = slots * scale_stride_slot + head * scale_stride_head
            seen_scales ^= tl.load(k_scale + scales) ^ tl.load(v_scale + scales)
    program = (split * tl.num_programs(1) + request) * tl.num_programs(0) + head
    tl.store(out + program, tl.xor_sum(tl.xor_sum(seen, 1) ^ seen_scales, 0))


def launches(shape: Shape, processors: int) -> list[Launch]:
    """What is tried, each once.  Raises ValueError where a request's keys are no multiple of every block."""
    if any(shape.keys % block_n for block_n in BLOCKS):
        raise ValueError(f"{shape}: the gather reads whole blocks of {max(BLOCKS)} keys")
    found = {
        Launch(block_n, warps, stages, max(1, min(processors * many // pairs, shape.keys // block_n)))
        for pairs in [shape.batch * shape.kv_heads]
        for block_n, warps, stages, many in itertools.product(BLOCKS, WARPS, STAGES, PROGRAMS_A_PROCESSOR)
    }
    return sorted(found)


def call(inputs: Inputs, launch: Launch) -> Callable[[int], Any]:
    """A function that reads the rows of the turn's slots; it returns one INT32 word a program."""
    shape = inputs.shape
    k, v = (inputs.caches[name].view(torch.int32) for name in "kv")
    scaled = "k_scale" in inputs.caches
    scales = [inputs.caches[f"{name}_scale"].view(torch.int32) for name in "kv"] if scaled else [k, v]
    out = torch.empty(launch.splits * shape.batch * shape.kv_heads, device=k.device, dtype=torch.int32)
    grid = (shape.kv_heads, shape.batch, launch.splits)

    def gather(turn: int) -> Any:
        _gather[grid](
            k, v, *scales, inputs.copies[turn % len(inputs.copies)], out, shape.keys, *k.stride()[:2],
            *scales[0].stride()[:2], scaled, k.shape[2], launch.block_n, launch.num_stages, num_warps=launch.num_warps,
        )  # fmt: skip
        return out

    return gather


def floor(inputs: Inputs, *, cold: bool) -> tuple[Floor | None, str]:
    """The fastest launch on these rows, or None and why not.  cold: each turn reads other slots.

    Every launch's words are compared with PyTorch's of the same rows; a wrong one ends the search.
    """
    processors = torch.cuda.get_device_properties(inputs.q.device).multi_processor_count
    wanted = expected(inputs)
    best, least, problem = None, float("inf"), ""
    for launch in launches(inputs.shape, processors):
        gather = call(inputs, launch)
        try:
            got = folded(gather(0))
        except triton.runtime.errors.OutOfResources as error:
            problem = said(error)
            continue
        if got != wanted:
            return None, f"{launch}: the words of the rows are {got:#x}, not {wanted:#x}"
        timed = Timed(gather if cold else lambda _, gather=gather: gather(0), _TURNS)
        taken = min(timed.once() for _ in range(_TRIES))
        if taken < least:
            best, least = Floor(launch, gather), taken
    return best, problem


def expected(inputs: Inputs) -> int:
    """Exclusive or of all words of the first set's rows and scales, by PyTorch."""
    slots = inputs.copies[0].long()
    word = 0
    for rows in inputs.caches.values():
        word ^= folded(rows[slots].contiguous().view(torch.int32))
    return word


def folded(words: Any) -> int:
    """Exclusive or of all elements of an INT32 tensor."""
    words = words.reshape(-1)
    while words.numel() > 1:
        half = words.numel() // 2
        odd = words[2 * half :]
        words = torch.cat([words[:half] ^ words[half : 2 * half], odd])
    return int(words[0])
