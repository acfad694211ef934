"""Raw codes and bits (field cases D1, D2, D6, D7, D8, D9), and caches beyond 2 GiB (C2), on the emulator."""

import dataclasses
import mmap

import numpy as np
import pytest

from assay.reference.kv_rows import nearest_e4m3fn, nearest_int8
from assay.reference.number_formats import e4m3fn_values, from_bf16, to_bf16
from tests.kernels.running import interpret, variant_for

FP8, INT8 = "fp8_per_token_head", "int8_per_token_head"
HELD = {"bf16": np.uint16, FP8: np.uint8, INT8: np.int8}
MIB = 1 << 20


def stored(kernels, kv_format, rows):
    """Codes as bytes, and scales, of rows of BF16 bits [tokens, width]; the width is filled up with zeros."""
    padded = np.zeros((len(rows), 1, 128), np.uint16)
    padded[:, 0, : rows.shape[1]] = rows
    caches = {f"{name}_cache": np.zeros(padded.shape, HELD[kv_format]) for name in "kv"}
    scales = {f"{name}_scale": np.zeros((len(rows), 1), np.float32) for name in "kv"}
    kernels.kv_store(padded, padded.copy(), np.arange(len(rows), dtype=np.int32), **caches, **scales)
    for one, other in (caches, scales):
        assert ({**caches, **scales}[one].tobytes()) == ({**caches, **scales}[other].tobytes())
    return caches["k_cache"][:, 0, : rows.shape[1]].view(np.uint8), scales["k_scale"][:, 0]


def reconstructed(kernels, codes, scales):
    """BF16 bits of codes [tokens, width] of one head."""
    padded = np.zeros((len(codes), 1, 128), codes.dtype)
    padded[:, 0, : codes.shape[1]] = codes
    outs = [np.zeros(padded.shape, np.uint16) for _ in "kv"]
    scales = np.asarray(scales, np.float32)[:, None]
    slots = np.arange(len(codes), dtype=np.int64)
    kernels.kv_reconstruct(padded, padded.copy(), scales, scales.copy(), slots, *outs)
    assert (outs[0] == outs[1]).all()
    return outs[0][:, 0, : codes.shape[1]]


def test_all_256_codes_at_a_scale_of_1_bit_for_bit(kernels):
    """D2: NaN is 0x7FFF, and 0x80 is -0."""
    out = reconstructed(kernels, np.arange(256, dtype=np.uint8).reshape(2, 128), [1, 1]).reshape(-1)
    values = e4m3fn_values()
    finite = np.isfinite(values)
    assert (out[~finite] == 0x7FFF).all()
    assert (from_bf16(out[finite]) == values[finite]).all()
    assert (out[0], out[0x80]) == (0, 0x8000)
    numbers = reconstructed(kernels, np.arange(-128, 128, dtype=np.int8).reshape(2, 128), [1, 1]).reshape(-1)
    assert (from_bf16(numbers) == np.arange(-128, 128)).all()


def test_the_scale_is_multiplied_in_fp32_and_rounded_once_more(kernels):
    """D9: 7 * (1 + 2**-23) is a tie of FP32; a product in BF16 would lose the scale's last bits."""
    scale = np.float32(1.00390625 + 2**-23)
    out = reconstructed(kernels, np.array([[0x38, 0x4E]], np.uint8), [scale])
    assert out.tolist() == [[0x3F81, int(to_bf16(np.float32(7) * scale[None])[0])]]
    # Half a step above 1: 1.00390625 is a tie that goes to 1, and any bit more takes it up.
    assert reconstructed(kernels, np.array([[0x38]], np.uint8), [1.00390625]).tolist() == [[0x3F80]]


def test_int8_codes_are_rounded_to_nearest_even_and_never_truncated(kernels):
    """D6; BF16 has no 126.6, which the conversion by itself is tried on below."""
    row = to_bf16(np.array([[127, 0.5, -0.5, 1.5, -1.5, 2.5, 126.5, 125.5, 63.75, -127]]))
    codes, scales = stored(kernels, INT8, row)
    assert codes.view(np.int8).tolist() == [[127, 0, 0, 2, -2, 2, 126, 126, 64, -127]]
    assert scales.tolist() == [1.0]


def test_fp8_codes_are_rounded_in_one_step(kernels):
    """D1: ties go to even, signs stay, and what underflows keeps its sign too."""
    numbers = np.array([[448, -448, 432, 400, 17, 19, 2**-9, 2**-10, 3 * 2**-10, -1e-9, 0.0, -0.0]])
    codes, scales = stored(kernels, FP8, to_bf16(numbers))
    assert scales.tolist() == [1.0]
    assert codes.tolist() == [[0x7E, 0xFE, 0x7E, 0x7C, 0x58, 0x5A, 0x01, 0x00, 0x02, 0x80, 0x00, 0x80]]


def test_infinity_saturates_and_nan_stays_nan(kernels):
    """D1: an infinity counts as the largest BF16 number, NaN not at all; INT8 has no NaN and takes 0."""
    rows = np.array([[0x7F80, 0xFF80, 0x3F80, 0x7F7F], [0x7FC0, 0xFFC0, 0x4380, 0x7F81]], np.uint16)
    largest = float(from_bf16(np.uint16(0x7F7F)))
    codes, scales = stored(kernels, FP8, rows)
    assert codes.tolist() == [[0x7E, 0xFE, 0x00, 0x7E], [0x7F, 0x7F, 0x7E, 0x7F]]
    assert scales.tolist() == [np.float32(largest / 448), np.float32(256 / 448)]
    codes, _ = stored(kernels, INT8, rows)
    assert codes.view(np.int8).tolist() == [[127, -127, 0, 127], [0, 0, 127, 0]]


@pytest.mark.parametrize("kv_format", [FP8, INT8])
def test_rows_of_zeros_and_of_subnormal_numbers_have_a_scale_that_works(kernels, kv_format):
    rows = np.array([[0, 0x8000], [1, 0x8001], [0x7F, 0x40]], np.uint16)
    codes, scales = stored(kernels, kv_format, rows)
    assert (scales == np.float32(2.0**-126)).all()
    zero = 0x80 if kv_format == FP8 else 0
    assert codes.tolist()[0] == [0, zero]
    back = from_bf16(reconstructed(kernels, codes.view(HELD[kv_format]), scales))
    step = 2.0**-126 * (2.0**-9 if kv_format == FP8 else 1)
    assert (np.abs(back - from_bf16(rows)) <= np.maximum(step, np.abs(back) / 16)).all()


def numbers_of_every_kind():
    """FP32 of every binade, ties of both formats and their neighbours, zeros, infinities and NaN."""
    rng = np.random.default_rng(0)
    values = e4m3fn_values()[:0x7F]
    ties = np.concatenate(
        [(values[1:] + values[:-1]) / 2, np.arange(128) + 0.5, values, [464, 465, 1000, 126.6, 127.6]]
    )
    near = ties.astype(np.float32).view(np.uint32)
    special = np.array([0, 0x7F800000, 0x7FC00000, 0x7F800001, 1, 0x007FFFFF, 0x7F7FFFFF], np.uint32)
    anything = rng.integers(0, 1 << 31, 4096, np.uint32)
    usual = rng.uniform(-12, 10, 8192)
    bits = np.concatenate([near, near + 1, np.maximum(near, 1) - 1, special, anything])
    bits = np.concatenate([bits, (2.0**usual).astype(np.float32).view(np.uint32)])
    bits = np.concatenate([bits, bits | 0x80000000])
    return np.resize(bits, 1 << 15).astype(np.uint32)


@pytest.mark.parametrize("kv_format", [FP8, INT8])
def test_the_conversion_in_integers_is_the_nearest_code_of_any_fp32_number(kv_format, tmp_path):
    """D1, D6: at a scale of 1, where a row's own scale would never let these numbers arise."""
    variant = variant_for(
        "kv_store", "gfx1201", kv_format=kv_format, slot_dtype="i32", most_head_dim=64, alignment=16
    )  # fmt: skip
    source = variant.request.source + (
        "\n@triton.jit\ndef convert(numbers, codes, N: tl.constexpr):\n    at = tl.arange(0, N)\n"
        "    tl.store(codes + at, codes_of(tl.load(numbers + at)))\n"
    )
    bits = numbers_of_every_kind()
    request = dataclasses.replace(variant.request, source=source, kernel="convert", constants=(("N", len(bits)),))
    given = {"numbers": bits.view(np.float32), "codes": np.zeros(len(bits), HELD[kv_format])}
    made = interpret(dataclasses.replace(variant, request=request), given, (1,), tmp_path)["codes"].view(np.uint8)
    assert made.tolist() == [nearest_code(int(item), kv_format) for item in bits]


def nearest_code(bits, kv_format):
    magnitude, negative = bits & 0x7FFFFFFF, bits >> 31
    if magnitude > 0x7F800000:
        return 0x7F if kv_format == FP8 else 0
    if kv_format == FP8:
        return negative << 7 | nearest_e4m3fn(magnitude)
    return (-nearest_int8(magnitude) if negative else nearest_int8(magnitude)) & 0xFF


def spread(shape, dtype, stride_bytes):
    """An array whose first axis is `stride_bytes` apart, in memory whose pages exist once touched."""
    inner = np.zeros(shape[1:], dtype)
    size = stride_bytes * (shape[0] - 1) + inner.nbytes
    whole = np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), np.uint8)
    return np.ndarray(shape, dtype, whole, 0, (stride_bytes, *inner.strides))


@pytest.mark.parametrize("kv_format", ["bf16", FP8])
def test_rows_beyond_four_gib_are_stored_and_reconstructed_in_their_places(kernels, kv_format):
    """C2, C3"""
    rng = np.random.default_rng(1)
    capacity, slots = 48, np.array([47, 0, 21, 40], np.int64)
    rows = to_bf16(rng.standard_normal((4, 2, 64)))
    caches = [spread((capacity, 2, 64), HELD[kv_format], 110 * MIB) for _ in "kv"]
    scales = [spread((capacity, 2), np.float32, 110 * MIB) for _ in "kv"] if kv_format != "bf16" else [None, None]
    far = spread((4, 2, 64), np.uint16, 2 << 30)
    far[...] = rows
    assert 110 * MIB * (capacity - 1) > 1 << 32 < (2 << 30) * 3
    kernels.kv_store(far, rows, slots, *caches, k_scale=scales[0], v_scale=scales[1])
    outs = [spread((4, 2, 64), np.uint16, 2 << 30) for _ in "kv"]
    kernels.kv_reconstruct(*caches, *scales, slots, *outs)
    for out, cache in zip(outs, caches, strict=True):
        if kv_format == "bf16":
            assert (cache[slots] == rows).all()
            assert (out == rows).all()
        error = np.abs(from_bf16(out) - from_bf16(rows))
        assert (error <= 2.0**-4 * np.abs(from_bf16(rows)) + 2.0**-9).all()
    assert not any(caches[0][slot].any() for slot in range(capacity) if slot not in slots)
