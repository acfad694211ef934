"""`kv_store` as a serving engine calls it, on the emulator: layouts, slots, and what is refused and how."""

import numpy as np
import pytest
import torch

from assay.runtime import ArgumentError, NoMatchError

from .engine import Engine, bits

FORMATS = ["bf16", "fp8_per_token_head", "int8_per_token_head"]


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
def test_rows_go_to_their_slots_and_nowhere_else(kernels, kv_format, slot_dtype):
    engine = Engine(kv_format, slot_dtype=slot_dtype)
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


@pytest.mark.parametrize("head_dim", [64, 72, 80, 96, 128])
def test_head_sizes_that_are_no_power_of_two_are_masked(kernels, head_dim):
    engine = Engine(head_dim=head_dim)
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


def test_the_narrowest_row_with_alignment_answers(kernels):
    for head_dim, wanted in ((64, (64, 16)), (80, (128, 16)), (72, (128, 1))):
        before = kernels.usage()
        kernels.kv_store(**Engine(head_dim=head_dim).tensors)
        (row,) = (id for id, count in kernels.usage().items() if count > before.get(id, 0))
        problem = kernels.variant(row).problem
        assert (problem["most_head_dim"], problem["alignment"]) == wanted


@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
def test_slots_below_0_and_behind_the_cache_are_skipped(kernels, slot_dtype):
    """C19"""
    wrong = (2**31 - 1, -(2**31)) if slot_dtype == torch.int32 else (2**32 + 1, -(2**32) + 1)
    engine = Engine(slots=(5, -1, 9, -7, 0, 10, 8, *wrong), slot_dtype=slot_dtype)
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


def test_debug_mode_names_a_slot_behind_the_cache_and_one_listed_twice(debugging):
    """C19"""
    debugging.kv_store(**Engine(slots=(-1, 3, -7, 8)).tensors)
    engine = Engine(slots=(0, 9, 2, 11))
    with pytest.raises(ArgumentError, match=r"slots\[1\]: 9 \(2 such\); allowed: at most 8, the cache's last slot"):
        debugging.kv_store(**engine.tensors)
    assert (engine.tensors["k_cache"] == 0x55).all()
    with pytest.raises(ArgumentError, match=r"slots\[3\]: 4, as slots\[1\]; allowed: each slot once"):
        debugging.kv_store(**Engine(slots=(-1, 4, -1, 4)).tensors)


def test_slots_of_another_width_are_refused_by_name(kernels):
    """C19"""
    engine = Engine()
    engine.tensors["slots"] = engine.tensors["slots"].to(torch.int16)
    with pytest.raises(ArgumentError, match="slots: elements of i16; allowed: i32 or i64"):
        kernels.kv_store(**engine.tensors)


def test_float8_caches_are_taken_by_their_bits(kernels):
    """D8"""
    engine = Engine()
    held = {name: engine.tensors[name] for name in ("k_cache", "v_cache")}
    viewed = {name: cache.view(torch.float8_e4m3fn) for name, cache in held.items()}
    kernels.kv_store(**{**engine.tensors, **viewed})
    engine.check_stored()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.float8_e5m2])
def test_other_fp8_types_are_refused(kernels, dtype):
    """D7"""
    engine = Engine()
    viewed = {name: engine.tensors[name].view(dtype) for name in ("k_cache", "v_cache")}
    with pytest.raises(ArgumentError, match="the cache holds OCP E4M3FN codes"):
        kernels.kv_store(**{**engine.tensors, **viewed})
    assert (engine.tensors["k_cache"] == 0x55).all()


def test_an_int8_cache_never_takes_fp8_codes(kernels):
    """D8: the type tells the format; where the caller names another, both are named."""
    engine = Engine("int8_per_token_head")
    with pytest.raises(ArgumentError, match="k_cache: elements of i8; allowed: u8 or e4m3fn; the cache holds OCP"):
        kernels.kv_store(**engine.tensors, kv_format="fp8_per_token_head")
    mixed = {**Engine().tensors, "v_cache": engine.tensors["v_cache"]}
    with pytest.raises(ArgumentError, match="v_cache: elements of i8"):
        kernels.kv_store(**mixed)
    with pytest.raises(ArgumentError, match="k_cache: elements of u8; allowed: i8; pass int8"):
        kernels.kv_store(**Engine().tensors, kv_format="int8_per_token_head")
    with pytest.raises(NoMatchError, match="kv_format"):
        kernels.kv_store(**Engine().tensors, kv_format="fp4")


def test_scales_of_the_wrong_shape_missing_or_superfluous_are_named(kernels):
    engine = Engine()
    with pytest.raises(ArgumentError, match="k_scale: not given"):
        kernels.kv_store(**{**engine.tensors, "k_scale": None})
    with pytest.raises(ArgumentError, match="v_scale, dimension kv_heads: 1 elements; allowed: 2, as k has it"):
        kernels.kv_store(**{**engine.tensors, "v_scale": torch.zeros(9, 1)})
    with pytest.raises(ArgumentError, match="v_scale: 1 dimensions"):
        kernels.kv_store(**{**engine.tensors, "v_scale": torch.zeros(9)})
    with pytest.raises(ArgumentError, match="k_scale: elements of f64"):
        kernels.kv_store(**{**engine.tensors, "k_scale": torch.zeros(9, 2, dtype=torch.float64)})
    plain = Engine("bf16")
    with pytest.raises(ArgumentError, match=r"k_scale: given; allowed: row .* takes no such argument"):
        kernels.kv_store(**plain.tensors, k_scale=torch.zeros(9, 2))


def test_scales_on_another_stride_order_are_written_where_they_belong(kernels):
    engine = Engine()
    for name in ("k_scale", "v_scale"):
        engine.tensors[name] = engine.tensors[name].t().contiguous().t()
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


@pytest.mark.parametrize("kv_format", FORMATS)
def test_k_and_v_of_one_block_beside_each_other_are_no_overlap(kernels, kv_format):
    """An engine's [slots, 2, heads, head_dim], and rows cut out of a fused projection."""
    engine = Engine(kv_format)
    for pair in (("k_cache", "v_cache"), ("k_scale", "v_scale"), ("k", "v")):
        if pair[0] in engine.tensors:
            block = torch.stack([engine.tensors[name] for name in pair], 1)
            engine.tensors |= {name: block[:, at] for at, name in enumerate(pair)}
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


def test_scales_behind_the_codes_of_their_row_are_no_overlap(kernels):
    engine = Engine(head_dim=64)
    for name in ("k", "v"):
        rows = torch.full((9, 2, 68), 0x55, dtype=torch.uint8)
        rows[..., 64:].view(torch.float32)[:] = float("nan")
        engine.tensors |= {f"{name}_cache": rows[..., :64], f"{name}_scale": rows[..., 64:].view(torch.float32)[..., 0]}
    kernels.kv_store(**engine.tensors)
    engine.check_stored()


def test_memory_that_is_shared_is_refused_by_name_whatever_was_called_before(kernels):
    engine = Engine("bf16", slots=(0, 1, 2))
    kernels.kv_store(**engine.tensors)
    cache = engine.tensors["k_cache"]
    with pytest.raises(
        ArgumentError,
        match=r"[kv]_cache: shares up to \d+ bytes of memory with [kv]_cache; allowed: memory that no other",
    ):
        kernels.kv_store(**{**engine.tensors, "v_cache": cache})
    with pytest.raises(ArgumentError, match=r"k_cache: shares up to \d+ bytes of memory with k\b"):
        kernels.kv_store(**{**engine.tensors, "k": cache[4:7]})
    with pytest.raises(ArgumentError, match=r"v_cache: strides .* put several elements in one place"):
        kernels.kv_store(**{**engine.tensors, "v_cache": cache[:1].clone().expand(9, -1, -1)})


def test_a_call_without_a_token_or_a_slot_does_nothing(kernels):
    engine = Engine(slots=())
    kernels.kv_store(**engine.tensors)
    engine.check_stored()
    empty = Engine(slots=(0, -1), capacity=0)
    kernels.kv_store(**empty.tensors)


def test_what_is_no_tensor_or_none_is_named_all_at_once(kernels):
    with pytest.raises(ArgumentError) as error:
        kernels.kv_store(**{**Engine().tensors, "k": None, "slots": None}, kv_format=8)
    assert [fault.where for fault in error.value.faults] == ["k", "slots", "kv_format"]
    with pytest.raises(ArgumentError, match="v: a list"):
        kernels.kv_store(**{**Engine().tensors, "v": [1.0]})


def test_views_of_pages_are_refused_by_their_rank(kernels):
    engine = Engine()
    paged = engine.tensors["k_cache"].view(3, 3, 2, 128)
    with pytest.raises(ArgumentError, match=r"k_cache: 4 dimensions; allowed: 3: \[capacity, kv_heads, head_dim\]"):
        kernels.kv_store(**{**engine.tensors, "k_cache": paged})


def test_rows_that_are_not_bf16_are_refused(kernels):
    engine = Engine()
    with pytest.raises(ArgumentError, match="k: elements of f16; allowed: bf16 or u16"):
        kernels.kv_store(**{**engine.tensors, "k": engine.tensors["k"].half()})


def test_numpy_arrays_give_the_same_bits(kernels):
    of_torch, of_numpy = Engine(), Engine()
    kernels.kv_store(**of_torch.tensors)
    arrays = {
        name: tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()
        for name, tensor in of_numpy.tensors.items()
    }
    kernels.kv_store(**arrays)
    for name, tensor in of_torch.tensors.items():
        assert bits(tensor).equal(bits(of_numpy.tensors[name])), name
