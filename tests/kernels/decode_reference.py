"""Float64 split-KV decode attention in numpy, and the inputs to run it on.  Shares no code with the templates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def e4m3fn_table() -> np.ndarray:
    """The 256 values of OCP E4M3FN (OCP 8-bit Floating Point Specification 1.0, table 1): no infinity, 0x7F is NaN."""
    values = np.empty(256)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent, mantissa = (code >> 3) & 0xF, code & 0x7
        if exponent == 0xF and mantissa == 0x7:
            values[code] = np.nan
        elif exponent == 0:
            values[code] = sign * mantissa * 2.0**-9
        else:
            values[code] = sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return values


def round_to_bf16(values: np.ndarray) -> np.ndarray:
    """The nearest BF16 values (ties to even), as float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@dataclass
class DecodeCase:
    """q [batch, q_heads, D] as BF16-valued float32; k, v as codes [slots, kv_heads, D] or BF16-valued float32.

    Codes are E4M3FN's where they are uint8, and integers where they are int8.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    k_scale: np.ndarray | None
    v_scale: np.ndarray | None
    indptr: np.ndarray
    indices: np.ndarray
    positions: np.ndarray
    splits: np.ndarray
    scale: float
    window: int | None


def make_case(
    rng: np.random.Generator,
    *,
    lengths: list[int],
    splits: list[int],
    kv_format: str,
    group: int,
    head_dim: int = 128,
    kv_heads: int = 2,
    window: int | None = None,
) -> DecodeCase:
    """Random inputs: scattered slots, scales over six orders of magnitude, the query at each request's last key."""
    slots = sum(lengths) + 7
    q = round_to_bf16(rng.standard_normal((len(lengths), kv_heads * group, head_dim)))
    if kv_format == "bf16":
        k, v = (round_to_bf16(rng.standard_normal((slots, kv_heads, head_dim))) for _ in "kv")
        k_scale = v_scale = None
    else:
        finite = np.array([code for code in range(256) if code & 0x7F != 0x7F], np.uint8)
        k, v = (rng.choice(finite, (slots, kv_heads, head_dim)) for _ in "kv")
        # Codes reach 448, so scores of ordinary size need scales near 1/448.
        k_scale, v_scale = ((10.0 ** rng.uniform(-6, -2, (slots, kv_heads))).astype(np.float32) for _ in "kv")
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return DecodeCase(
        q,
        k,
        v,
        k_scale,
        v_scale,
        indptr,
        rng.permutation(slots)[: indptr[-1]].astype(np.int32),
        np.array(lengths, np.int64) - 1,
        np.array(splits, np.int32),
        head_dim**-0.5,
        window,
    )


def make_wide_case(rng: np.random.Generator, *, length: int, group: int, order: str = "random") -> DecodeCase:
    """One request in one split: scales of 1e-30 to 1e4 side by side, a query row of magnitude 1e-20 to 1e4 each head.

    order: "random", or "rising" or "falling" scales of V from key to key; in the latter case those of K rise, so that
    what the first tiles weigh has no weight in the end.
    """
    case = make_case(
        rng,
        lengths=[length],
        splits=[1],
        kv_format="fp8_per_token_head",
        group=group,
        kv_heads=1,
    )
    case.q *= 10.0 ** np.linspace(-20, 4, group)[:, None]
    case.q[:] = round_to_bf16(case.q)
    for scale in (case.k_scale, case.v_scale):
        scale[:] = 10.0 ** rng.uniform(-30, 4, scale.shape)
    if order == "rising":
        case.v_scale[case.indices] = np.sort(case.v_scale[case.indices], axis=0)
    if order == "falling":
        case.v_scale[case.indices] = -np.sort(-case.v_scale[case.indices], axis=0)
        case.k_scale[case.indices] = np.sort(case.k_scale[case.indices], axis=0)
    # Some columns of the values are 0 but for a few rows, whose scale may be far below the largest one.
    few = rng.random(case.v.shape) < 0.05
    case.v[..., ::4] *= few[..., ::4]
    return case


def fp16_error_bound(case: DecodeCase) -> np.ndarray:
    """What one rounding of each weight to 11 bits, and to 2**-39 of its head's largest, may cost, [1, q_heads, D].

    Twice that, as scores and sums are FP32; and FP32 itself loses weights below 2**-126.
    """
    table, keys = e4m3fn_table(), case.indices
    scales = case.v_scale[keys, 0].astype(np.float64)
    values = np.abs(table[case.v[keys, 0]])
    k = table[case.k[keys, 0]] * case.k_scale[keys, 0, None].astype(np.float64)
    scores = case.scale * (case.q[0].astype(np.float64) @ k.T)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    scaled, total = weights * scales, weights.sum(1)[:, None]
    lost = 2.0**-38 * scaled.max(1, keepdims=True) + 2.0**-125 * scales.max()
    return ((2.0**-11 * scaled @ values + lost * values.sum(0)) / total)[None]


def attention(case: DecodeCase) -> tuple[np.ndarray, np.ndarray]:
    """Output [batch, q_heads, D] and natural-log log-sum-exp [batch, q_heads]; 0 and -inf where nothing is visible."""
    table = e4m3fn_table()
    batch, q_heads, head_dim = case.q.shape
    group = q_heads // case.k.shape[1]
    out, lse = np.zeros((batch, q_heads, head_dim)), np.full((batch, q_heads), -np.inf)
    for request in range(batch):
        first, last = case.indptr[request], case.indptr[request + 1]
        position = case.positions[request]
        start = 0 if case.window is None else max(0, position - case.window + 1)
        keys = case.indices[first:last][start : max(0, position + 1)]
        if len(keys) == 0:
            continue
        for head in range(q_heads):
            kv_head = head // group
            k, v = case.k[keys, kv_head], case.v[keys, kv_head]
            if case.k_scale is not None and case.v_scale is not None:
                k = (k if k.dtype == np.int8 else table[k]) * case.k_scale[keys, kv_head, None].astype(np.float64)
                v = (v if v.dtype == np.int8 else table[v]) * case.v_scale[keys, kv_head, None].astype(np.float64)
            scores = case.scale * (k.astype(np.float64) @ case.q[request, head].astype(np.float64))
            top = scores.max()
            weights = np.exp(scores - top)
            lse[request, head] = top + np.log(weights.sum())
            out[request, head] = weights @ v / weights.sum()
    return out, lse


def merge(partial_out: np.ndarray, partial_lse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Partials [batch, heads, splits, D] and natural-log LSE [batch, heads, splits] to the whole, in float64."""
    lse = partial_lse.astype(np.float64)
    top = np.max(lse, axis=-1, keepdims=True)
    weights = np.where(np.isneginf(lse), 0.0, np.exp(lse - np.where(np.isneginf(top), 0.0, top)))
    total = weights.sum(-1)
    whole = (weights[..., None] * partial_out.astype(np.float64)).sum(-2) / np.where(total == 0, 1.0, total)[..., None]
    with np.errstate(divide="ignore"):
        return whole, np.where(total == 0, -np.inf, np.log(total) + np.where(np.isneginf(top), 0.0, top)[..., 0])
