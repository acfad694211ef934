"""Lanes exchange values as the ISA document says, against plain loops over lanes."""

from __future__ import annotations

import numpy as np
import pytest

from assay.emulator.checks import NO_CHECKS
from assay.emulator.decode import decode_one
from assay.emulator.errors import Unsupported
from assay.emulator.machine import Machine
from assay.emulator.memory import Memory
from assay.emulator.registry import make_step

from .planting import EXEC, VGPR, encode, i

WAVES = 3


def execute(code: bytes, source: np.ndarray, target: np.ndarray, active: np.ndarray, other: np.ndarray | None = None):
    """v20 after one instruction that reads v1 (and v2), with `active` lanes `[waves, 32]`."""
    machine = Machine(
        Memory(), NO_CHECKS, workgroups=1, waves_per_group=WAVES, vector_count=32, lds_bytes=0, scratch_bytes=0
    )
    registers = machine.registers
    registers.vector[1], registers.vector[20] = source, target
    if other is not None:
        registers.vector[2] = other
    registers.scalar[:, EXEC] = np.packbits(active, axis=1, bitorder="little").view(np.uint32)[:, 0]
    step = make_step(decode_one(code, 0))
    assert not isinstance(step, Unsupported), step
    step(machine.group(np.arange(WAVES)))
    return registers.vector[20].copy()


def inputs(seed: int):
    rng = np.random.default_rng(seed)
    source, target = (rng.integers(0, 1 << 32, (WAVES, 32), np.uint32) for _ in "st")
    active = rng.random((WAVES, 32)) < 0.7
    active[0] = True
    return source, target, active, rng


def dpp_lane(control: int, lane: int) -> int | None:
    """The lane that a DPP control reads, `None` outside the row."""
    row, place = lane & ~15, lane & 15
    if control < 0x100:
        return (lane & ~3) | (control >> 2 * (lane & 3) & 3)
    amount = control & 15
    match control >> 4:
        case 0x10:
            return row + place + amount if place + amount < 16 else None
        case 0x11:
            return row + place - amount if place - amount >= 0 else None
        case 0x12:
            return row + (place - amount) % 16
        case 0x14:
            return row + (15 - place if amount == 0 else place ^ 7)
        case 0x15:
            return row + amount
    return row + (place ^ amount)


CONTROLS = (0x1B, 0xE4, 0x101, 0x10F, 0x111, 0x118, 0x121, 0x12C, 0x140, 0x141, 0x150, 0x15A, 0x161, 0x168)


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize(("zero_fill", "fetch_inactive"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("row_mask", "bank_mask"), [(15, 15), (2, 15), (15, 5)])
def test_dpp_reads_the_lane_that_its_control_names(control, zero_fill, fetch_inactive, row_mask, bank_mask):
    source, target, active, _ = inputs(control)
    code = encode(
        "VOP1_DPP16",
        "v_mov_b32",
        vdst=20,
        src0=250,
        vsrc0=1,
        dpp=control,
        bc=zero_fill,
        fi=fetch_inactive,
        row_mask=row_mask,
        bank_mask=bank_mask,
    )
    expected = target.copy()
    for wave in range(WAVES):
        for lane in range(32):
            enabled = row_mask >> (lane // 16) & 1 and bank_mask >> (lane % 16 // 4) & 1
            if not active[wave, lane] or not enabled:
                continue
            read = dpp_lane(control, lane)
            if read is not None and (active[wave, read] or fetch_inactive):
                expected[wave, lane] = source[wave, read]
            elif zero_fill:
                expected[wave, lane] = 0
    np.testing.assert_array_equal(execute(code, source, target, active), expected)


def test_dpp_in_place_adds_the_value_from_before():
    source, target, active, _ = inputs(3)
    active[:] = True
    code = encode(
        "VOP2_DPP16", "v_add_nc_u32", vdst=20, src0=250, vsrc0=20, vsrc1=20, dpp=0x161, row_mask=15, bank_mask=15
    )
    expected = target + target[:, np.arange(32) ^ 1]
    np.testing.assert_array_equal(execute(code, source, target, active), expected)


def test_dpp8_permutes_groups_of_eight():
    source, target, active, rng = inputs(8)
    picks = rng.integers(0, 8, 8)
    active[:] = True
    lanes = {f"lane_sel_{lane}": int(pick) for lane, pick in enumerate(picks)}
    code = encode("VOP1_DPP8", "v_mov_b32", vdst=20, src0=233, vsrc0=1, **lanes)
    read = (np.arange(32) & ~7) | picks[np.arange(32) & 7]
    np.testing.assert_array_equal(execute(code, source, target, active), source[:, read])


@pytest.mark.parametrize("opcode", ["v_permlane16_b32", "v_permlanex16_b32"])
@pytest.mark.parametrize("fetch_inactive", [0, 1])
def test_permlane_takes_four_bits_a_lane_from_its_selectors(opcode, fetch_inactive):
    source, target, active, _ = inputs(4)
    code = encode("VOP3", opcode, vdst=20, src0=VGPR + 1, src1=255, src2=i(7), opsel=fetch_inactive, literal=0x76543210)
    selector = 0x76543210 | 7 << 32
    expected = target.copy()
    for wave in range(WAVES):
        for lane in range(32):
            row = lane & 16 if opcode == "v_permlane16_b32" else (lane & 16) ^ 16
            read = row + (selector >> 4 * (lane % 16) & 15)
            if active[wave, lane] and (active[wave, read] or fetch_inactive):
                expected[wave, lane] = source[wave, read]
    np.testing.assert_array_equal(execute(code, source, target, active), expected)


@pytest.mark.parametrize("opcode", ["ds_bpermute_b32", "ds_bpermute_fi_b32"])
def test_bpermute_reads_the_lane_that_the_address_names(opcode):
    source, target, active, rng = inputs(5)
    address = rng.integers(0, 1 << 12, (WAVES, 32), np.uint32)
    code = encode("DS", opcode, vdst=20, addr=2, data0=1, offset0=8)
    read = (address + 8) // 4 % 32
    readable = np.take_along_axis(active, read.astype(int), 1) | ("fi" in opcode)
    moved = np.where(readable, np.take_along_axis(source, read.astype(int), 1), 0)
    np.testing.assert_array_equal(execute(code, source, target, active, address), np.where(active, moved, target))


def test_permute_sends_to_the_lane_that_the_address_names_and_the_highest_sender_wins():
    source, target, active, rng = inputs(6)
    address = rng.integers(0, 1 << 8, (WAVES, 32), np.uint32)
    expected = np.zeros_like(source)
    for wave in range(WAVES):
        for lane in range(32):
            if active[wave, lane]:
                expected[wave, address[wave, lane] // 4 % 32] = source[wave, lane]
    code = encode("DS", "ds_permute_b32", vdst=20, addr=2, data0=1)
    result = execute(code, source, target, active, address)
    np.testing.assert_array_equal(result, np.where(active, expected, target))


@pytest.mark.parametrize("pattern", [0x801B, 0x041F, 0x7C1F, 0x001E, 0xC060])
def test_swizzle_follows_its_pattern(pattern):
    source, target, active, _ = inputs(7)
    active[:] = True
    code = encode("DS", "ds_swizzle_b32", vdst=20, addr=1, offset0=pattern & 0xFF, offset1=pattern >> 8)
    read = np.arange(32)
    if pattern >= 0xC000:
        read = (read + (pattern >> 5 & 31)) % 32
    elif pattern & 0x8000:
        read = np.array([(lane & ~3) | (pattern >> 2 * (lane & 3) & 3) for lane in range(32)])
    else:
        read = ((read & pattern & 31) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31)
    np.testing.assert_array_equal(execute(code, source, target, active), source[:, read])


def test_readlane_and_writelane_ignore_exec():
    source, target, active, _ = inputs(9)
    active[:] = False
    put = encode("VOP3", "v_writelane_b32", vdst=20, src0=i(33), src1=i(5))
    result = execute(put, source, target, active)
    assert (result[:, 5] == 33).all()
    np.testing.assert_array_equal(np.delete(result, 5, 1), np.delete(target, 5, 1))


def test_swap_exchanges_active_lanes():
    source, target, active, _ = inputs(10)
    code = encode("VOP1", "v_swap_b32", vdst=20, src0=VGPR + 1)
    np.testing.assert_array_equal(execute(code, source, target, active), np.where(active, source, target))
