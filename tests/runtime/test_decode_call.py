"""The whole path that a serving engine takes: load, dispatch, stage 1, merge, on the emulator as the device."""

import functools
import gc
import logging

import numpy as np
import pytest
import torch

import assay.runtime
from assay.runtime import ArgumentError, AssayRuntimeError, NoMatchError, NotLoadedError, UnknownRowError
from assay.runtime.drivers.emulator import EmulatedFault

from .decode_inputs import Engine, assert_close


@pytest.fixture
def kernels(decode_bundle):
    with assay.runtime.load(decode_bundle, device="emulator") as loaded:
        yield loaded


def numpy_of(tensor):
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


@pytest.mark.parametrize("fp8", [True, False])
@pytest.mark.parametrize("window", [None, 1, 17])
def test_a_decode_call_on_torch_tensors_is_attention(kernels, fp8, window):
    engine = Engine(fp8=fp8)
    out = kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=window)
    assert out.dtype is torch.bfloat16
    assert_close(out, engine.attention(window)[0])
    assert not out[2].any(), "a request without keys gives zeros"


def test_the_same_call_on_numpy_arrays_gives_the_same_bits(kernels):
    engine = Engine()
    of_torch = kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=3)
    arrays = [numpy_of(tensor) for tensor in engine.arguments[:-1]]
    scales = {name: numpy_of(tensor) for name, tensor in engine.scales.items()}
    of_numpy = kernels.decode_attention(*arrays, engine.arguments[-1], **scales, num_splits=3)
    np.testing.assert_array_equal(of_numpy, numpy_of(of_torch))


def test_codes_may_be_held_as_float8(kernels):
    engine = Engine()
    as_bytes = kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=2)
    q, k, v, *rest = engine.arguments
    codes = (cache.view(torch.float8_e4m3fn) for cache in (k, v))
    assert torch.equal(kernels.decode_attention(q, *codes, *rest, **engine.scales, num_splits=2), as_bytes)


def test_sinks_and_the_merged_lse(kernels):
    engine = Engine()
    sinks = torch.linspace(-2, 3, engine.q.shape[1])
    lse = torch.full(engine.q.shape[:2], torch.nan)
    out = kernels.decode_attention(*engine.arguments, **engine.scales, sinks=sinks, lse=lse)
    expected, expected_lse = engine.attention(sinks=sinks)
    assert_close(out, expected)
    torch.testing.assert_close(lse.double(), expected_lse, atol=0.002, rtol=0.02)


@pytest.mark.parametrize("splits", [1, 2, 128])
def test_splits_change_nothing_but_rounding(kernels, splits):
    engine = Engine(lengths=(130, 5))
    assert_close(kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=splits), engine.attention()[0])


def test_a_call_with_all_buffers_given_writes_these_and_nothing_behind_them(kernels):
    engine = Engine()
    batch, heads, head_dim = engine.q.shape
    size = kernels.workspace_size(batch=batch, q_heads=heads, head_dim=head_dim, num_splits=4)
    guarded = torch.full((size + 64,), 0xA5, dtype=torch.uint8)
    out = torch.full_like(engine.q, torch.nan)
    given = kernels.decode_attention(
        *engine.arguments, **engine.scales, num_splits=4, out=out, workspace=guarded[:size]
    )
    assert given is out
    assert_close(out, engine.attention()[0])
    assert (guarded[size:] == 0xA5).all()


def test_a_workspace_that_is_one_byte_short_is_refused_before_anything_runs(kernels):
    engine = Engine()
    batch, heads, head_dim = engine.q.shape
    size = kernels.workspace_size(batch=batch, q_heads=heads, head_dim=head_dim, num_splits=4)
    out = torch.full_like(engine.q, 7)
    short = torch.zeros(size - 1, dtype=torch.uint8)
    with pytest.raises(ArgumentError, match=f"workspace: {size - 1} bytes; allowed: at least {size} bytes"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=4, out=out, workspace=short)
    assert (out == 7).all()
    assert kernels.usage() == {}


def test_a_plan_follows_the_contents_of_its_tensors(kernels):
    engine = Engine(lengths=(40, 40))
    plan = kernels.plan(*engine.arguments, **engine.scales, num_splits=2)
    assert_close(plan.launch(), engine.attention()[0])
    assert [(stage.row.family, stage.row.id in kernels.usage()) for stage in plan.stages] == [
        ("decode_attention", True), ("merge_splits", True)
    ]  # fmt: skip
    assert plan.stages[0].grid == (2, 2, 2)
    other = Engine(lengths=(40, 40), seed=5)
    for name in ("q", "k", "v", "indices"):
        getattr(engine, name).copy_(getattr(other, name))
    for name, scale in engine.scales.items():
        scale.copy_(other.scales[name])
    assert_close(plan.launch(), other.attention()[0])


def test_a_plan_keeps_its_tensors_alive(kernels):
    def make():
        engine = Engine(lengths=(40,))
        return kernels.plan(*engine.arguments, **engine.scales), engine.attention()[0]

    plan, expected = make()
    gc.collect()
    assert_close(plan.launch(), expected)


def test_the_paged_decode_call_of_serving_engines(kernels):
    engine = Engine(lengths=(70, 1, 100))
    batch, heads, head_dim = engine.q.shape
    logits = torch.full((batch, heads, 8, head_dim), torch.nan)
    lse = torch.full((batch, heads, 8), torch.nan)
    counts = torch.tensor([8, 1, 3], dtype=torch.int32)
    sinks = torch.zeros(heads)
    out = torch.empty_like(engine.q)
    kernels.decode_paged_attention(
        engine.q, engine.k, engine.v, engine.indptr, engine.indices, engine.q_positions, logits, lse, counts, 8,
        head_dim**-0.5, 33, sinks, out, **engine.scales,
    )  # fmt: skip
    assert_close(out, engine.attention(33, sinks)[0])


def test_partial_buffers_may_have_more_splits_than_are_used_but_not_fewer(kernels):
    engine = Engine(lengths=(70, 100))
    batch, heads, head_dim = engine.q.shape
    logits, lse = torch.full((batch, heads, 200, head_dim), 7.0), torch.full((batch, heads, 200), 7.0)
    counts = torch.tensor([3, 1], dtype=torch.int32)
    arguments = (engine.q, engine.k, engine.v, engine.indptr, engine.indices, engine.q_positions)
    out = kernels.decode_paged_attention(*arguments, logits, lse, counts, 3, head_dim**-0.5, **engine.scales)
    assert_close(out, engine.attention()[0])
    assert (logits[:, :, 3:] == 7).all()
    with pytest.raises(ArgumentError, match="attn_logits, dimension splits: 2 elements; allowed: at least 3"):
        kernels.decode_paged_attention(
            *arguments, logits[:, :, :2], lse, counts, 3, head_dim**-0.5, **engine.scales
        )  # fmt: skip


def test_errors_of_the_paged_call_name_its_arguments_and_keep_their_causes(kernels):
    engine = Engine(lengths=(70, 5))
    arguments = (engine.q, engine.k, engine.v, engine.indptr, engine.indices, engine.q_positions)
    logits, lse, counts = torch.zeros(2, 4, 4, 64), torch.zeros(2, 4, 4), torch.ones(2, dtype=torch.int32)
    paged = functools.partial(kernels.decode_paged_attention, **engine.scales)
    with pytest.raises(ArgumentError, match="attn_logits: 4 dimensions"):
        paged(*arguments, logits[0], lse, counts, 4, 0.125)
    with pytest.raises(ArgumentError, match=r"^max_kv_splits: 0; allowed: 1 to 128$"):
        paged(*arguments, logits, lse, counts, 0, 0.125)
    with pytest.raises(NoMatchError) as caught:
        paged(engine.q.half(), *arguments[1:], logits, lse, counts, 4, 0.125)
    assert caught.value.__cause__ is not None


def test_an_empty_batch_is_answered_without_a_launch(kernels):
    engine = Engine(lengths=())
    out = kernels.decode_attention(*engine.arguments, **engine.scales)
    assert out.shape == (0, 4, 64)
    assert kernels.usage() == {}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"force_row": "nosuch"}, "no row 'nosuch'"),
        ({"forbid_rows": ["nosuch"]}, "no row 'nosuch'"),
        ({"out": torch.zeros(0, 4, 64)}, "out: elements of f32"),
        ({"out": torch.zeros(0, 5, 64, dtype=torch.bfloat16)}, "out, dimension q_heads: 5"),
        ({"sinks": torch.zeros(9)}, "sinks, dimension q_heads: 9"),
        ({"indptr": torch.zeros(1)}, "indptr: elements of f32"),
        ({"indptr": torch.zeros(5, dtype=torch.int32)}, "indptr, dimension batch_plus_1: 5"),
        ({"q_positions": torch.zeros(0)}, "q_positions: elements of f32"),
    ],
)
def test_an_empty_batch_that_is_wrong_is_not_taken_for_right(kernels, wrong, said):
    """An engine that warms up on one would find out with its first request."""
    engine = Engine(lengths=())
    for name in {"indptr", "q_positions"} & wrong.keys():
        setattr(engine, name, wrong[name])
    given = {name: value for name, value in wrong.items() if not hasattr(engine, name)}
    with pytest.raises(AssayRuntimeError, match=said):
        kernels.decode_attention(*engine.arguments, **engine.scales, **given)
    with pytest.raises(AssayRuntimeError, match=said):
        kernels.plan(*engine.arguments, **engine.scales, **given)


def test_all_that_is_wrong_is_told_at_once(kernels):
    engine = Engine()
    q = torch.zeros(engine.q.shape[0], 5, 64, dtype=torch.bfloat16)
    arguments = (q, engine.k, engine.v[:, :1], engine.indptr[:2], engine.indices.long(), engine.q_positions[:1], 0.1)
    with pytest.raises(ArgumentError) as caught:
        kernels.decode_attention(*arguments, k_scale=engine.scales["k_scale"])
    said = [str(fault) for fault in caught.value.faults]
    for part in (
        "q: 5 query heads for 2 KV heads",
        "v_scale: not given",
        "v_cache, dimension kv_heads: 1",
        "indptr, dimension batch_plus_1: 2",
        "q_positions, dimension batch: 1",
        "indices: elements of i64",
    ):
        assert any(line.startswith(part) for line in said), (part, said)


def test_queries_that_stand_before_the_end_of_their_keys(kernels):
    engine = Engine(lengths=(70, 50), positions=(12, 49))
    assert_close(kernels.decode_attention(*engine.arguments, **engine.scales), engine.attention()[0])


def problem_of(kernels):
    (row,) = [id for id in kernels.usage() if kernels.variant(id).family == "decode_attention"]
    return kernels.variant(row).problem


def test_an_unaligned_view_is_answered_by_the_generic_row_with_the_same_result(decode_bundle):
    engine = Engine()
    with assay.runtime.load(decode_bundle, device="emulator") as kernels:
        aligned = kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=2)
        assert problem_of(kernels)["reader"] == "packed"
    # Every tensor whose alignment counts, moved by one element.
    for name in ("q", "k", "v"):
        moved = getattr(engine, name)
        storage = torch.zeros(moved.numel() + 1, dtype=moved.dtype)
        storage[1:] = moved.flatten()
        arguments = list(engine.arguments)
        arguments["qkv".index(name)] = storage[1:].view(moved.shape)
        with assay.runtime.load(decode_bundle, device="emulator") as kernels:
            out = kernels.decode_attention(*arguments, **engine.scales, num_splits=2)
            assert problem_of(kernels)["reader"] == "generic", name
            assert problem_of(kernels)["alignment"] == 1
        torch.testing.assert_close(out, aligned, atol=0.002, rtol=0.02)


def test_a_padded_cache_with_16_byte_strides_stays_with_the_fast_row(kernels):
    engine = Engine()
    wide = torch.zeros(engine.k.shape[0], engine.k.shape[1], engine.head_dim + 16, dtype=torch.uint8)
    wide[..., : engine.head_dim] = engine.k
    q, _, v, *rest = engine.arguments
    assert_close(
        kernels.decode_attention(q, wide[..., : engine.head_dim], v, *rest, **engine.scales), engine.attention()[0]
    )
    assert problem_of(kernels)["reader"] == "packed"


def interleaved(engine):
    """K and V of a slot side by side in one tensor, as some engines hold them."""
    both = torch.stack([engine.k, engine.v], 1)
    return both[:, 0], both[:, 1]


def test_caches_that_share_their_memory(kernels):
    engine = Engine()
    q, _, _, *rest = engine.arguments
    assert_close(kernels.decode_attention(q, *interleaved(engine), *rest, **engine.scales), engine.attention()[0])


def test_an_access_outside_a_tensor_is_named(kernels):
    engine = Engine(lengths=(40,))
    engine.indices[7] = 100_000
    with pytest.raises(EmulatedFault, match=r"k_cache"):
        kernels.decode_attention(*engine.arguments, **engine.scales)


def test_debug_mode_finds_it_before_the_launch(decode_bundle):
    engine = Engine(lengths=(40, 3))
    engine.indices[7] = 100_000
    engine.indices[9] = -1
    with assay.runtime.load(decode_bundle, device="emulator", debug=True) as kernels:
        with pytest.raises(
            ArgumentError, match=r"indices\[7\]: 100000 \(2 such\); allowed: 0 to 51, slots of the caches"
        ):
            kernels.decode_attention(*engine.arguments, **engine.scales)
        assert kernels.usage() == {}
        engine.indices[7], engine.indices[9] = 1, 2
        assert_close(kernels.decode_attention(*engine.arguments, **engine.scales), engine.attention()[0])


REFUSED = {
    "q on a device of torch that is not the kernels'": ({"q": lambda q: q.to("meta")}, "q: on meta:0; allowed: cpu:0"),
    "int64 indices": (
        {"indices": lambda t: t.long()}, "indices: elements of i64; allowed: i32; convert it, with .to(torch.int32)",
    ),
    "FP32 queries": ({"q": lambda q: q.float()}, "q_dtype: requested 'f32', required 'bf16'"),
    "a cache of int8": ({"k": lambda k: k.view(torch.int8), "v": lambda v: v.view(torch.int8)}, "int8_per_token_head"),
    "codes of another FP8": (
        {"k": lambda k: k.view(torch.float8_e4m3fnuz), "v": lambda v: v.view(torch.float8_e4m3fnuz)},
        "k_scale: given; allowed: none: the caches hold e4m3fnuz|e4m3fnuz",
    ),
    "head_dim that is not contiguous": (
        {"k": lambda k: k.transpose(0, 2).contiguous().transpose(0, 2)}, "k_cache, dimension head_dim: stride",
    ),
    "a head_dim that the bundle lacks": (
        {"q": lambda q: q[..., :32], "k": lambda k: k[..., :32], "v": lambda v: v[..., :32]}, "head_dim: requested 32",
    ),
    "query heads that do not divide": ({"q": lambda q: q[:, :3]}, "3 query heads for 2 KV heads"),
    "a batch that differs": (
        {"q_positions": lambda t: t[:-1]}, "q_positions, dimension batch: 3 elements; allowed: 4",
    ),
    "positions of 32 bits": ({"q_positions": lambda t: t.int()}, "q_positions: elements of i32; allowed: i64"),
    "two-dimensional indices": ({"indices": lambda t: t[None]}, "indices: 2 dimensions; allowed: 1"),
    "every second index": ({"indices": lambda t: t.repeat_interleave(2)[::2]}, "indices, dimension nnz: stride 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_the_output_is_untouched(kernels, name):
    changes, said = REFUSED[name]
    engine = Engine()
    for attribute, change in changes.items():
        setattr(engine, attribute, change(getattr(engine, attribute)))
    out = torch.full((4, 4, engine.q.shape[-1]), 7, dtype=torch.bfloat16)
    with pytest.raises((ArgumentError, NoMatchError)) as caught:
        kernels.decode_attention(*engine.arguments, **engine.scales, out=out)
    assert any(part in str(caught.value) for part in said.split("|")), str(caught.value)
    assert (out == 7).all()
    assert kernels.usage() == {}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"sliding_window": 0}, "sliding_window: 0; allowed: None, or 1 to"),
        ({"sliding_window": True}, "sliding_window: True"),
        ({"num_splits": 0}, "num_splits: 0; allowed: 1 to 128"),
        ({"num_splits": 129}, "num_splits: 129"),
        ({"stream": 17}, "stream: 17"),
        ({"force_row": "0000000000000000"}, "no row '0000000000000000'"),
        ({"forbid_rows": ["nonsense"]}, "no row 'nonsense'"),
        ({"k_scale": None}, "k_scale: not given"),
        ({"sinks": torch.zeros(3)}, "sinks, dimension q_heads: 3 elements; allowed: 4"),
        ({"out": torch.zeros(4, 4, 64)}, "out: elements of f32; allowed: bf16 or u16"),
        ({"lse": torch.zeros(4, 5)}, "lse, dimension q_heads"),
    ],
)
def test_options_out_of_range_are_refused_by_name_also_when_the_shape_is_known(kernels, option, said):
    engine = Engine()
    for _ in range(2):
        with pytest.raises(assay.runtime.AssayRuntimeError) as caught:
            kernels.decode_attention(*engine.arguments, **{**engine.scales, **option})
        assert said in str(caught.value)
        # The second round meets a shape that has been prepared.
        kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=3)


def negated(tensor):
    """The same values, in memory that holds their negative."""
    return torch.conj(torch.complex(torch.zeros_like(tensor), -tensor)).imag


NO_WORKSPACES = {
    "a negated view": (lambda size: negated(torch.zeros(size)), "resolve_neg"),
    "a conjugated view": (lambda size: torch.zeros(size, dtype=torch.complex64).conj(), "resolve_neg"),
    "complex numbers": (lambda size: torch.zeros(size, dtype=torch.complex64), "complex64"),
    "an array with a mask": (lambda size: np.ma.zeros(size, np.uint8), "a mask"),
    "a sparse tensor": (lambda size: torch.zeros(size).to_sparse(), "layout"),
    "no tensor": (bytearray, "a bytearray"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_WORKSPACES)
def test_a_workspace_that_is_no_plain_memory_is_refused_by_name(kernels, name):
    make, said = NO_WORKSPACES[name]
    engine, out = Engine(), torch.full((4, 4, 64), 7, dtype=torch.bfloat16)
    for call in (kernels.decode_attention, kernels.plan):
        with pytest.raises(ArgumentError, match=f"workspace: .*{said}"):
            call(*engine.arguments, **engine.scales, num_splits=2, out=out, workspace=make(1 << 20))
    assert (out == 7).all()
    assert kernels.usage() == {}


@pytest.mark.parametrize("name", ["q", "k", "indices"])
def test_a_tensor_without_memory_of_its_own_is_refused_by_name(kernels, name):
    engine = Engine()
    setattr(engine, name, getattr(engine, name).to_sparse())
    with pytest.raises(ArgumentError, match=f"{name}.*: a torch tensor of layout torch.sparse_coo"):
        kernels.decode_attention(*engine.arguments, **engine.scales, out=torch.zeros(4, 4, 64, dtype=torch.bfloat16))


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e39, "0.1", True, None])
def test_a_scale_that_is_no_finite_number_is_refused(kernels, scale):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    with pytest.raises(ArgumentError, match="sm_scale"):
        kernels.decode_attention(*engine.arguments[:-1], scale, **engine.scales)


def test_everything_wrong_is_told_at_once(kernels):
    engine = Engine()
    engine.indices = engine.indices[None]
    engine.q_positions = "nothing"
    with pytest.raises(ArgumentError) as caught:
        kernels.decode_attention(*engine.arguments, k_scale=engine.scales["k_scale"], out=torch.zeros(1).to("meta"))
    said = str(caught.value)
    assert "q_positions: a str" in said


def test_a_forced_row_answers_or_nothing_does_and_it_is_logged(kernels, caplog):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    rows = kernels.rows("decode_attention")
    packed = [row.id for row in rows if kernels.variant(row.id).problem["reader"] == "packed"]
    with caplog.at_level(logging.WARNING, "assay.runtime"):
        out = kernels.decode_attention(*engine.arguments, **engine.scales, forbid_rows=packed)
    assert packed[0] in caplog.text
    assert_close(out, engine.attention()[0])
    generic = next(id for id in kernels.usage() if kernels.variant(id).problem.get("reader") == "generic")
    kernels.decode_attention(*engine.arguments, **engine.scales, force_row=generic)
    assert kernels.usage()[generic] == 2
    with pytest.raises(NoMatchError, match="the forced row does not serve"):
        kernels.decode_attention(*engine.arguments, **engine.scales, force_row=generic, sliding_window=3)
    with pytest.raises(UnknownRowError):
        kernels.decode_attention(*engine.arguments, **engine.scales, force_row="0" * 16)


def test_the_environment_switches_rows_off(decode_bundle, monkeypatch, caplog):
    engine = Engine()
    monkeypatch.setenv("ASSAY_FORBID_ROWS", "reader=packed")
    with (
        caplog.at_level(logging.WARNING, "assay.runtime"),
        assay.runtime.load(decode_bundle, device="emulator") as kernels,
    ):
        assert_close(kernels.decode_attention(*engine.arguments, **engine.scales), engine.attention()[0])
        assert problem_of(kernels)["reader"] == "generic"
    assert "ASSAY_FORBID_ROWS=reader=packed forbids" in caplog.text
    facts = {"head_dim": 64, "rows": 1, "gqa": 2, "kv_format": "bf16", "q_dtype": "bf16", "slot_dtype": "i32"}
    facts |= {"window": False, "soft_cap": False, "alignment": 16, "cache_extent_bytes": 1000}
    monkeypatch.setenv("ASSAY_FORBID_ROWS", "head_dim=64")
    with assay.runtime.load(decode_bundle, device="emulator") as kernels:
        assert not kernels.supports("decode_attention", **facts), "a yes that a call would not keep"
    monkeypatch.setenv("ASSAY_FORBID_ROWS", "reader=pakced")
    with pytest.raises(ArgumentError, match="reader=pakced matches no row"):
        assay.runtime.load(decode_bundle, device="emulator")


def test_a_fallback_answers_what_no_row_does(kernels):
    engine = Engine(head_dim=32)
    seen = []
    given = kernels.decode_attention(
        *engine.arguments, **engine.scales, fallback=lambda *args, **more: seen.append((args, more)) or "answered"
    )
    assert given == "answered"
    assert seen[0][0] == engine.arguments
    assert seen[0][1]["k_scale"] is engine.scales["k_scale"]


def test_a_fallback_answers_a_head_dim_whose_workspace_no_row_could_read(kernels):
    # 65 FP32 numbers are no multiple of 16 bytes: no fault of the caller's, who gives no partial results.
    engine = Engine(head_dim=65)
    with pytest.raises(NoMatchError, match="head_dim: requested 65"):
        kernels.decode_attention(*engine.arguments, **engine.scales)
    assert kernels.decode_attention(*engine.arguments, **engine.scales, fallback=lambda *_, **__: "answered")


def test_a_fault_of_the_merge_names_nothing_that_the_caller_did_not_give(kernels):
    engine = Engine()
    q = engine.arguments[0]
    wrong = {"out": q.new_zeros(q.shape[0], q.shape[1] + 1, q.shape[2]), "sinks": q.new_zeros(3).float()}
    with pytest.raises(ArgumentError) as caught:
        kernels.decode_attention(*engine.arguments, **engine.scales, **wrong)
    assert "as the call has it" in str(caught.value)
    assert "partial" not in str(caught.value)
    with pytest.raises(ArgumentError, match=r"^out: elements of i8; allowed: .*bf16 or u16") as caught:
        kernels.decode_attention(*engine.arguments, **engine.scales, out=q.to(torch.int8))
    assert str(caught.value).count("u16") == 1


def test_a_fallback_that_cannot_be_called_is_refused_where_a_row_answers(kernels):
    engine = Engine()
    with pytest.raises(ArgumentError, match=r"^fallback: 'triton'; allowed: what can be called"):
        kernels.decode_attention(*engine.arguments, **engine.scales, fallback="triton")
    assert kernels.usage() == {}


def test_a_fallback_does_not_hide_wrong_arguments(kernels):
    engine = Engine()
    with pytest.raises(ArgumentError):
        kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=0, fallback=lambda *_, **__: None)


def test_a_bundle_loaded_to_pick_rows_says_how_to_launch(decode_bundle):
    engine = Engine()
    kernels = assay.runtime.load(decode_bundle, device=("hip", "gfx1201"))
    with kernels, pytest.raises(NotLoadedError, match=r"device='cuda:0'"):
        kernels.decode_attention(*engine.arguments, **engine.scales)


def test_any_family_can_be_launched_on_the_tensors_of_its_contract(kernels):
    # Two partial results with LSE 0 and ln 3, outputs 0 and 1: weights 1/4 and 3/4.
    partial = torch.zeros(1, 1, 2, 2, 64)
    partial[..., 1, :] = 1
    lse = torch.tensor([0.0, np.log(3)]).float().expand(1, 1, 2, 2).contiguous()
    out, merged = torch.zeros(1, 1, 2, 64, dtype=torch.bfloat16), torch.zeros(1, 1, 2)
    tensors = {
        "partial_out": partial, "partial_lse": lse, "num_kv_splits": torch.tensor([2], dtype=torch.int32), "out": out,
        "lse": merged,
    }  # fmt: skip
    row = kernels.launch("merge_splits", tensors, facts={"out_dtype": "bf16", "head_dim": 64, "sinks": False})
    assert kernels.usage() == {row: 1}
    assert (out == 0.75).all()
    torch.testing.assert_close(merged, torch.full((1, 1, 2), np.log(4), dtype=torch.float32))


def test_preload_loads_every_row_once(kernels):
    rows = sum(len(kernels.rows(family)) for family in kernels.families())
    assert kernels.preload() == rows
    assert kernels.preload(["merge_splits"]) == len(kernels.rows("merge_splits"))


def test_nothing_can_be_launched_after_close(decode_bundle):
    engine = Engine()
    kernels = assay.runtime.load(decode_bundle, device="emulator")
    kernels.close()
    with pytest.raises(assay.runtime.AssayRuntimeError):
        kernels.decode_attention(*engine.arguments, **engine.scales)


class TestAfterAGoodCall:
    """A shape that is known skips most checks: what may still change is a part of what it is known by."""

    @pytest.fixture
    def engine(self, kernels):
        engine = Engine()
        kernels.decode_attention(*engine.arguments, **engine.scales, out=torch.empty_like(engine.q), num_splits=2)
        return engine

    @pytest.mark.parametrize("name", ["q", "k", "v", "indices"])
    def test_memory_that_was_taken_away_is_found(self, kernels, engine, name):
        getattr(engine, name).untyped_storage().resize_(0)
        with pytest.raises(ArgumentError, match="address 0; allowed: memory"):
            kernels.decode_attention(
                *engine.arguments, **engine.scales, out=torch.empty(4, 4, 64, dtype=torch.bfloat16), num_splits=2
            )

    def test_an_output_without_memory_is_found(self, kernels, engine):
        out = torch.empty_like(engine.q)
        out.untyped_storage().resize_(0)
        with pytest.raises(ArgumentError, match="out: address 0"):
            kernels.decode_attention(*engine.arguments, **engine.scales, out=out, num_splits=2)

    def test_another_device_is_found(self, kernels, engine):
        engine.v = engine.v.to("meta")
        with pytest.raises(ArgumentError, match="v_cache: on meta"):
            kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=2)

    @pytest.mark.parametrize("name", ["k_scale", "v_scale"])
    def test_a_negated_view_is_refused(self, kernels, engine, name):
        scale = engine.scales[name]
        view = negated(scale)
        assert torch.equal(view, scale)
        assert view.is_neg()
        given = {**engine.scales, name: view}
        with pytest.raises(ArgumentError, match="resolve_neg"):
            kernels.decode_attention(*engine.arguments, **given, num_splits=2)

    @pytest.mark.parametrize("option", [{"num_splits": 2.0}, {"num_splits": True}])
    def test_what_equals_a_known_option_but_is_none_is_refused(self, kernels, engine, option):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1)
        with pytest.raises(ArgumentError, match="num_splits"):
            kernels.decode_attention(*engine.arguments, **engine.scales, **option)

    @pytest.mark.parametrize("stream", [7, -1, 4095])
    def test_a_plan_takes_no_id_for_a_stream(self, kernels, engine, stream):
        plan = kernels.plan(*engine.arguments, **engine.scales)
        with pytest.raises(ArgumentError, match="stream"):
            plan.launch(stream)

    def test_nothing_runs_behind_close(self, kernels, engine):
        plan = kernels.plan(*engine.arguments, **engine.scales)
        kernels.close()
        calls = {"splits of a known call": 2, "splits of a new one": 3}.values()
        again = [lambda n=n: kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=n) for n in calls]
        for launch in (plan.launch, *again, kernels.preload, lambda: kernels.plan(*engine.arguments, **engine.scales)):
            with pytest.raises(assay.runtime.AssayRuntimeError, match="closed"):
                launch()


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_scale_of_any_size_is_refused_by_name(kernels, value):
    with pytest.raises(ArgumentError, match="sm_scale"):
        kernels.decode_attention(*Engine().arguments[:-1], value, **Engine().scales)


@pytest.mark.parametrize(
    "sizes", [{"batch": -1}, {"batch": 2.5}, {"batch": "1"}, {"num_splits": 0}, {"num_splits": 500}, {"head_dim": True}]
)
def test_a_workspace_of_impossible_sizes_has_no_size(kernels, sizes):
    with pytest.raises(ArgumentError, match=next(iter(sizes))):
        kernels.workspace_size(**{"batch": 1, "q_heads": 8, "head_dim": 64, **sizes})


def test_a_workspace_for_any_number_of_splits(kernels):
    sizes = {"batch": 2, "q_heads": 8, "head_dim": 64}
    largest = kernels.workspace_size(**sizes, num_splits=128)
    assert kernels.workspace_size(**sizes) == kernels.workspace_size(**sizes, num_splits=None) == largest


class Lying:
    """An array whose interface says what it is told to."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {
            "shape": (4,),
            "typestr": "<i4",
            "data": (4096, False),
            "version": 3,
        } | interface


@pytest.mark.parametrize(
    "interface",
    [{"data": None}, {"typestr": "x"}, {"strides": (4, 4)}, {"shape": (-5,)}, {"mask": object()}, {"typestr": "<c8"}],
)
def test_an_array_that_describes_itself_wrongly_is_refused_by_name(kernels, interface):
    engine = Engine()
    engine.q_positions = Lying(**interface)
    with pytest.raises(ArgumentError, match="q_positions: a"):
        kernels.decode_attention(*engine.arguments, **engine.scales)


def test_facts_that_the_tensors_contradict_are_refused(kernels):
    engine = Engine(fp8=False)
    batch, _, head_dim = engine.q.shape
    tensors = {
        "q": engine.q.view(batch, 1, 2, 2, head_dim), "k_cache": engine.k, "v_cache": engine.v,
        "indptr": engine.indptr, "indices": engine.indices, "q_positions": engine.q_positions[:, None],
        "num_kv_splits": torch.ones(batch, dtype=torch.int32),
        "partial_out": torch.zeros(batch, 1, 2, 2, 1, head_dim), "partial_lse": torch.zeros(batch, 1, 2, 2, 1),
    }  # fmt: skip
    facts = {"q_dtype": "bf16", "kv_format": "bf16", "slot_dtype": "i32", "window": False, "soft_cap": False}
    scalars = {"sm_scale": 0.1}
    kernels.launch("decode_attention", tensors, scalars, facts)
    for wrong in ({"cache_extent_bytes": 0}, {"alignment": 1}, {"head_dim": 128}, {"rows": 2}, {"query_rows": 1}):
        with pytest.raises(ArgumentError, match=f"{next(iter(wrong))}: .*as the tensors have it"):
            kernels.launch("decode_attention", tensors, scalars, facts | wrong)
    with pytest.raises(assay.runtime.UnknownFieldError, match="windw"):
        kernels.launch("decode_attention", tensors, scalars, facts | {"windw": False})
    with pytest.raises(ArgumentError, match="zz: not an argument"):
        kernels.launch("decode_attention", tensors, {**scalars, "zz": 1}, facts)
