"""The float64 references agree with a second implementation that shares no code with them: torch on the CPU."""

import itertools

import numpy as np
import pytest

from assay import reference

torch = pytest.importorskip("torch")


def decoded(case, cache):
    rows = torch.from_numpy(np.ascontiguousarray(case.tensors[f"{cache}_cache"].view))
    if rows.dtype == torch.uint8:
        scale = torch.from_numpy(np.ascontiguousarray(case.tensors[f"{cache}_scale"].view))
        return rows.view(torch.float8_e4m3fn).to(torch.float64) * scale[..., None].to(torch.float64)
    return rows.view(torch.bfloat16).to(torch.float64)


AXES = [
    {"head_dim": d, "gqa": g, "kv_format": f, "window": w, "alignment": 16, "offset_bits": 64}
    for d, g, f, w in itertools.product([64], [4, 6], ["bf16", "fp8_per_token_head"], [False, True])
]


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
        for request in range(q.shape[0]):
            slots = torch.from_numpy(indices[indptr[request] : indptr[request + 1]].astype(np.int64))
            position = int(case.tensors["q_positions"].view[request])
            first = max(0, position + 1 - case.scalars["window_length"]) if axes["window"] else 0
            slots = slots[first : position + 1]
            if not len(slots):
                assert (merged[request] == 0).all()
                continue
            heads = torch.arange(q.shape[1]) // axes["gqa"]
            wanted = torch.nn.functional.scaled_dot_product_attention(
                q[request][:, None],
                k[slots][:, heads].transpose(0, 1),
                v[slots][:, heads].transpose(0, 1),
                scale=case.scalars["sm_scale"],
            )
            torch.testing.assert_close(merged[request], wanted[:, 0], rtol=1e-9, atol=1e-12, equal_nan=True)


def test_every_finite_code_is_torchs_value():
    from assay.reference.number_formats import e4m3fn_values

    codes = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_array_equal(e4m3fn_values(), codes.view(torch.float8_e4m3fn).to(torch.float64).numpy())


def test_bf16_rounds_as_torch_does():
    from assay.reference.number_formats import from_bf16, to_bf16

    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    wanted = torch.from_numpy(values).to(torch.bfloat16).to(torch.float64).numpy()
    np.testing.assert_array_equal(from_bf16(to_bf16(values)), wanted)
