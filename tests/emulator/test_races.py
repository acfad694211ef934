"""Barriers hold a workgroup together; without one, waves at one place race."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from assay.emulator import BarrierError, Checks, RaceError

from .planting import (
    TTMP9,
    WAVE_ID,
    barrier,
    ds_load,
    ds_store,
    encode,
    i,
    lane_offset,
    launch_planted,
    load_pointer,
    move,
    store,
    wait,
)


def skip_unless_first_wave(length: int) -> bytes:
    compare = encode("SOPC", "s_cmp_eq_u32", ssrc0=8, ssrc1=i(0))
    return WAVE_ID + compare + encode("SOPP", "s_cbranch_scc0", simm16=length // 4)


def test_a_barrier_that_one_wave_never_reaches_is_an_error():
    code = (skip_unless_first_wave(len(barrier())), barrier())
    with pytest.raises(BarrierError, match=r"\[0\] wait, \[1\] have ended") as caught:
        launch_planted(*code, num_warps=2)
    assert "s_barrier_wait" in caught.value.place.instruction
    launch_planted(*code, num_warps=2, checks=Checks(barriers=False))


def test_waves_that_come_by_different_ways_meet_at_the_barrier():
    detour = move(3, i(1)) + move(4, i(2))
    code = (skip_unless_first_wave(len(detour)), detour, barrier(), load_pointer(), lane_offset(), store(0))
    np.testing.assert_array_equal(launch_planted(*code, num_warps=2)[:32], np.arange(32))


def test_two_waves_storing_different_values_at_one_lds_place_race():
    own = (lane_offset(), WAVE_ID, move(3, 8))
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=i(60), vsrc1=1)
    with pytest.raises(RaceError, match=r"of LDS, which wave . of workgroup 0 touched"):
        launch_planted(*own, same_place, ds_store(1, 3), num_warps=2, lds_bytes=256)
    launch_planted(*own, same_place, ds_store(1, 3), num_warps=2, lds_bytes=256, checks=Checks(races=False))


def test_waves_may_store_equal_values_at_one_place():
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=i(60), vsrc1=1)
    launch_planted(lane_offset(), same_place, move(3, i(7)), ds_store(1, 3), num_warps=2, lds_bytes=256)


NANS = (0x7FC00000, 0x7F800001, 0xFFC00001, 0x7FF00001, 0xFFF80000, 0xFFFFFFFF, 0x80000000)
WIDTHS = {"b16": 1, "b32": 1, "b64": 2, "b96": 3, "b128": 4}


def filled(*values: int) -> bytes:
    """v4 and what follows hold these bits."""
    return b"".join(encode("VOP1", "v_mov_b32", vdst=4 + n, src0=255, literal=bits) for n, bits in enumerate(values))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("bits", NANS, ids=hex)
def test_equal_nans_at_one_place_are_equal_values_whatever_their_bits(bits, width):
    """As numbers no NaN equals another, nor itself."""
    everyone = (encode("VOP2", "v_and_b32", vdst=1, src0=i(0), vsrc1=1), filled(*(bits,) * WIDTHS[width]))
    stored = ds_store(1, 4, f"ds_store_{width}")
    for again in ((), (wait("s_wait_dscnt"), stored)):
        launch_planted(lane_offset(), *everyone, stored, *again, num_warps=4, lds_bytes=256, grid=(3,))
    out = launch_planted(
        load_pointer(), lane_offset(), *everyone, store(4, opcode=f"global_store_{width}"), num_warps=4, grid=(3,)
    )
    assert out[: WIDTHS[width]].tolist() == [bits & 0xFFFF if width == "b16" else bits] * WIDTHS[width]


@pytest.mark.parametrize(("bits", "races"), [(0x7FC00000, False), (0x3F800000, True)], ids=["NaN", "one"])
@pytest.mark.parametrize("width", ["b32", "b64", "b128"])
def test_nans_of_different_bits_at_one_place_are_one_value_and_other_numbers_race(width, bits, races):
    own = encode("VOP2", "v_or_b32", vdst=4, src0=8, vsrc1=4)
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=i(0), vsrc1=1)
    code = (lane_offset(), WAVE_ID, same_place, filled(*(bits,) * WIDTHS[width]), own)
    with pytest.raises(RaceError, match="of LDS, which wave") if races else contextlib.nullcontext():
        launch_planted(*code, ds_store(1, 4, f"ds_store_{width}"), num_warps=2, lds_bytes=256)


def exchange(between: bytes) -> tuple[bytes, ...]:
    """Each of two waves stores its lanes and reads the other's."""
    other = encode("VOP2", "v_xor_b32", vdst=5, src0=255, vsrc1=1, literal=128)
    return (
        load_pointer(),
        lane_offset(),
        other,
        ds_store(1, 0),
        wait("s_wait_dscnt"),
        between,
        ds_load(3, 5),
        wait("s_wait_dscnt"),
        store(3),
    )


def test_reading_what_another_wave_wrote_needs_a_barrier():
    with pytest.raises(RaceError, match="reads offset"):
        launch_planted(*exchange(b""), num_warps=2, lds_bytes=256)
    out = launch_planted(*exchange(barrier()), num_warps=2, lds_bytes=256)
    np.testing.assert_array_equal(out, np.arange(64) ^ 32)


def test_overwriting_what_another_wave_read_needs_a_barrier():
    again = (*exchange(barrier()), move(6, i(1)))
    with pytest.raises(RaceError, match="writes offset"):
        launch_planted(*again, ds_store(1, 6), num_warps=2, lds_bytes=256)
    launch_planted(*again, barrier(), ds_store(1, 6), num_warps=2, lds_bytes=256)


def test_two_workgroups_storing_different_values_at_one_address_race():
    code = (load_pointer(), lane_offset(), move(3, TTMP9), store(3))
    with pytest.raises(RaceError, match="offset 0 of 'out', which wave 0 of workgroup"):
        launch_planted(*code, grid=(2,))
    launch_planted(*code, grid=(2,), checks=Checks(races=False))


def test_atomics_do_not_race():
    add = encode("VGLOBAL", "global_atomic_add_u32", vsrc=3, vaddr=1, saddr=2)
    out = launch_planted(load_pointer(), lane_offset(), move(3, i(1)), add, grid=(3,), num_warps=2)
    np.testing.assert_array_equal(out, np.full(64, 3))


@pytest.mark.parametrize("groups", [1, 3])
def test_a_race_is_found_however_many_workgroups_do_the_same(groups):
    with pytest.raises(RaceError, match="reads offset"):
        launch_planted(*exchange(b""), num_warps=2, lds_bytes=256, grid=(groups,))
    launch_planted(*exchange(barrier()), num_warps=2, lds_bytes=256, grid=(groups,))


def test_a_race_is_found_in_the_one_workgroup_that_has_it():
    """Only workgroup 2 lets its waves store at one place; before that all did the same."""
    compare = encode("SOPC", "s_cmp_eq_u32", ssrc0=TTMP9, ssrc1=i(2))
    mask = encode("SOP2", "s_cselect_b32", sdst=9, ssrc0=i(60), ssrc1=255, literal=0xFFC)
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=9, vsrc1=1)
    code = (lane_offset(), WAVE_ID, move(3, 8), ds_store(1, 3), wait("s_wait_dscnt"), barrier(), compare, mask)
    with pytest.raises(RaceError, match=r"touched, without a barrier between \(workgroup 2"):
        launch_planted(*code, same_place, ds_store(1, 3), num_warps=2, lds_bytes=256, grid=(4,))


def test_a_barrier_that_is_signalled_but_not_waited_for_orders_nothing():
    signal = encode("SOP1", "s_barrier_signal", ssrc0=i(-1))
    with pytest.raises(RaceError, match="reads offset"):
        launch_planted(*exchange(signal), num_warps=2, lds_bytes=256)


def test_a_wave_may_use_its_own_part_between_signal_and_wait():
    signal = encode("SOP1", "s_barrier_signal", ssrc0=i(-1))
    own = (lane_offset(), WAVE_ID, move(3, 8), ds_store(1, 3), wait("s_wait_dscnt"), signal, ds_store(1, 3))
    held = encode("SOPP", "s_barrier_wait", simm16=0xFFFF)
    launch_planted(*own, wait("s_wait_dscnt"), held, ds_store(1, 3), num_warps=2, lds_bytes=256)
