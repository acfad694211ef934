"""The integer reference of the kv families against torch's conversions and numpy's FP32, neither of which it uses."""

import numpy as np
import pytest
import torch

from assay.reference import kv_rows
from assay.reference.kv_rows import f32_number, nearest_e4m3fn, nearest_f32, nearest_int8, reconstruct_row, store_row

FP8, INT8 = "fp8_per_token_head", "int8_per_token_head"


def f32_bits(*values):
    return [int(bits) for bits in np.array(values, np.float32).view(np.uint32)]


def test_products_and_quotients_are_those_of_fp32():
    a, b = np.random.default_rng(0).integers(1, 0x7F800000, (2, 20000), np.uint32)
    with np.errstate(all="ignore"):
        product = (a.view(np.float32) * b.view(np.float32)).view(np.uint32)
        quotient = (a.view(np.float32) / b.view(np.float32)).view(np.uint32)
    pairs = [(f32_number(int(x)), f32_number(int(y))) for x, y in zip(a, b, strict=True)]
    assert [nearest_f32(x.times(y)) for x, y in pairs] == product.tolist()
    assert [nearest_f32(x.over(y)) for x, y in pairs] == quotient.tolist()


def test_codes_are_those_of_torch_up_to_448():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.uniform(0, 448, 5000), 2.0 ** rng.uniform(-12, 8, 20000)]).astype(np.float32)
    codes = torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8)
    assert [nearest_e4m3fn(int(bits)) for bits in values.view(np.uint32)] == codes.tolist()


def test_what_is_too_large_saturates():
    """Field cases D1 and D6; a library's cast gives NaN from 465 on."""
    assert [nearest_e4m3fn(bits) for bits in f32_bits(448, 464, 465, 1000, np.inf)] == [0x7E] * 5
    assert [nearest_int8(bits) for bits in f32_bits(0.5, 1.5, 2.5, 126.5, 127.6, 1e30, np.inf)] == [
        0, 2, 2, 126, 127, 127, 127,
    ]  # fmt: skip


@pytest.mark.parametrize(("kv_format", "largest"), [(FP8, 448.0), (INT8, 127.0)])
def test_rows_are_those_of_torchs_arithmetic(kv_format, largest):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(40, 64, generator=generator) * torch.logspace(-34, 36, 40)[:, None]
    rows = rows.to(torch.bfloat16)
    magnitude, top = rows.float().abs().amax(-1), torch.tensor(largest)
    numbers = rows.float() * (top / magnitude)[:, None]
    if kv_format == FP8:
        codes = numbers.clamp(-448, 448).to(torch.float8_e4m3fn)
    else:
        codes = numbers.round().clamp(-127, 127).to(torch.int8)
    scales = magnitude / top
    back = (codes.float() * scales[:, None]).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    for row, wanted, scale, values in zip(rows, codes.view(torch.uint8), scales, back, strict=True):
        made = store_row(row.view(torch.int16).numpy().view(np.uint16), kv_format)
        assert made == (wanted.tolist(), int(scale.view(torch.int32)))
        assert reconstruct_row(np.array(made[0], np.uint8), made[1], kv_format) == values.tolist()


def test_no_row_has_a_scale_that_is_not_a_normal_number():
    for kv_format in (FP8, INT8):
        for row in ([0], [1], [0x8001, 0x7F], [0x7F7F], [0x7F80], [0x7FC0]):
            _, scale = store_row(np.array(row, np.uint16), kv_format)
            assert 0x00800000 <= scale < 0x7F800000
    assert kv_rows.LARGEST_BF16 == 0x7F7F
