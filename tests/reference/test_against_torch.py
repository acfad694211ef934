"""The float64 references agree with a second implementation that shares no code with them: torch on the CPU."""

import itertools

import numpy as np
import pytest

from assay import reference

torch = pytest.importorskip("torch")


def decoded(case, cache):
    rows = torch.from_numpy(np.ascontiguousarray(case.tensors[f"{cache}_cache"].view))
    if rows.dtype in (torch.uint8, torch.int8):
        scale = torch.from_numpy(np.ascontiguousarray(case.tensors[f"{cache}_scale"].view))
        codes = rows.view(torch.float8_e4m3fn) if rows.dtype == torch.uint8 else rows
        return codes.to(torch.float64) * scale[..., None].to(torch.float64)
    return rows.view(torch.bfloat16).to(torch.float64)


FORMATS = ["bf16", "fp8_per_token_head", "int8_per_token_head"]
AXES = [
    {"head_dim": 64, "rows": r, "block_m": m, "kv_format": f, "window": w, "soft_cap": c, "alignment": 16}
    for (r, m), f, w, c in itertools.product([(1, 4), (1, 8), (8, 16), (8, 64)], FORMATS, [False, True], [False, True])
    # The block decides how many queries and heads there are, the rest what each of them computes.
    if (r, m) == (1, 8) or (f == "bf16") == (not c)
]


def attended(case, axes, q, k, v):
    """Attention of one KV head's queries [gqa, head_dim], in torch, with the cap written out."""
    if not axes["soft_cap"]:
        q, k, v = q[None], k[None], v[None]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=case.scalars["sm_scale"])[0]
    cap = case.scalars["logit_cap"]
    return torch.softmax(cap * torch.tanh(case.scalars["sm_scale"] * (q @ k.T) / cap), -1) @ v


@pytest.mark.parametrize("axes", AXES, ids=lambda axes: "-".join(str(value) for value in axes.values()))
def test_merged_splits_of_the_decode_reference_are_torchs_attention(axes):
    for case in reference.cases("decode_attention", axes):
        expected = reference.expected("decode_attention", case)
        out, lse = (torch.from_numpy(expected[name]) for name in ("partial_out", "partial_lse"))
        keyless = torch.isneginf(lse).all(-1, keepdim=True)
        weights = torch.where(keyless, 0.0, torch.softmax(lse, -1))
        merged = (weights[..., None] * out).sum(-2)
        k, v = decoded(case, "k"), decoded(case, "v")
        q = torch.from_numpy(np.ascontiguousarray(case.tensors["q"].view)).view(torch.bfloat16).to(torch.float64)
        indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
        for request, row, kv_head in np.ndindex(*q.shape[:3]):
            slots = torch.from_numpy(indices[indptr[request] : indptr[request + 1]].astype(np.int64))
            end = max(0, int(case.tensors["q_positions"].view[request, row]) + 1)
            slots = slots[max(0, end - case.scalars["window_length"]) if axes["window"] else 0 : end]
            at = (request, row, kv_head)
            if not len(slots):
                assert (merged[at] == 0).all()
                assert keyless[at].all()
                continue
            wanted = attended(case, axes, q[at], k[slots, kv_head], v[slots, kv_head])
            torch.testing.assert_close(merged[at], wanted, rtol=1e-9, atol=1e-12, equal_nan=True)


UNSPLIT = [
    {
        "head_dim": 64,
        "rows": 1,
        "block_m": 8,
        "kv_format": f,
        "window": w,
        "soft_cap": False,
        "sinks": s,
        "alignment": 16,
    }
    for f, w, s in itertools.product(FORMATS[:2], [False, True], [False, True])
]


@pytest.mark.parametrize("axes", UNSPLIT, ids=lambda axes: "-".join(str(value) for value in axes.values()))
def test_the_reference_of_unsplit_calls_is_torchs_softmax_with_the_sink_as_one_more_key(axes):
    for case in reference.cases("decode_attention_unsplit", axes):
        expected = {
            name: torch.from_numpy(values)
            for name, values in reference.expected("decode_attention_unsplit", case).items()
        }
        k, v = decoded(case, "k"), decoded(case, "v")
        q = torch.from_numpy(np.ascontiguousarray(case.tensors["q"].view)).view(torch.bfloat16).to(torch.float64)
        indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
        for request, kv_head in np.ndindex(q.shape[0], q.shape[2]):
            slots = torch.from_numpy(indices[indptr[request] : indptr[request + 1]].astype(np.int64))
            end = max(0, int(case.tensors["q_positions"].view[request, 0]) + 1)
            slots = slots[max(0, end - case.scalars["window_length"]) if axes["window"] else 0 : end]
            at = (request, 0, kv_head)
            if not len(slots):
                assert (expected["out"][at] == 0).all()
                assert torch.isneginf(expected["lse"][at]).all()
                continue
            scores = case.scalars["sm_scale"] * (q[at] @ k[slots, kv_head].T)
            if axes["sinks"]:
                sinks = torch.from_numpy(case.tensors["sinks"].view[kv_head].copy()).to(torch.float64)
                scores = torch.cat([scores, sinks[:, None]], -1)
            weights = torch.softmax(scores, -1)[:, : len(slots)]
            wanted = {"out": weights @ v[slots, kv_head], "lse": torch.logsumexp(scores, -1)}
            for name, value in wanted.items():
                torch.testing.assert_close(expected[name][at], value, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_every_finite_code_is_torchs_value():
    from assay.reference.number_formats import e4m3fn_values

    codes = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_array_equal(e4m3fn_values(), codes.view(torch.float8_e4m3fn).to(torch.float64).numpy())


def test_bf16_rounds_as_torch_does():
    from assay.reference.number_formats import from_bf16, to_bf16

    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    wanted = torch.from_numpy(values).to(torch.bfloat16).to(torch.float64).numpy()
    np.testing.assert_array_equal(from_bf16(to_bf16(values)), wanted)
