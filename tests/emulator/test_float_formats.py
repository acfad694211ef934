"""Conversions of small floats are exact, for every code."""

from __future__ import annotations

import numpy as np
import pytest

from assay.emulator import Memory
from assay.emulator import float_formats as ff

from .corpus.case import E4M3, E5M2
from .planting import VGPR, encode, end, lane_offset, load_pointer, program, store, wait

ALL_CODES = np.arange(256, dtype=np.uint8)


def bits(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


@pytest.mark.parametrize(("table", "reference"), [(ff.E4M3_TO_F32, E4M3), (ff.E5M2_TO_F32, E5M2)])
def test_every_code_has_the_value_of_the_ocp_document(table, reference):
    number = ~np.isnan(reference)
    np.testing.assert_array_equal(np.isnan(table), ~number)
    np.testing.assert_array_equal(bits(table[number]), bits(reference[number]))


@pytest.mark.parametrize(("narrow", "table"), [(ff.f32_to_e4m3, ff.E4M3_TO_F32), (ff.f32_to_e5m2, ff.E5M2_TO_F32)])
def test_every_finite_code_survives_widening_and_narrowing(narrow, table):
    finite = np.isfinite(table)
    np.testing.assert_array_equal(narrow(table[finite]), ALL_CODES[finite])


@pytest.mark.parametrize(
    ("narrow", "table", "largest"),
    [(ff.f32_to_e4m3, ff.E4M3_TO_F32, 448.0), (ff.f32_to_e5m2, ff.E5M2_TO_F32, 57344.0)],
)
def test_narrowing_takes_the_nearest_code_and_of_two_the_even_one(narrow, table, largest):
    positive = np.sort(table[np.isfinite(table) & ~np.signbit(table)].astype(np.float64))
    middles = (positive[:-1] + positive[1:]) / 2
    below, above = np.nextafter(middles.astype(np.float32), np.float32(0)), np.nextafter(middles, np.inf)
    np.testing.assert_array_equal(table[narrow(below)], positive[:-1].astype(np.float32))
    above = np.nextafter(middles.astype(np.float32), np.float32(np.inf))
    np.testing.assert_array_equal(table[narrow(above)], positive[1:].astype(np.float32))
    assert (narrow(middles.astype(np.float32)) % 2 == 0).all()
    assert table[narrow(np.float32([largest]))][0] == largest
    assert not np.isfinite(table[narrow(np.float32([largest * 1.1, np.inf, -np.inf, np.nan]))]).any()


def test_bfloat16_rounds_to_nearest_even():
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = ff.bf16_to_f32(codes)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(ff.f32_to_bf16(values[number]), codes[number])
    halfway = (codes[number].astype(np.uint32) << 16 | 0x8000).view(np.float32)
    assert (ff.f32_to_bf16(halfway[np.isfinite(halfway)]) % 2 == 0).all()
    assert np.isnan(ff.bf16_to_f32(ff.f32_to_bf16(np.float32([np.nan])))).all()


def test_truncation_to_float16_never_grows():
    values = np.float32([65519.9, 65536.0, 1e9, -1e9, np.inf, 1.0009, -1.0009, 1e-9, 0.0])
    result = ff.f32_to_f16_toward_zero(values)
    np.testing.assert_array_equal(result[[0, 1, 2]], np.float16([65504] * 3))
    assert np.isinf(result[4])
    assert (np.abs(result.astype(np.float64)) <= np.abs(values.astype(np.float64))).all()
    assert result[5] == np.float16(1.0)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(("opcode", "reference"), [("v_cvt_pk_f32_fp8", E4M3), ("v_cvt_pk_f32_bf8", E5M2)])
def test_packed_conversion_is_exact_for_all_codes_in_both_halves(opcode, reference, half):
    pairs = np.empty((128, 4), np.uint8)
    pairs[:, 2 * half : 2 * half + 2] = ALL_CODES.reshape(128, 2)
    pairs[:, 2 - 2 * half : 4 - 2 * half] = 0x55
    out = np.zeros((128, 2), np.float32)
    memory = Memory()
    addresses = [memory.add("codes", pairs, writable=False), memory.add("out", out)]
    code = (
        load_pointer(),
        load_pointer(4, 8),
        lane_offset(1, 2),
        lane_offset(2, 3),
        encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2),
        wait("s_wait_loadcnt"),
        encode("VOP3", opcode, vdst=4, src0=VGPR + 3, opsel=half),
        store(4, address=2, base=4, opcode="global_store_b64"),
        end(),
    )
    program(*code, pointers=2).launch(grid=(1,), num_warps=4, arguments=addresses, memory=memory)
    expected = reference.reshape(128, 2)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(out), ~number)
    np.testing.assert_array_equal(bits(out[number]), bits(expected[number]))
