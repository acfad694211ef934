"""The reader that emulates E4M3FN reads every code as its value, in K's place and in V's: run in Triton's interpreter.

The compiled code of the same source runs in tests/field/test_conversions.py.
"""

import numpy as np
import pytest

from tests.kernels.decode_reference import attention, e4m3fn_table, make_case, merge
from tests.kernels.running import variant_for
from tests.kernels.test_decode_attention import assert_close, run

NAN_CODES = [0x7F, 0xFF]
FINITE = np.array([code for code in range(256) if code not in NAN_CODES], np.uint8)


SLOW = pytest.mark.slow
LAYOUTS = [("sm86", 16), pytest.param(("sm86", 1), marks=SLOW), pytest.param(("gfx942", 16), marks=SLOW)]


@pytest.fixture(params=LAYOUTS, ids=lambda given: f"{given[0]}, {given[1]} bytes")
def decode(request):
    target, alignment = request.param
    axes = {"kv_format": "fp8_per_token_head", "reader": "emulated_e4m3", "offset_bits": 64, "head_dim": 128}
    return variant_for(
        "decode_attention", target, {"block_n": 32}, alignment=alignment, block_m=4, window=False, **axes
    )


def one_key_case(requests: int):
    """One key a request, scales of 1 and zeros elsewhere: a weight of exactly 1, and an LSE that is the score."""
    case = make_case(
        np.random.default_rng(2),
        lengths=[1] * requests,
        splits=[1] * requests,
        kv_format="fp8_per_token_head",
        group=4,
        kv_heads=1,
    )
    case.q[:], case.k[:], case.v[:] = 0, 0, 0
    case.k_scale[:], case.v_scale[:] = 1, 1
    case.scale = 1.0
    return case


def test_all_256_codes_in_the_v_orientation_bit_for_bit(decode, tmp_path):
    case = one_key_case(2)
    case.v[case.indices, 0] = np.arange(256, dtype=np.uint8).reshape(2, 128)
    partial, _ = run(decode, case, tmp_path)
    for head in range(4):
        np.testing.assert_array_equal(partial[:, head, 0].reshape(-1), e4m3fn_table().astype(np.float32))


def test_all_finite_codes_in_the_k_orientation(decode, tmp_path):
    """q picks one element a head; the log-sum-exp is that element, up to its own rounding in base 2."""
    requests = -(-len(FINITE) // 4)
    case = one_key_case(requests)
    picked = FINITE[np.arange(requests * 4) % len(FINITE)].reshape(requests, 4)
    for head in range(4):
        elements = (np.arange(requests) * 4 + head) % 128
        case.q[np.arange(requests), head, elements] = 1
        case.k[case.indices, 0, elements] = picked[:, head]
    _, lse = run(decode, case, tmp_path)
    np.testing.assert_allclose(lse[..., 0], e4m3fn_table()[picked], rtol=1e-6, atol=0)


def test_a_nan_code_in_a_key_is_nan(decode, tmp_path):
    case = one_key_case(3)
    case.k[case.indices[:2], 0, 5] = NAN_CODES
    partial, lse = run(decode, case, tmp_path)
    assert np.isnan(lse[:2, :, 0]).all()
    assert np.isnan(partial[:2, :, 0]).all()
    assert np.isfinite(lse[2, :, 0]).all()


@pytest.mark.slow
def test_split_decode_is_attention(decode, tmp_path):
    case = make_case(
        np.random.default_rng(7), lengths=[70, 1, 0, 33], splits=[3, 1, 2, 2], kv_format="fp8_per_token_head", group=4
    )
    whole, whole_lse = merge(*run(decode, case, tmp_path))
    expected, expected_lse = attention(case)
    assert_close(whole, expected)
    finite = ~np.isneginf(expected_lse)
    assert (np.isneginf(whole_lse) == ~finite).all()
    assert_close(whole_lse[finite], expected_lse[finite])
