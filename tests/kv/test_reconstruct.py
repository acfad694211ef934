"""`kv_reconstruct` as a serving engine calls it, on the emulator."""

import pytest
import torch

from assay.runtime import ArgumentError, NoMatchError

from .engine import Engine, bits

CODES = ["fp8_per_token_head", "int8_per_token_head"]
FORMATS = ["bf16", *CODES]
POISON = 0x4321


def call_of(kv_format="fp8_per_token_head", slots=(6, 1, 3), rows=5, capacity=9, **sizes):
    """Tensors of a call, and what k_out and v_out must be: torch's FP32 product, rounded to BF16, or the rows."""
    engine = Engine(kv_format, capacity=capacity, **sizes)
    generator = torch.Generator().manual_seed(3)
    tensors = {"slots": torch.tensor(slots, dtype=sizes.get("slot_dtype", torch.int32))}
    expected = {}
    for name in ("k", "v"):
        codes = torch.randint(0, 256, engine.tensors[f"{name}_cache"].shape, generator=generator).to(torch.uint8)
        if kv_format == "bf16":
            # Any bits: infinities, subnormal numbers and NaN of either sign among them.
            codes = torch.randint(-(2**15), 2**15, codes.shape, generator=generator).to(torch.int16)
            codes[:, 0, :4] = torch.tensor([0x7F80, 0x7F81, -1, 1])
            values = codes.view(torch.bfloat16)
        else:
            codes[(codes & 0x7F) == 0x7F] = 0x80
            tensors[f"{name}_scale"] = torch.rand(codes.shape[:2], generator=generator)
            held = codes.view(torch.float8_e4m3fn if kv_format == "fp8_per_token_head" else torch.int8)
            values = (held.float() * tensors[f"{name}_scale"][..., None]).to(torch.bfloat16)
        out = torch.full((rows, *codes.shape[1:]), POISON, dtype=torch.int16).view(torch.bfloat16)
        wanted = out.clone()
        for token, slot in enumerate(slots):
            if 0 <= slot < capacity:
                wanted[token] = values[slot]
        tensors[f"{name}_cache"] = codes.view(engine.tensors[f"{name}_cache"].dtype)
        tensors[f"{name}_out"], expected[f"{name}_out"] = out, wanted
    return {"k_scale": None, "v_scale": None, **tensors}, expected


def assert_same(tensors, expected):
    for name, wanted in expected.items():
        assert bits(tensors[name]).equal(bits(wanted)), name


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("head_dim", [64, 72, 96])
def test_listed_rows_are_reconstructed_and_the_tail_stays(kernels, kv_format, slot_dtype, head_dim):
    tensors, expected = call_of(kv_format, slots=(6, 1, 3, 6), slot_dtype=slot_dtype, head_dim=head_dim)
    kernels.kv_reconstruct(**tensors)
    assert_same(tensors, expected)


def test_slots_below_0_and_behind_the_cache_leave_their_rows(kernels, debugging):
    """C19"""
    tensors, expected = call_of(slots=(6, -1, 9, 8, -7))
    kernels.kv_reconstruct(**tensors)
    assert_same(tensors, expected)
    with pytest.raises(ArgumentError, match=r"slots\[2\]: 9 \(1 such\); allowed: at most 8"):
        debugging.kv_reconstruct(**tensors)


def test_a_workspace_one_row_short_is_refused(kernels):
    tensors, _ = call_of(rows=3)
    kernels.kv_reconstruct(**tensors)
    short = {**tensors, "k_out": tensors["k_out"][:2]}
    with pytest.raises(ArgumentError, match="k_out: 2 rows; allowed: at least 3, as slots has"):
        kernels.kv_reconstruct(**short)


def test_codes_as_float8_or_uint8_are_the_same_and_int8_never(kernels):
    """D8"""
    tensors, expected = call_of()
    viewed = {name: tensors[name].view(torch.float8_e4m3fn) for name in ("k_cache", "v_cache")}
    kernels.kv_reconstruct(**{**tensors, **viewed})
    assert_same(tensors, expected)
    as_int8 = {name: tensors[name].view(torch.int8) for name in ("k_cache", "v_cache")}
    with pytest.raises(ArgumentError, match="k_cache: elements of i8; allowed: u8 or e4m3fn"):
        kernels.kv_reconstruct(**{**tensors, **as_int8}, kv_format="fp8_per_token_head")


def test_a_bf16_cache_has_no_scales_and_codes_need_theirs(kernels):
    plain, _ = call_of("bf16")
    codes, _ = call_of()
    with pytest.raises(ArgumentError, match=r"k_scale: given; allowed: row .* takes no such argument"):
        kernels.kv_reconstruct(**{**plain, "k_scale": codes["k_scale"]})
    with pytest.raises(ArgumentError, match=r"v_scale: not given; allowed: row .* needs it"):
        kernels.kv_reconstruct(**{**codes, "v_scale": None})
    half = {name: plain[name].view(torch.float16) for name in ("k_cache", "v_cache")}
    with pytest.raises(NoMatchError, match="kv_format"):
        kernels.kv_reconstruct(**{**plain, **half})


def test_k_and_v_beside_each_other_in_one_workspace(kernels):
    tensors, expected = call_of(rows=4)
    block = torch.stack([tensors["k_out"], tensors["v_out"]], 2)
    tensors |= {"k_out": block[:, :, 0], "v_out": block[:, :, 1]}
    kernels.kv_reconstruct(**tensors)
    assert_same(tensors, expected)
    with pytest.raises(ArgumentError, match=r"[kv]_out: shares up to \d+ bytes of memory with [kv]_out"):
        kernels.kv_reconstruct(**{**tensors, "v_out": block[:, :, 0]})


def test_an_empty_list_of_slots_does_nothing(kernels):
    tensors, expected = call_of(slots=())
    kernels.kv_reconstruct(**tensors)
    assert_same(tensors, expected)


def test_what_was_stored_comes_back_as_torch_has_it(kernels):
    for kv_format in FORMATS:
        engine = Engine(kv_format)
        kernels.kv_store(**engine.tensors)
        names = ("k_cache", "v_cache", "k_scale", "v_scale", "slots")
        outs = {f"{name}_out": torch.zeros_like(engine.tensors[name]) for name in ("k", "v")}
        kernels.kv_reconstruct(**{name: engine.tensors.get(name) for name in names}, **outs)
        for name in ("k", "v"):
            if kv_format == "bf16":
                assert outs[f"{name}_out"].equal(engine.tensors[name])
                continue
            codes, scales = engine.stored(name)
            codes = codes.view(torch.float8_e4m3fn) if codes.dtype == torch.uint8 else codes
            assert outs[f"{name}_out"].equal((codes.float() * scales[..., None]).to(torch.bfloat16))
