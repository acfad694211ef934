"""The reference of whole decode calls agrees with torch, and with the references of the two stages."""

import dataclasses
import itertools

import numpy as np
import pytest
import yaml

from assay import reference
from assay.qualify.device.qualifying import _SIZES
from assay.reference import attention, decode_attention, merge_splits
from assay.reference.attention import CallShape
from assay.reference.tensors import LSE_LIMITS
from tests.specs import SHIPPED as SPECS

torch = pytest.importorskip("torch")


def decoded(case, cache):
    rows = torch.from_numpy(case.tensors[f"{cache}_cache"].view.copy())
    if rows.dtype in (torch.uint8, torch.int8):
        scale = torch.from_numpy(case.tensors[f"{cache}_scale"].view.copy()).to(torch.float64)
        codes = rows.view(torch.float8_e4m3fn) if rows.dtype == torch.uint8 else rows
        return codes.to(torch.float64) * scale[..., None]
    return rows.view(torch.bfloat16).to(torch.float64)


@pytest.mark.parametrize(("rows", "cap"), [(1, None), (3, None), (1, 2.5), (8, 2.5)])
@pytest.mark.parametrize(
    ("kv_format", "window", "sinks"), list(itertools.product(attention.FORMATS, [None, 1, 7], [False, True]))
)
def test_it_is_torchs_attention(kv_format, window, sinks, rows, cap):
    shape = CallShape(
        head_dim=64, gqa=3, kv_format=kv_format, keys=(5, 0, 33), kv_heads=2, rows=rows, window=window, logit_cap=cap,
        sinks=sinks, seed=1,
    )  # fmt: skip
    case = attention.call(shape)
    given = {
        name: array.reshape(3, rows, *array.shape[array.ndim - (2 if name == "out" else 1) :])
        for name, array in attention.expected(case).items()
    }
    q = torch.from_numpy(case.tensors["q"].view.copy()).view(torch.bfloat16).to(torch.float64).view(3, rows, 6, 64)
    k, v = decoded(case, "k"), decoded(case, "v")
    indptr, indices = case.tensors["indptr"].view, case.tensors["indices"].view
    heads = torch.arange(6) // 3
    for (request, keys), row in itertools.product(enumerate(shape.keys), range(rows)):
        # The last query stands at the last key, the others one key before the next.
        end = max(0, keys - (rows - 1 - row))
        slots = torch.from_numpy(indices[indptr[request] : indptr[request] + end].astype(np.int64))[-(window or keys) :]
        if end == 0:
            assert (given["out"][request, row] == 0).all()
            assert (given["lse"][request, row] == -np.inf).all()
            continue
        scores = torch.einsum("hd,khd->hk", q[request, row], k[slots][:, heads]) * 64**-0.5
        if cap:
            scores = cap * torch.tanh(scores / cap)
        if sinks:
            sink = torch.from_numpy(case.tensors["sinks"].view.copy()).to(torch.float64)
            scores = torch.cat([scores, sink[:, None]], 1)
        weights = torch.softmax(scores, 1)[:, : len(slots)]
        wanted = torch.einsum("hk,khd->hd", weights, v[slots][:, heads])
        np.testing.assert_allclose(given["out"][request, row], wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(given["lse"][request, row], torch.logsumexp(scores, 1), rtol=1e-9)


def by_query_head(values):
    """[batch, rows, kv_heads, gqa, ..] as [batch, rows, q_heads, ..]."""
    batch, rows, kv_heads, gqa, *rest = values.shape
    return values.reshape(batch, rows, kv_heads * gqa, *rest)


@pytest.mark.parametrize(("rows", "block_m"), [(1, 2), (8, 16)])
def test_it_is_the_merge_of_what_stage_1_gives_however_it_is_split(rows, block_m):
    axes = {"head_dim": 64, "rows": rows, "block_m": block_m, "kv_format": "fp8_per_token_head", "window": True}
    for case in reference.cases("decode_attention", {**axes, "soft_cap": False, "alignment": 16}):
        partial = decode_attention.expected(case)
        stage_2 = type(case)(
            case.name,
            {
                "partial_out": decode_attention.dense(by_query_head(partial["partial_out"])),
                "partial_lse": decode_attention.dense(by_query_head(partial["partial_lse"])),
                "num_kv_splits": case.tensors["num_kv_splits"],
            },
            {},
            {},
            (),
            {"sinks": False},
        )
        whole_call = dataclasses.replace(
            case, tensors={**case.tensors, "q": decode_attention.dense(by_query_head(case.tensors["q"].view))}
        )
        merged, whole = merge_splits.expected(stage_2), attention.expected(whole_call)
        np.testing.assert_allclose(whole["out"], merged["out"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(whole["lse"], merged["lse"], rtol=1e-9, atol=1e-12)


SIZES = [{"keys": keys, "kv_heads": kv_heads, "window": window} for keys, kv_heads, _, window, _ in _SIZES]
SIZES += [{"keys": (keys,)} for keys in (1, 2, 3, 5, 17, 300)]
TOLERANCE = yaml.safe_load((SPECS / "families" / "decode_attention.yaml").read_text())["tolerance"]


def outside(actual, expected):
    """Elements that the family's tolerance does not admit."""
    return np.abs(actual - expected) > TOLERANCE["absolute"] + TOLERANCE["relative"] * np.abs(expected)


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: str(sizes["keys"]))
@pytest.mark.parametrize("kv_format", attention.FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_outputs_that_are_wrong_by_a_fifth_are_outside_the_tolerance(seed, kv_format, sizes):
    """However many keys average out, and however small most of their scales are."""
    case = attention.call(CallShape(head_dim=64, gqa=6, kv_format=kv_format, seed=seed, **sizes))
    out = attention.expected(case)["out"]
    for factor in (0.0, 0.8, 1.2):
        assert outside(out * factor, out).any(), factor


@pytest.mark.parametrize("keys", [1, 2, 3, 4, 16, 70, 2048])
@pytest.mark.parametrize("kv_format", attention.FORMATS)
def test_weights_rounded_to_bf16_as_kernels_do_are_within_the_tolerance(kv_format, keys):
    for seed in range(10):
        case = attention.call(CallShape(head_dim=128, gqa=8, kv_format=kv_format, keys=(keys,), seed=seed))
        q = torch.from_numpy(case.tensors["q"].view.copy()).view(torch.bfloat16).double()[0]
        order = torch.from_numpy(case.tensors["indices"].view.copy()).long()
        k, v = (decoded(case, name)[order, 0] for name in "kv")
        scores = case.scalars["sm_scale"] * q @ k.T
        weights = torch.exp(scores - scores.amax(1, keepdim=True))
        scale = torch.ones(keys, dtype=torch.float64)
        if kv_format != "bf16":
            scale = torch.from_numpy(case.tensors["v_scale"].view.copy()).double()[order, 0]
        rounded = (weights * scale).bfloat16().double() @ (v / scale[:, None]) / weights.sum(1, keepdim=True)
        assert not outside(rounded.bfloat16().double().numpy(), attention.expected(case)["out"][0]).any()


@pytest.mark.parametrize("keys", [1, 9, 300])
@pytest.mark.parametrize("kv_format", attention.FORMATS)
def test_a_cap_that_is_ignored_is_noticed(kv_format, keys):
    for seed in range(5):
        case = attention.call(
            CallShape(head_dim=128, gqa=4, kv_format=kv_format, keys=(keys,), logit_cap=attention.CAP, seed=seed)
        )
        capped = attention.expected(case)
        del case.scalars["logit_cap"]
        plain = attention.expected(case)
        absolute, relative = LSE_LIMITS
        lse = np.abs(plain["lse"] - capped["lse"]) > absolute + relative * np.abs(capped["lse"])
        assert outside(plain["out"], capped["out"]).any() or lse.any()


@pytest.mark.parametrize("kv_format", attention.FORMATS)
@pytest.mark.parametrize("window", [1, 3])
def test_each_query_of_a_small_window_has_an_output_that_shows(kv_format, window):
    case = attention.call(CallShape(head_dim=64, gqa=4, kv_format=kv_format, keys=(300,), rows=8, window=window))
    out = attention.expected(case)["out"]
    for query in range(8):
        wrong = out.copy()
        wrong[:, query] = 0
        assert outside(wrong, out).any()
