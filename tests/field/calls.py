"""Small calls of the shipped decode kernels, and what they must give."""

from __future__ import annotations

import numpy as np

from tests.kernels.decode_reference import DecodeCase, attention, merge, round_to_bf16
from tests.kernels.shipped import DecodeCall, Shipped, run_decode, shipped, shipped_without

# Six query heads a KV head, in blocks of eight query rows.
HEAD_DIM, GROUP = 64, 6
KINDS = {
    "bf16": {"kv_format": "bf16", "reader": "generic", "alignment": 16, "offset_bits": 64},
    "packed": {"kv_format": "fp8_per_token_head", "reader": "packed", "alignment": 16, "offset_bits": 64},
    "generic": {"kv_format": "fp8_per_token_head", "reader": "generic", "alignment": 1, "offset_bits": 64},
}
# On a gfx1201 whose target file says that nothing converts E4M3FN: what the emulator executes is the shipped source.
EMULATED = {"kv_format": "fp8_per_token_head", "reader": "emulated_e4m3", "alignment": 16, "offset_bits": 64}
CONVERSIONS = ("e4m3_conversion", "packed_e4m3_conversion")
NO_WINDOW = 1 << 20
ONE_BF16, ONE_E4M3FN = 0x3F80, 0x38


def kernel(kind: str, **axes: object) -> Shipped:
    """The kernel with a window, 64 elements a row and a group that is no power of two, unless said otherwise."""
    fixed = {"q_dtype": "bf16", "slot_dtype": "i32", "head_dim": HEAD_DIM, "block_m": 8, "window": True}
    if kind == "emulated":
        return shipped_without(CONVERSIONS, "decode_attention", **{**fixed, **EMULATED, **axes})
    return shipped("decode_attention", **{**fixed, **KINDS[kind], **axes})


def random_call(
    kind: str,
    lengths: list[int],
    splits: list[int],
    *,
    window: int = NO_WINDOW,
    kv_heads: int = 1,
    head_dim: int = HEAD_DIM,
    group: int = GROUP,
    rows: int | None = None,
    seed: int = 0,
) -> DecodeCall:
    """Scattered slots, the query at each request's last key.

    rows: queries of a request, the last at its last key and each before it one key before; None for a call without
    a dimension for them.
    """
    rng = np.random.default_rng(seed)
    slots = sum(lengths) + 3
    shape = (slots, kv_heads, head_dim)
    scales: list[np.ndarray | None] = [None, None]
    if kind == "bf16":
        caches = [bf16(0.5 * rng.standard_normal(shape)) for _ in "kv"]
    elif kind == "int8":
        caches = [rng.integers(-127, 128, shape).astype(np.int8) for _ in "kv"]
    else:
        finite = np.array([code for code in range(256) if code & 0x7F != 0x7F], np.uint8)
        caches = [rng.choice(finite, shape) for _ in "kv"]
    if kind != "bf16":
        scales = [(10.0 ** rng.uniform(-4, -2.5, shape[:2])).astype(np.float32) for _ in "kv"]
    last = np.array(lengths, np.int64) - 1
    queries = (len(lengths),) if rows is None else (len(lengths), rows)
    return DecodeCall(
        q=bf16(rng.standard_normal((*queries, kv_heads * group, head_dim))),
        k_cache=caches[0],
        v_cache=caches[1],
        k_scale=scales[0],
        v_scale=scales[1],
        indptr=np.cumsum([0, *lengths]).astype(np.int32),
        indices=rng.permutation(slots)[: sum(lengths)].astype(np.int32),
        q_positions=last if rows is None else last[:, None] - np.arange(rows - 1, -1, -1),
        num_kv_splits=np.array(splits, np.int32),
        sm_scale=head_dim**-0.5,
        window=window,
    )


def equal_scores_call(
    kind: str, lengths: list[int], window: int = NO_WINDOW, rows: int | None = None, group: int = GROUP
) -> DecodeCall:
    """q is 0, so every key weighs the same; the value of the key at position j is 1 at element j and 0 elsewhere."""
    call = random_call(kind, lengths, [1] * len(lengths), window=window, rows=rows, group=group)
    call.q[:] = 0
    call.v_cache[:] = 0
    if call.v_scale is not None:
        call.v_scale[:] = 1
    for request, length in enumerate(lengths):
        for position in range(length):
            slot = call.indices[call.indptr[request] + position]
            call.v_cache[slot, :, position] = {"bf16": ONE_BF16, "int8": 1}.get(kind, ONE_E4M3FN)
    return call


def bf16(values: np.ndarray) -> np.ndarray:
    """Nearest BF16, as codes."""
    return (round_to_bf16(values).view(np.uint32) >> 16).astype(np.uint16)


def widened(codes: np.ndarray) -> np.ndarray:
    """BF16 codes as float32."""
    return (codes.astype(np.uint32) << 16).view(np.float32)


def expected(call: DecodeCall) -> tuple[np.ndarray, np.ndarray]:
    """Whole output and LSE in float64, with the dimensions of q."""
    lengths, queries = np.diff(call.indptr), call.q.shape[:-2]
    rows = queries[1] if len(queries) == 2 else 1
    # Each query of a request as a request of its own.
    keys = [call.indices[first : first + length] for first, length in zip(call.indptr, lengths, strict=False)]
    quantised = call.k_scale is not None
    caches = [cache if quantised else widened(cache) for cache in (call.k_cache, call.v_cache)]
    out, lse = attention(
        DecodeCase(
            widened(call.q).reshape(-1, *call.q.shape[-2:]),
            caches[0],
            caches[1],
            call.k_scale,
            call.v_scale,
            np.cumsum([0, *np.repeat(lengths, rows)]),
            np.concatenate([listed for listed in keys for _ in range(rows)]),
            call.q_positions.reshape(-1),
            np.repeat(call.num_kv_splits, rows),
            call.sm_scale,
            call.window or None,
        )
    )
    return out.reshape(call.q.shape), lse.reshape(call.q.shape[:-1])


def assert_attention(kernel: Shipped, call: DecodeCall) -> None:
    """The merged splits are within the family's tolerance of float64 attention."""
    assert_close(run_decode(kernel, call), expected(call))


def assert_close(partials: tuple[np.ndarray, np.ndarray], wanted: tuple[np.ndarray, np.ndarray]) -> None:
    out, lse = merge(*partials)
    assert (np.abs(out - wanted[0]) <= 0.002 + 0.02 * np.abs(wanted[0])).all()
    np.testing.assert_array_equal(np.isneginf(lse), np.isneginf(wanted[1]))
    finite = np.isfinite(wanted[1])
    np.testing.assert_allclose(lse[finite], wanted[1][finite], rtol=1e-5, atol=1e-3)
