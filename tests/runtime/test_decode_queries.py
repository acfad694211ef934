"""Decode calls with several queries a request, groups of any size, a cap, INT8 rows, FP16 results, on the emulator."""

import numpy as np
import pytest

import assay.runtime
from assay.reference import attention
from assay.reference.attention import CallShape
from assay.reference.tensors import LSE_LIMITS
from assay.runtime import ArgumentError, NoMatchError

FORMATS = {"fp8": "fp8_per_token_head", "int8": "int8_per_token_head", "bf16": "bf16"}


@pytest.fixture(scope="module")
def capped_bundle(make_decode_bundle):
    """Codes of either kind, rows of 64 elements, a window, a cap and sinks; FP16 results."""
    decode = (
        "{head_dim: [64], rows: [8], block_m: [16, 64], kv_format: [fp8_per_token_head, int8_per_token_head],"
        " window: [true], soft_cap: [true], alignment: [16], offset_bits: [64], reader: [generic]}"
    )
    return make_decode_bundle(decode, "{out_dtype: [f16], head_dim: [64], sinks: [true], most_splits: [16]}")


@pytest.fixture(scope="module")
def capped(capped_bundle):
    with assay.runtime.load(capped_bundle, device="emulator") as loaded:
        yield loaded


@pytest.fixture(scope="module")
def plain(make_decode_bundle):
    """Every format, rows of 80 elements, no window, no cap and no sinks; BF16 and FP16 results."""
    decode = (
        "{head_dim: [80], block_m: [16, 64], window: [false], soft_cap: [false], alignment: [16], offset_bits: [64]}"
    )
    path = make_decode_bundle(decode, "{head_dim: [80], sinks: [false], most_splits: [16]}")
    with assay.runtime.load(path, device="emulator") as loaded:
        yield loaded


def capped_shape(rows=1, gqa=1, kv_format="int8", keys=(40, 0, 5), **changes):
    sizes = {"kv_heads": 2, "window": 21, "logit_cap": 1.5, "sinks": True, "splits": 2}
    return CallShape(head_dim=64, rows=rows, gqa=gqa, kv_format=FORMATS[kv_format], keys=keys, **{**sizes, **changes})


def plain_shape(rows=1, gqa=1, kv_format="int8", keys=(40, 0, 5), **changes):
    sizes = {"kv_heads": 2, "splits": 2}
    return CallShape(head_dim=80, rows=rows, gqa=gqa, kv_format=FORMATS[kv_format], keys=keys, **{**sizes, **changes})


def called(kernels, case, shape, dtype=np.float16, **changes):
    """Output and LSE of a call on the case's tensors.  changes: other tensors or options."""
    given = {name: tensor.view.copy() for name, tensor in case.tensors.items()}
    given["out"] = np.full(given["q"].shape, np.nan, dtype) if dtype == np.float16 else given["out"]
    given |= {"sliding_window": shape.window, "logit_cap": shape.logit_cap, "num_splits": shape.splits} | changes
    arguments = [given.pop(name) for name in ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")]
    kernels.decode_attention(*arguments, case.scalars["sm_scale"], **given)
    out = given["out"]
    return out if dtype == np.float16 else (out.astype(np.uint32) << 16).view(np.float32), given["lse"]


def assert_is_reference(got, case):
    wanted = attention.expected(case)
    out, lse = got[0].astype(np.float64), got[1].astype(np.float64)
    assert out.shape == wanted["out"].shape
    assert (np.abs(out - wanted["out"]) <= 0.002 + 0.02 * np.abs(wanted["out"])).all()
    np.testing.assert_array_equal(np.isneginf(lse), np.isneginf(wanted["lse"]))
    finite = np.isfinite(wanted["lse"])
    np.testing.assert_allclose(lse[finite], wanted["lse"][finite], atol=LSE_LIMITS[0], rtol=LSE_LIMITS[1])


def assert_is_attention(kernels, shape, dtype=np.float16):
    case = attention.call(shape)
    assert_is_reference(called(kernels, case, shape, dtype), case)


@pytest.mark.parametrize(
    ("rows", "gqa", "kv_format"),
    [(1, 3, "int8"), (2, 7, "fp8"), (3, 5, "int8"), (5, 3, "fp8"), (1, 72, "int8"), (4, 12, "fp8"), (8, 24, "int8")],
)
def test_queries_groups_cap_window_and_sinks_together_are_attention(capped, rows, gqa, kv_format):
    assert_is_attention(capped, capped_shape(rows, gqa, kv_format))


@pytest.mark.slow
@pytest.mark.parametrize("gqa", [3, 5, 7, 12, 24, 72])
@pytest.mark.parametrize("rows", range(1, 9))
@pytest.mark.parametrize("kv_format", ["fp8", "int8"])
def test_every_number_of_queries_and_every_group_is_attention(capped, kv_format, rows, gqa):
    for keys, window in (((40, 0, 5), 21), ((70,), 1), ((3, 33), 1000)):
        assert_is_attention(capped, capped_shape(rows, gqa, kv_format, keys, window=window))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.uint16])
@pytest.mark.parametrize(("rows", "gqa"), [(1, 5), (1, 24), (1, 72), (3, 5), (2, 12), (7, 7), (8, 72)])
@pytest.mark.parametrize("kv_format", FORMATS)
def test_heads_whose_length_is_no_power_of_two_are_attention(plain, kv_format, rows, gqa, dtype):
    assert_is_attention(plain, plain_shape(rows, gqa, kv_format), dtype)


@pytest.mark.parametrize("splits", [1, 3])
def test_queries_far_apart_in_any_order_are_attention(capped, splits):
    """Whole tiles come before the first key of one query, and behind the last of another; one sees no key at all."""
    shape = capped_shape(3, 5, keys=(300, 40), splits=splits)
    case = attention.call(shape)
    case.tensors["q_positions"].view[...] = [[5, 290, 150], [39, -7, 0]]
    assert_is_reference(called(capped, case, shape), case)


@pytest.mark.parametrize("cap", [2.0**-20, 0.05, 1.5, 50, 2.0**13])
def test_a_cap_is_a_number_of_the_call(capped, cap):
    shape = capped_shape(2, 3, logit_cap=cap)
    case = attention.call(shape)
    assert_is_reference(called(capped, case, shape), case)


@pytest.mark.parametrize("cap", [0, 0.0, -1.5, float("nan"), float("inf"), True, "1.5", 2.0**-21, 1e4, 10**400])
def test_a_cap_that_is_no_cap_is_refused_by_name_also_when_the_shape_is_known(capped, cap):
    shape = capped_shape(2, 3)
    case = attention.call(shape)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"logit_cap: .*allowed: None, or a number from"):
            called(capped, case, shape, logit_cap=cap)
        called(capped, case, shape)


def test_three_queries_on_ten_keys_see_eight_nine_and_ten(capped):
    """C20: the same as calls of one query each."""
    shape = capped_shape(3, 5, keys=(10,), window=1000)
    case = attention.call(shape)
    out, lse = called(capped, case, shape)
    for row, seen in enumerate([8, 9, 10]):
        query = {"q": case.tensors["q"].view[:, row].copy(), "q_positions": np.array([seen - 1])}
        query |= {name: np.full_like(array[:, row], np.nan) for name, array in (("out", out), ("lse", lse))}
        # Keys that the query must not see are not in its request any more.
        query |= {"indptr": np.array([0, seen], np.int32), "indices": case.tensors["indices"].view[:seen].copy()}
        called(capped, case, shape, **query)
        np.testing.assert_allclose(query["out"].astype(float), out[:, row].astype(float), atol=2e-3, rtol=2e-2)
        np.testing.assert_allclose(query["lse"], lse[:, row], rtol=1e-5)


def test_queries_before_the_first_key_give_zeros_and_minus_infinity_or_their_sinks(capped):
    """C20: eight queries on three keys; five of them see nothing."""
    shape = capped_shape(8, 2, keys=(3, 0, 20))
    case = attention.call(shape)
    assert (case.tensors["q_positions"].view[0] == np.arange(-5, 3)).all()
    out, lse = called(capped, case, shape)
    assert not out[0, :5].any()
    assert not out[1].any()
    assert np.isneginf(lse[0, :5]).all()
    assert np.isfinite(lse[0, 5:]).all()
    assert_is_reference((out, lse), case)


@pytest.mark.parametrize("rows", [9, 10])
def test_more_queries_than_eight_are_refused_by_name(capped, rows):
    """C20"""
    shape = capped_shape(rows, 2)
    case = attention.call(shape)
    with pytest.raises(NoMatchError, match=f"rows: requested {rows}, required at most 8"):
        called(capped, case, shape)


def test_a_call_without_a_cap_is_refused_by_name_where_every_row_has_one(capped):
    shape = capped_shape(2, 3)
    case = attention.call(shape)
    with pytest.raises(NoMatchError, match="soft_cap: requested False, required True"):
        called(capped, case, shape, logit_cap=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"q_positions": np.zeros(3, np.int64)}, "q_positions"),
        ({"q_positions": np.zeros((3, 3), np.int64)}, "q_positions, dimension rows: 3 elements"),
        ({"out": np.zeros((3, 6, 64), np.float16)}, "out"),
        ({"lse": np.zeros((3, 6), np.float32)}, "lse"),
        ({"q": np.zeros((3, 2, 1, 6, 64), np.uint16)}, "q: 5 dimensions"),
        ({"out": np.zeros((3, 2, 6, 64), np.float32)}, "out: elements of f32"),
    ],
)
def test_tensors_that_differ_in_their_queries_are_refused_by_name(capped, changes, said):
    shape = capped_shape(2, 3)
    case = attention.call(shape)
    out = changes.get("out", np.full((3, 2, 6, 64), 7, np.float16))
    before = out.copy()
    with pytest.raises(ArgumentError) as caught:
        called(capped, case, shape, **{"out": out, **changes})
    assert said in str(caught.value)
    np.testing.assert_array_equal(out, before)


def as_other_codes(case, dtype):
    """Both caches' memory under another element type."""
    return {f"{name}_cache": case.tensors[f"{name}_cache"].view.copy().view(dtype) for name in "kv"}


def test_codes_of_one_kind_given_as_the_other_are_what_their_element_type_says(capped):
    """D8: an element type is the only word on what a byte means, and it is taken."""
    shape = capped_shape(2, 3, "int8")
    case = attention.call(shape)
    as_integers = called(capped, case, shape)
    assert_is_reference(as_integers, case)
    # Every byte that is a number in either.
    for name in "kv":
        cache = case.tensors[f"{name}_cache"].view
        cache[np.isin(cache, (127, -1))] = 5
    fp8_tensors = {name: attention.dense(array) for name, array in as_other_codes(case, np.uint8).items()}
    read_as_fp8 = type(case)(
        case.name, {**case.tensors, **fp8_tensors}, case.scalars, case.dims, case.outputs,
        {"kv_format": "fp8_per_token_head"},
    )  # fmt: skip
    got = called(capped, read_as_fp8, shape)
    assert_is_reference(got, read_as_fp8)
    assert np.abs(got[0].astype(float) - as_integers[0].astype(float)).max() > 0.01


@pytest.mark.parametrize(("k", "v"), [(np.int8, np.uint8), (np.uint8, np.int8)])
def test_caches_of_two_kinds_of_codes_are_refused_by_name(capped, k, v):
    """D8"""
    shape = capped_shape(2, 3)
    case = attention.call(shape)
    caches = {"k_cache": as_other_codes(case, k)["k_cache"], "v_cache": as_other_codes(case, v)["v_cache"]}
    with pytest.raises(ArgumentError, match=r"v_cache: elements of [ui]8; allowed: [ui]8, as k_cache has"):
        called(capped, case, shape, **caches)


def test_a_cap_is_refused_by_name_where_no_row_has_one(decode_bundle):
    shape = CallShape(head_dim=64, gqa=2, kv_format="bf16", keys=(9,), logit_cap=30.0, splits=1)
    case = attention.call(shape)
    with (
        assay.runtime.load(decode_bundle, device="emulator") as kernels,
        pytest.raises(NoMatchError, match="soft_cap: requested True, required False"),
    ):
        called(kernels, case, shape, np.uint16)


def test_integers_are_refused_by_name_where_no_row_reads_them(decode_bundle):
    """D8: no row of another format answers for them."""
    shape = CallShape(head_dim=64, gqa=2, kv_format="int8_per_token_head", keys=(9,), splits=1)
    case = attention.call(shape)
    out = np.full((1, 2, 64), 7, np.uint16)
    with assay.runtime.load(decode_bundle, device="emulator") as kernels:
        with pytest.raises(NoMatchError, match="kv_format: requested 'int8_per_token_head'"):
            called(kernels, case, shape, np.uint16, out=out)
        assert kernels.usage() == {}
    assert (out == 7).all()


def test_codes_without_scales_are_refused_by_name(capped):
    shape = capped_shape(2, 3)
    case = attention.call(shape)
    with pytest.raises(ArgumentError, match=r"k_scale: not given; allowed: FP32 .*i8 codes") as caught:
        called(capped, case, shape, k_scale=None, v_scale=None)
    assert "v_scale: not given" in str(caught.value)


def test_float8_codes_are_fp8_and_never_integers(capped):
    """D8"""
    torch = pytest.importorskip("torch")
    shape = capped_shape(2, 3, "fp8")
    case = attention.call(shape)
    tensors = {name: torch.from_numpy(tensor.view.copy()) for name, tensor in case.tensors.items()}
    tensors["q"] = tensors["q"].view(torch.bfloat16)
    tensors["out"] = torch.full(tensors["q"].shape, torch.nan, dtype=torch.float16)
    for name in ("k_cache", "v_cache"):
        tensors[name] = tensors[name].view(torch.float8_e4m3fn)
    required = [tensors.pop(name) for name in ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")]
    options = {"sliding_window": shape.window, "logit_cap": shape.logit_cap, "num_splits": shape.splits}
    capped.decode_attention(*required, case.scalars["sm_scale"], **tensors, **options)
    assert_is_reference((tensors["out"].numpy(), tensors["lse"].numpy()), case)
    required[1] = required[1].view(torch.int8)
    with pytest.raises(ArgumentError, match="v_cache: elements of e4m3fn; allowed: i8, as k_cache has"):
        capped.decode_attention(*required, case.scalars["sm_scale"], **tensors, **options)


def test_the_number_of_splits_is_chosen_for_several_queries_too(capped):
    # Few enough requests that there would be more splits than keys, and more than the merge takes.
    shape = capped_shape(3, 5, keys=(40,) * 9, splits=None)
    assert_is_attention(capped, shape)


def test_the_paged_decode_call_takes_several_queries(capped):
    shape = capped_shape(3, 5, keys=(70, 1, 40), window=33)
    case = attention.call(shape)
    given = {name: tensor.view.copy() for name, tensor in case.tensors.items()}
    out = np.full(given["q"].shape, np.nan, np.float16)
    logits, lse = np.full((3, 3, 10, 8, 64), np.nan, np.float32), np.full((3, 3, 10, 8), np.nan, np.float32)
    capped.decode_paged_attention(
        *(given[name] for name in ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")), logits, lse,
        np.array([8, 1, 3], np.int32), 8, case.scalars["sm_scale"], 33, given["sinks"], out, logit_cap=shape.logit_cap,
        k_scale=given["k_scale"], v_scale=given["v_scale"],
    )  # fmt: skip
    wanted = attention.expected(case)["out"]
    assert (np.abs(out.astype(float) - wanted) <= 0.002 + 0.02 * np.abs(wanted)).all()


def test_a_plan_of_several_queries_follows_its_tensors(capped):
    shape = capped_shape(3, 5)
    case, other = attention.call(shape), attention.call(capped_shape(3, 5, seed=1))
    given = {name: tensor.view.copy() for name, tensor in case.tensors.items()}
    given["out"] = np.full(given["q"].shape, np.nan, np.float16)
    held = dict(given)
    arguments = [given.pop(name) for name in ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")]
    options = {"sliding_window": shape.window, "logit_cap": shape.logit_cap, "num_splits": 2}
    plan = capped.plan(*arguments, case.scalars["sm_scale"], **given, **options)
    plan.launch()
    assert_is_reference((held["out"], held["lse"]), case)
    for name, tensor in other.tensors.items():
        if name not in case.outputs:
            held[name][...] = tensor.view
    plan.launch()
    assert_is_reference((held["out"], held["lse"]), other)


def test_debug_mode_reads_the_positions_of_all_queries(capped_bundle):
    shape = capped_shape(3, 5)
    case = attention.call(shape)
    with assay.runtime.load(capped_bundle, device="emulator", debug=True) as kernels:
        assert_is_reference(called(kernels, case, shape), case)
        indices = case.tensors["indices"].view.copy()
        indices[7] = 100_000
        with pytest.raises(ArgumentError, match=r"indices\[7\]: 100000"):
            called(kernels, case, shape, indices=indices)
        positions = case.tensors["q_positions"].view.copy()
        for wrong in (1 << 40, -4):
            positions[0, 1] = wrong
            with pytest.raises(ArgumentError, match=rf"q_positions\[1\]: {wrong}"):
                called(kernels, case, shape, q_positions=positions)


def test_support_is_asked_for_with_rows_and_group(capped):
    facts = {"q_dtype": "bf16", "head_dim": 64, "kv_format": "int8_per_token_head", "slot_dtype": "i32"}
    facts |= {"window": True, "soft_cap": True, "alignment": 16}
    assert capped.supports("decode_attention", **facts, rows=3, gqa=5)
    problems = [
        capped.variant(capped.select("decode_attention", **facts, rows=rows, gqa=gqa).row.id).problem["block_m"]
        for rows, gqa in ((3, 5), (3, 6), (8, 72))
    ]
    assert problems == [16, 64, 64]
    assert not capped.supports("decode_attention", **facts, rows=9, gqa=1)
    assert capped.supports("decode_attention", **facts, rows=3, query_rows=15)


def test_a_workspace_for_several_queries_is_as_large_as_is_said(capped):
    shape = capped_shape(3, 5)
    case = attention.call(shape)
    sizes = {"batch": 3, "rows": 3, "q_heads": 10, "head_dim": 64, "num_splits": 2}
    size = capped.workspace_size(**sizes)
    workspace = np.full(size + 64, 0xA5, np.uint8)
    got = called(capped, case, shape, workspace=workspace[:size])
    assert_is_reference(got, case)
    assert (workspace[size:] == 0xA5).all()
    # The LSE has a buffer of its own in this call, and so is no part of what it needs.
    needed = size - 4 * 3 * 3 * 10
    with pytest.raises(ArgumentError, match=f"workspace: {needed - 1} bytes; allowed: at least {needed} bytes"):
        called(capped, case, shape, workspace=workspace[: needed - 1])
