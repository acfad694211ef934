"""Small calls of the shipped prefill kernels, and what they must give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.emulator import Memory
from tests.field.calls import bf16
from tests.kernels.shipped import Shipped, place, shipped, strides

HEAD_DIM = 64
NAN_BF16 = 0x7FC1
_DIMS = {
    "q": ("token", "head"),
    "k_new": ("row", "head"),
    "v_new": ("row", "head"),
    "k_hist": ("row", "head"),
    "v_hist": ("row", "head"),
    "out": ("token", "head"),
    "lse": ("token", "head"),
}


@dataclass
class ExtendCall:
    """One call, as arrays: BF16 as 16-bit codes.  They may be views with any strides.

    window, sinks: None where the kernel has none.  out, lse: made and poisoned by `run_extend` where they are None.
    """

    q: np.ndarray
    k_new: np.ndarray
    v_new: np.ndarray
    k_hist: np.ndarray
    v_hist: np.ndarray
    q_indptr: np.ndarray
    hist_indptr: np.ndarray
    window: int | None = None
    sinks: np.ndarray | None = None
    out: np.ndarray | None = None
    lse: np.ndarray | None = None


def kernel(*, window: bool = True, sinks: bool = False) -> Shipped:
    return shipped("extend_attention", head_dim=HEAD_DIM, window=window, sinks=sinks, soft_cap=False)


def random_call(
    histories: list[int],
    chunks: list[int],
    *,
    gqa: int = 3,
    kv_heads: int = 1,
    window: int | None = 1 << 20,
    sinks: np.ndarray | None = None,
    seed: int = 0,
) -> ExtendCall:
    rng = np.random.default_rng(seed)

    def rows(count: int, heads: int) -> np.ndarray:
        return bf16(0.5 * rng.standard_normal((count, heads, HEAD_DIM)))

    tokens, keys = sum(chunks), sum(histories)
    return ExtendCall(
        q=rows(tokens, kv_heads * gqa),
        k_new=rows(tokens, kv_heads),
        v_new=rows(tokens, kv_heads),
        k_hist=rows(keys, kv_heads),
        v_hist=rows(keys, kv_heads),
        q_indptr=np.cumsum([0, *chunks]).astype(np.int32),
        hist_indptr=np.cumsum([0, *histories]).astype(np.int32),
        window=window,
        sinks=sinks,
    )


def run_extend(shipped_kernel: Shipped, call: ExtendCall) -> tuple[np.ndarray, np.ndarray]:
    """Outputs [tokens, q_heads, head_dim] as BF16 codes and LSE [tokens, q_heads], all of it in bounds."""
    tokens, q_heads, _ = call.q.shape
    kv_heads = call.k_new.shape[1]
    if call.out is None:
        call.out = np.full((tokens, q_heads, HEAD_DIM), NAN_BF16, np.uint16)
    if call.lse is None:
        call.lse = np.full((tokens, q_heads), np.nan, np.float32)
    memory = Memory()
    values = {"sm_scale": HEAD_DIM**-0.5, "gqa": q_heads // kv_heads, "window_length": call.window}
    for name in (*_DIMS, "q_indptr", "hist_indptr", "sinks"):
        if (array := getattr(call, name)) is not None:
            values[name] = place(memory, name, array, writable=name in ("out", "lse"))
    for name, dims in _DIMS.items():
        values |= strides(name, dims, getattr(call, name))
    block_m = dict(shipped_kernel.variant.candidate.launch)["block_m"]
    longest = int(np.diff(call.q_indptr).max(initial=0)) * (q_heads // kv_heads)
    shipped_kernel.launch((-(-longest // block_m), kv_heads, len(call.q_indptr) - 1), values, memory)
    return call.out, call.lse


def values_of(codes: np.ndarray) -> np.ndarray:
    return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def attention(call: ExtendCall) -> tuple[np.ndarray, np.ndarray]:
    """What `run_extend` must give, in float64, with every query's keys listed one by one."""
    q = values_of(call.q)
    out, lse = np.zeros(q.shape), np.zeros(q.shape[:2])
    group = q.shape[1] // call.k_new.shape[1]
    parts = {name: values_of(getattr(call, name)) for name in ("k_new", "v_new", "k_hist", "v_hist")}
    for request in range(len(call.q_indptr) - 1):
        before = range(*call.hist_indptr[request : request + 2])
        for token in range(*call.q_indptr[request : request + 2]):
            own = range(call.q_indptr[request], token + 1)
            seen = [("hist", row) for row in before] + [("new", row) for row in own]
            seen = seen[-call.window :] if call.window is not None else seen
            for head in range(q.shape[1]):
                keys, rows = (np.array([parts[f"{n}_{part}"][row, head // group] for part, row in seen]) for n in "kv")
                weights = np.exp(HEAD_DIM**-0.5 * (keys @ q[token, head]))
                total = weights.sum() + (0 if call.sinks is None else np.exp(np.float64(call.sinks[head])))
                out[token, head], lse[token, head] = weights @ rows / total, np.log(total)
    return out, lse


def assert_attention(shipped_kernel: Shipped, call: ExtendCall) -> None:
    out, lse = run_extend(shipped_kernel, call)
    wanted_out, wanted_lse = attention(call)
    np.testing.assert_allclose(values_of(out), wanted_out, rtol=0.02, atol=0.002)
    np.testing.assert_allclose(lse, wanted_lse, rtol=1e-4, atol=0.002)
