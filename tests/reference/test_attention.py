"""The reference of whole decode calls agrees with torch, and with the references of the two stages."""

import itertools

import numpy as np
import pytest

from assay import reference
from assay.reference import attention, decode_attention, merge_splits
from assay.reference.attention import CallShape

torch = pytest.importorskip("torch")


def decoded(case, cache):
    rows = torch.from_numpy(case.tensors[f"{cache}_cache"].view.copy())
    if rows.dtype == torch.uint8:
        scale = torch.from_numpy(case.tensors[f"{cache}_scale"].view.copy()).to(torch.float64)
        return rows.view(torch.float8_e4m3fn).to(torch.float64) * scale[..., None]
    return rows.view(torch.bfloat16).to(torch.float64)


@pytest.mark.parametrize(
    ("kv_format", "window", "sinks"), list(itertools.product(attention.FORMATS, [None, 1, 7], [False, True]))
)
def test_it_is_torchs_attention(kv_format, window, sinks):
    shape = CallShape(
        head_dim=64, gqa=3, kv_format=kv_format, keys=(5, 0, 33), kv_heads=2, window=window, sinks=sinks, seed=1
    )
    case = attention.call(shape)
    given = attention.expected(case)
    q = torch.from_numpy(case.tensors["q"].view.copy()).view(torch.bfloat16).to(torch.float64)
    k, v = decoded(case, "k"), decoded(case, "v")
    indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
    heads = torch.arange(6) // 3
    for request, keys in enumerate(shape.keys):
        slots = torch.from_numpy(indices[indptr[request] : indptr[request + 1]].astype(np.int64))[-(window or keys) :]
        if keys == 0:
            assert (given["out"][request] == 0).all()
            assert (given["lse"][request] == -np.inf).all()
            continue
        scores = torch.einsum("hd,khd->hk", q[request], k[slots][:, heads]) * 64**-0.5
        if sinks:
            sink = torch.from_numpy(case.tensors["sinks"].view.copy()).to(torch.float64)
            scores = torch.cat([scores, sink[:, None]], 1)
        weights = torch.softmax(scores, 1)[:, : len(slots)]
        wanted = torch.einsum("hk,khd->hd", weights, v[slots][:, heads])
        np.testing.assert_allclose(given["out"][request], wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(given["lse"][request], torch.logsumexp(scores, 1), rtol=1e-9)


def test_it_is_the_merge_of_what_stage_1_gives_however_it_is_split():
    axes = {"head_dim": 64, "gqa": 2, "kv_format": "fp8_per_token_head", "window": True, "alignment": 16}
    for case in reference.cases("decode_attention", axes):
        partial = decode_attention.expected(case)
        stage_2 = type(case)(
            case.name,
            {
                "partial_out": decode_attention.dense(partial["partial_out"]),
                "partial_lse": decode_attention.dense(partial["partial_lse"]),
                "num_kv_splits": case.tensors["num_kv_splits"],
            },
            {},
            {},
            (),
            {"sinks": False},
        )
        merged, whole = merge_splits.expected(stage_2), attention.expected(case)
        np.testing.assert_allclose(whole["out"], merged["out"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(whole["lse"], merged["lse"], rtol=1e-9, atol=1e-12)
