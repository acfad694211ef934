"""Every code of a cache reads as its value, whichever reader and orientation (field cases D2, D5, D9)."""

import numpy as np
import pytest

from tests.kernels.decode_reference import e4m3fn_table
from tests.kernels.shipped import run_decode

from .calls import GROUP, HEAD_DIM, ONE_E4M3FN, bf16, kernel, random_call

NAN_CODES = (0x7F, 0xFF)
READERS = {
    "packed": ("packed", {}),
    "generic, unaligned": ("generic", {}),
    "generic, aligned": ("generic", {"alignment": 16}),
    "emulated, unaligned": ("emulated", {"alignment": 1}),
    "emulated, aligned": ("emulated", {}),
}


@pytest.fixture(params=READERS)
def reader(request):
    kind, axes = READERS[request.param]
    return kind, kernel(kind, **axes)


def nan_codes_read_as(kind: str) -> tuple[float, float]:
    """As docs/findings/fp8-cast-of-nan-codes.md says: Triton's software cast makes numbers of them."""
    return (480.0, -480.0) if kind == "generic" else (np.nan, np.nan)


def one_key_call(kind, requests):
    """Scales of 1 and one key a request: a weight of exactly 1, and a log-sum-exp that is the score."""
    call = random_call(kind, [1] * requests, [1] * requests)
    call.k_scale[:], call.v_scale[:] = 1, 1
    call.sm_scale = 1.0
    return call


def test_all_256_codes_in_the_v_orientation_bit_for_bit(reader):
    """D2"""
    kind, decode = reader
    call = one_key_call(kind, 256 // HEAD_DIM)
    call.v_cache[call.indices, 0] = np.arange(256, dtype=np.uint8).reshape(-1, HEAD_DIM)
    out, _ = run_decode(decode, call)
    wanted = e4m3fn_table()
    wanted[list(NAN_CODES)] = nan_codes_read_as(kind)
    for head in range(GROUP):
        np.testing.assert_array_equal(out[:, head, 0].reshape(-1), wanted.astype(np.float32))


def test_all_256_codes_in_the_k_orientation(reader):
    """D2: q picks one element a head; the log-sum-exp is that element, up to its own rounding in base 2."""
    kind, decode = reader
    codes = np.array([code for code in range(256) if code not in NAN_CODES])
    requests = -(-len(codes) // GROUP)
    call = one_key_call(kind, requests)
    call.q[:], call.k_cache[:] = 0, 0
    for head in range(GROUP):
        # Another byte of the word for each request.
        elements = (np.arange(requests) + head) % HEAD_DIM
        call.q[np.arange(requests), head, elements] = bf16(np.ones(1))
        picked = codes[(np.arange(requests) * GROUP + head) % len(codes)]
        call.k_cache[call.indices, 0, elements] = picked
    _, lse = run_decode(decode, call)
    wanted = e4m3fn_table()[codes[np.arange(requests * GROUP) % len(codes)]]
    np.testing.assert_allclose(lse.reshape(-1), wanted, rtol=1e-6, atol=0)


# Unaligned, the emulating reader's NaN scores stand in two waves, which store them to one place in LDS: a race to the
# emulator, as the NaNs' own bits differ.  tests/kernels/test_emulated_e4m3.py has that layout.
@pytest.mark.parametrize("name", [name for name in READERS if name != "emulated, unaligned"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_nan_code_in_a_key_reads_as_documented(name, which):
    """D2"""
    kind, decode = READERS[name][0], kernel(READERS[name][0], **READERS[name][1])
    call = one_key_call(kind, 1)
    call.q[:], call.k_cache[:] = 0, 0
    call.q[..., 5] = bf16(np.ones(1))
    call.k_cache[..., 5] = NAN_CODES[which]
    _, lse = run_decode(decode, call)
    np.testing.assert_allclose(lse, nan_codes_read_as(kind)[which], rtol=1e-6)


def test_the_scales_are_applied_key_scale_first_so_that_finite_scores_stay_finite(reader):
    """D5: sm_scale 2, key scale 3.4e38, q 0.25, K code of 1 once among zeros."""
    kind, decode = reader
    call = random_call(kind, [3], [1])
    call.sm_scale = 2.0
    call.q[:], call.k_cache[:] = 0, 0
    call.q[..., 0] = bf16(np.full(1, 0.25))
    call.k_cache[call.indices[1], 0, 0] = ONE_E4M3FN
    call.k_scale[:] = 1e-30
    call.k_scale[call.indices[1]] = 3.4e38
    out, lse = run_decode(decode, call)
    score = 2.0 * (0.25 * float(np.float32(3.4e38)))
    np.testing.assert_allclose(lse, score, rtol=1e-6)
    values = e4m3fn_table()[call.v_cache[call.indices[1], 0]] * call.v_scale[call.indices[1], 0]
    np.testing.assert_allclose(out[0, :, 0], np.broadcast_to(values, (GROUP, HEAD_DIM)), rtol=2**-8)


def test_scores_are_multiplied_by_the_key_scale_in_fp32(reader):
    """D9: 1 + 2**-12 is no BF16 number."""
    kind, decode = reader
    call = one_key_call(kind, 1)
    call.q[:], call.k_cache[:] = 0, 0
    call.q[..., 0] = bf16(np.ones(1))
    call.k_cache[..., 0] = ONE_E4M3FN
    call.k_scale[:] = 1 + 2**-12
    _, lse = run_decode(decode, call)
    np.testing.assert_allclose(lse, 1 + 2**-12, rtol=1e-6)


@pytest.mark.parametrize(
    ("scale", "weight"),
    [(1 + 2**-8 + 2**-12, 1 + 2**-7), (1 + 2**-8, 1.0), (1 + 2**-7 + 2**-8, 1 + 2**-6), (1 + 2**-8 - 2**-12, 1.0)],
    ids=["above the tie", "tie to even below", "tie to even above", "below the tie"],
)
def test_a_weight_with_its_value_scale_is_rounded_to_bf16_never_truncated(reader, scale, weight):
    """D9"""
    kind, decode = reader
    call = one_key_call(kind, 1)
    call.v_cache[:], call.v_scale[:] = ONE_E4M3FN, scale
    out, _ = run_decode(decode, call)
    np.testing.assert_array_equal(out, np.float32(weight))
