"""The shipped gfx1201 kernels compute attention, executed as binaries."""

from __future__ import annotations

import numpy as np
import pytest

from assay.codegen.worker import compile_in_worker
from assay.emulator import Memory, Program
from assay.qualify.emulating import emulation_request
from assay.qualify.emulation import emulate_in_worker
from tests.kernels.decode_reference import attention, fp16_error_bound, make_case, make_wide_case, merge
from tests.kernels.running import variant_for
from tests.kernels.shipped import shipped

from .corpus.case import bf16_codes, from_bf16

ABSOLUTE, RELATIVE = 0.002, 0.02
AXES = {"q_dtype": "bf16", "slot_dtype": "i32", "head_dim": 128, "alignment": 16}


def compiled(family: str, tmp_path, launch: dict | None = None, **axes):
    variant = variant_for(family, "gfx1201", launch, **axes)
    outcome = compile_in_worker(variant.request.to_dict(), str(tmp_path / "scratch"))
    assert outcome["status"] == "compiled", outcome
    return variant, outcome


def run_decode(variant, outcome, case):
    """Partial outputs, their LSE and the launch's result; both outputs are poisoned first."""
    batch, heads, dim = case.q.shape
    splits = int(case.splits.max())
    quantised = case.k_scale is not None
    arrays = {
        "q": bf16_codes(case.q),
        "k_cache": case.k if quantised else bf16_codes(case.k),
        "v_cache": case.v if quantised else bf16_codes(case.v),
        "indptr": case.indptr,
        "indices": case.indices,
        "q_positions": case.positions,
        "num_kv_splits": case.splits,
        "partial_out": np.full((batch, heads, splits, dim), np.nan, np.float32),
        "partial_lse": np.full((batch, heads, splits), np.nan, np.float32),
    }
    if quantised:
        arrays |= {"k_scale": case.k_scale, "v_scale": case.v_scale}
    memory = Memory()
    values = {name: memory.add(name, array, writable="partial" in name) for name, array in arrays.items()}
    values |= {"sm_scale": float(case.scale), "window_length": case.window or 0, "group": heads // case.k.shape[1]}
    for prefix, name, dims in (
        ("q", "q", ("batch", "head")),
        ("k", "k_cache", ("slot", "head")),
        ("v", "v_cache", ("slot", "head")),
        ("k_scale", "k_scale", ("slot", "head")),
        ("v_scale", "v_scale", ("slot", "head")),
        ("out", "partial_out", ("batch", "head", "split")),
        ("lse", "partial_lse", ("batch", "head", "split")),
    ):
        if name in arrays:
            for axis, dim_name in enumerate(dims):
                array = arrays[name]
                values[f"{prefix}_stride_{dim_name}"] = array.strides[axis] // array.itemsize
    constants = dict(variant.request.constants)
    order = [name for name, _ in variant.request.signature if name not in constants]
    result = Program.load(outcome["code"], where=variant.id).launch(
        grid=(case.k.shape[1], batch, splits),
        num_warps=outcome["num_warps"],
        arguments=[values[name] for name in order],
        lds_bytes=outcome["shared_bytes"],
        memory=memory,
    )
    return arrays["partial_out"], arrays["partial_lse"], result


def assert_attention(partial, lse, case) -> None:
    whole, whole_lse = merge(partial, lse)
    expected, expected_lse = attention(case)
    assert (np.abs(whole - expected) <= ABSOLUTE + RELATIVE * np.abs(expected)).all()
    finite = ~np.isneginf(expected_lse)
    np.testing.assert_array_equal(np.isneginf(whole_lse), ~finite)
    np.testing.assert_allclose(whole_lse[finite], expected_lse[finite], atol=1e-3)


KINDS = [("bf16", "generic", 64), ("fp8_per_token_head", "packed", 64)]


@pytest.mark.parametrize(("kv_format", "reader", "offset_bits"), KINDS)
def test_split_decode_is_attention(tmp_path, kv_format, reader, offset_bits):
    axes = {"kv_format": kv_format, "reader": reader, "block_m": 4, "window": False, "offset_bits": offset_bits}
    variant, outcome = compiled("decode_attention", tmp_path, **AXES, **axes)
    case = make_case(
        np.random.default_rng(3), lengths=[150, 1, 0, 33], splits=[3, 1, 2, 2], kv_format=kv_format, group=4
    )
    assert_attention(*run_decode(variant, outcome, case)[:2], case)


@pytest.mark.parametrize("order", ["random", "rising", "falling"])
def test_fp16_products_lose_nothing_to_scales_of_thirty_four_orders_of_magnitude(tmp_path, order):
    """The form that NVIDIA targets ship, but for its inline assembly: WMMA multiplies the same FP16 numbers."""
    axes = {"kv_format": "fp8_per_token_head", "reader": "generic", "block_m": 8, "window": False, "offset_bits": 64}
    launch = {"score_form": "transposed_fp16", "block_n": 32, "num_warps": 4}
    variant, outcome = compiled("decode_attention", tmp_path, launch, **{**AXES, **axes, "alignment": 1})
    assert outcome["instructions"]["v_wmma_f32_16x16x16_f16"] > 0
    case = make_wide_case(np.random.default_rng(13), length=101, group=8, order=order)
    partial, lse, _ = run_decode(variant, outcome, case)
    expected, expected_lse = attention(case)
    np.testing.assert_allclose(lse[..., 0], expected_lse, rtol=1e-5, atol=1e-5)
    assert (np.abs(partial[:, :, 0] - expected) <= fp16_error_bound(case)).all()


# Wave-instructions that the published packed kernel executes a key and KV head is 170 at its launch of four waves.
MOST_INSTRUCTIONS_A_KEY = 75


@pytest.mark.parametrize("group", [4, 8])
def test_the_packed_reader_executes_few_instructions_a_key(tmp_path, group):
    """The figure of the row that ships for GQA 4 and 8: what twice as many keys cost more, so that no start counts."""
    axes = {"kv_format": "fp8_per_token_head", "reader": "packed", "block_m": group, "window": False, "offset_bits": 32}
    variant, outcome = compiled("decode_attention", tmp_path, **AXES, **axes)
    executed = {}
    for keys in (512, 1024):
        given = {"lengths": [keys], "splits": [1], "kv_format": "fp8_per_token_head", "group": group, "kv_heads": 1}
        case = make_case(np.random.default_rng(5), **given)
        partial, lse, result = run_decode(variant, outcome, case)
        assert_attention(partial, lse, case)
        executed[keys] = result.counters.total
    assert (executed[1024] - executed[512]) / 512 <= MOST_INSTRUCTIONS_A_KEY


def test_merge_is_the_weighted_mean(tmp_path):
    variant, outcome = compiled("merge_splits", tmp_path, head_dim=128, sinks=False, most_splits=128)
    rng = np.random.default_rng(8)
    partial = rng.standard_normal((2, 4, 5, 128)).astype(np.float32)
    lse = rng.standard_normal((2, 4, 5)).astype(np.float32)
    lse[0, :, 2], lse[1] = -np.inf, -np.inf
    partial[1] = np.nan
    out, merged = np.zeros((2, 4, 128), np.uint16), np.full((2, 4), np.nan, np.float32)
    splits = np.array([4, 5], np.int32)
    memory = Memory()
    given = [
        memory.add("partial_out", partial, writable=False),
        memory.add("partial_lse", lse, writable=False),
        memory.add("num_kv_splits", splits, writable=False),
        memory.add("out", out),
        memory.add("lse", merged),
    ]
    for array in (partial, lse, out, merged):
        batch, *kept = array.strides[: 2 if array is out or array is merged else 3]
        # Behind the stride of the requests that of their queries, of which there is one.
        given += [batch // array.itemsize, 0, *(stride // array.itemsize for stride in kept)]
    Program.load(outcome["code"], where=variant.id).launch(
        grid=(2, 4),
        num_warps=outcome["num_warps"],
        arguments=given,
        lds_bytes=outcome["shared_bytes"],
        memory=memory,
    )
    expected, expected_lse = merge(partial[:1, :, :4], lse[:1, :, :4])
    np.testing.assert_allclose(from_bf16(out[:1]), expected, rtol=RELATIVE, atol=ABSOLUTE)
    np.testing.assert_allclose(merged[:1], expected_lse, rtol=1e-5)
    assert not out[1].any()
    assert np.isneginf(merged[1]).all()


@pytest.mark.slow
def test_a_long_request_runs_in_seconds(tmp_path):
    """32,768 keys, 32 query heads, GQA 8, FP8 packed, 64 splits: field-evidence.md's case, with every check on."""
    axes = {"kv_format": "fp8_per_token_head", "reader": "packed", "block_m": 8, "window": False, "offset_bits": 64}
    variant, outcome = compiled("decode_attention", tmp_path, **AXES, **axes)
    case = make_case(
        np.random.default_rng(4),
        lengths=[32768],
        splits=[64],
        kv_format="fp8_per_token_head",
        group=8,
        kv_heads=4,
    )
    partial, lse, result = run_decode(variant, outcome, case)
    assert_attention(partial, lse, case)
    assert result.seconds < 20


PACKED = {"kv_format": "fp8_per_token_head", "reader": "packed", "alignment": 16}
GENERIC = {"kv_format": "fp8_per_token_head", "reader": "generic", "alignment": 1}
BF16 = {"kv_format": "bf16", "reader": "generic"}
# Both readers and formats, with and without a window, all head sizes, blocks of 1, 8 and 16 query rows, both offset
# widths; the cases have groups that are no power of two in them.
SPREAD = [
    {**PACKED, "head_dim": 64, "block_m": 1, "window": True, "offset_bits": 32},
    {**PACKED, "head_dim": 128, "block_m": 8, "window": False, "offset_bits": 64},
    {**PACKED, "head_dim": 256, "block_m": 16, "window": False, "offset_bits": 32},
    {**GENERIC, "head_dim": 64, "block_m": 16, "window": True, "offset_bits": 64},
    {**GENERIC, "head_dim": 128, "block_m": 1, "window": False, "offset_bits": 64},
    {**GENERIC, "head_dim": 256, "block_m": 8, "window": False, "offset_bits": 64},
    {**BF16, "alignment": 16, "head_dim": 64, "block_m": 8, "window": True, "offset_bits": 64},
    {**BF16, "alignment": 1, "head_dim": 128, "block_m": 16, "window": False, "offset_bits": 64},
    {**BF16, "alignment": 16, "head_dim": 256, "block_m": 1, "window": True, "offset_bits": 32},
]


def assert_every_case_passes(family: str, **axes) -> None:
    kernel = shipped(family, **axes)
    request = emulation_request(kernel.variant, kernel.outcome, kernel.family)
    verdict = emulate_in_worker({**request, "every_case": True})
    assert len(verdict["cases"]) >= 15
    assert not [(case["case"], case["fault"]) for case in verdict["cases"] if case["fault"]]


@pytest.mark.slow
@pytest.mark.usefixtures("compile_cache")
@pytest.mark.parametrize("axes", SPREAD, ids=lambda axes: " ".join(f"{key}={value}" for key, value in axes.items()))
def test_the_full_set_of_cases_passes(axes):
    assert_every_case_passes("decode_attention", **axes)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_cache")
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_full_set_of_merges_passes(head_dim, sinks):
    assert_every_case_passes("merge_splits", head_dim=head_dim, sinks=sinks, most_splits=128)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_cache")
@pytest.mark.parametrize("flags", [{"window": True, "sinks": True}, {"window": True, "soft_cap": True}, {}], ids=str)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_full_set_of_prefills_passes(head_dim, flags):
    none = {"window": False, "sinks": False, "soft_cap": False}
    assert_every_case_passes("extend_attention", head_dim=head_dim, **{**none, **flags})
