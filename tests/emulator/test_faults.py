"""Each check finds the fault planted for it, says where, and can be switched off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from assay.emulator import (
    BarrierError,
    Checks,
    InFlightError,
    LaunchError,
    Memory,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    StepBudgetError,
    UndefinedValueError,
    UnsupportedInstructions,
)

from .planting import (
    EXEC,
    TTMP9,
    VCC,
    VGPR,
    barrier,
    encode,
    end,
    i,
    lane_offset,
    load_pointer,
    program,
    store,
    wait,
)

WAVE_ID = encode("SOP2", "s_bfe_u32", sdst=8, ssrc0=116, ssrc1=255, literal=0x50019)  # s8 = wave in its workgroup


def move(register: int, source: int) -> bytes:
    return encode("VOP1", "v_mov_b32", vdst=register, src0=source)


def ds_store(address: int, data: int, opcode: str = "ds_store_b32", offset: int = 0) -> bytes:
    return encode("DS", opcode, addr=address, data0=data, offset0=offset)


def ds_load(target: int, address: int, opcode: str = "ds_load_b32") -> bytes:
    return encode("DS", opcode, vdst=target, addr=address)


def launch(*code: bytes, words: int = 64, checks: Checks | None = None, num_warps: int = 1, grid=(1,), lds_bytes=0):
    """Runs the code with one buffer, 'out', of `words` uint32, and returns it."""
    memory, out = Memory(), np.zeros(words, np.uint32)
    address = memory.add("out", out)
    program(*code, end()).launch(
        grid=grid, num_warps=num_warps, arguments=[address], memory=memory, checks=checks, lds_bytes=lds_bytes
    )
    return out


# -- Bounds


def test_a_store_behind_a_buffer_names_buffer_offset_and_lane():
    code = (load_pointer(), lane_offset(), store(0))
    with pytest.raises(OutOfBoundsError) as caught:
        launch(*code, words=20)
    assert "offset 80 of buffer 'out', which has 80 bytes (wave 0, lane 20)" in str(caught.value)
    assert caught.value.place.kernel == "planted"
    assert caught.value.place.instruction.startswith("global_store_b32")
    assert caught.value.place.address == sum(map(len, code[:2]))


def test_a_load_before_a_buffer_says_by_how_much():
    load = encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2, ioffset=-8 & 0xFFFFFF)
    with pytest.raises(OutOfBoundsError, match="8 bytes before buffer 'out'"):
        launch(load_pointer(), lane_offset(), load)


def test_an_access_that_straddles_a_buffers_end_is_outside():
    with pytest.raises(OutOfBoundsError, match="of 8 bytes at offset 124 of buffer 'out'"):
        pair = (move(4, i(0)), move(5, i(0)))
        launch(load_pointer(), lane_offset(), *pair, store(4, opcode="global_store_b64"), words=32)


def test_inactive_lanes_access_nothing():
    only_sixteen = encode("SOP1", "s_mov_b32", sdst=EXEC, ssrc0=255, literal=0xFFFF)
    out = launch(load_pointer(), lane_offset(), only_sixteen, store(0), words=16)
    np.testing.assert_array_equal(out, np.arange(16))


def test_a_store_to_a_read_only_buffer_is_refused():
    memory = Memory()
    address = memory.add("weights", np.zeros(32, np.uint32), writable=False)
    planted = program(load_pointer(), lane_offset(), store(0), end())
    with pytest.raises(OutOfBoundsError, match="'weights', which is read-only"):
        planted.launch(grid=(1,), num_warps=1, arguments=[address], memory=memory)


def test_without_bounds_checks_reads_give_zero_and_writes_vanish():
    load = encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2, ioffset=4096)
    code = (load_pointer(), lane_offset(), load, wait("s_wait_loadcnt"), store(3), store(0, offset=4096))
    np.testing.assert_array_equal(launch(*code, words=32, checks=Checks(bounds=False)), np.zeros(32))


def test_a_scalar_load_outside_every_buffer_is_refused():
    with pytest.raises(OutOfBoundsError, match="scalar"):
        launch(encode("SMEM", "s_load_b32", sdata=4, sbase=0, ioffset=4096))


def test_an_lds_access_beyond_the_launched_size_is_refused():
    with pytest.raises(OutOfBoundsError, match="offset 124, of 100 bytes launched with .wave 0, lane 31"):
        launch(lane_offset(), ds_store(1, 0), lds_bytes=100)


def test_scratch_is_bounded_and_every_lanes_own():
    put = encode("VSCRATCH", "scratch_store_b32", vsrc=0, saddr=124, ioffset=12)
    get = encode("VSCRATCH", "scratch_load_b32", vdst=3, saddr=124, ioffset=12)
    code = (load_pointer(), lane_offset(), put, get, wait("s_wait_loadcnt"), store(3), end())
    memory, out = Memory(), np.zeros(32, np.uint32)
    address = memory.add("out", out)
    program(*code, scratch_bytes=16).launch(grid=(1,), num_warps=1, arguments=[address], memory=memory)
    np.testing.assert_array_equal(out, np.arange(32))
    with pytest.raises(OutOfBoundsError, match="scratch access"):
        program(*code, scratch_bytes=12).launch(grid=(1,), num_warps=1, arguments=[address], memory=memory)


# -- Values that nobody wrote

UNDEFINED = {
    "data of a global store": (load_pointer(), lane_offset(), store(7)),
    "an address": (load_pointer(), move(3, i(1)), store(3, address=9)),
    "half a register": (
        load_pointer(),
        lane_offset(),
        encode("VOP1", "v_mov_b16", vdst=7, src0=i(1)),
        store(7),
    ),
    "a branch": (encode("SOPC", "s_cmp_eq_u32", ssrc0=20, ssrc1=i(0)), encode("SOPP", "s_cbranch_scc1", simm16=0)),
    "exec": (encode("SOP1", "s_and_saveexec_b32", sdst=9, ssrc0=20),),
    "exec through a comparison": (encode("VOPC", "v_cmpx_eq_u32", src0=VGPR + 9, vsrc1=0),),
    "arithmetic": (
        load_pointer(),
        lane_offset(),
        encode("VOP2", "v_add_nc_u32", vdst=3, src0=VGPR + 9, vsrc1=0),
        store(3),
    ),
    "the wrong selection": (
        load_pointer(),
        lane_offset(),
        encode("VOPC", "v_cmp_gt_u32", src0=i(31), vsrc1=0),
        encode("VOP2", "v_cndmask_b32", vdst=3, src0=VGPR + 9, vsrc1=0),
        store(3),
    ),
    "an lds byte": (
        load_pointer(),
        lane_offset(),
        ds_store(1, 0, "ds_store_b16"),
        ds_load(3, 1),
        wait("s_wait_dscnt"),
        store(3),
    ),
    "a matrix product": (
        load_pointer(),
        lane_offset(),
        *(move(register, i(0)) for register in range(10, 17)),
        encode("VOP3P", "v_wmma_f32_16x16x16_bf16", vdst=20, src0=VGPR + 10, src1=VGPR + 14, src2=i(0), opsel_hi=3),
        store(20),
    ),
}


@pytest.mark.parametrize("what", UNDEFINED)
def test_a_value_that_nobody_wrote_is_followed_to(what):
    with pytest.raises(UndefinedValueError, match="nobody wrote"):
        launch(*UNDEFINED[what], lds_bytes=256)
    launch(*UNDEFINED[what], lds_bytes=256, checks=Checks(undefined=False))


DEFINED = {
    "masked off": (
        load_pointer(),
        lane_offset(),
        encode("VOP2", "v_and_b32", vdst=7, src0=i(0), vsrc1=9),
        store(7),
    ),
    "not selected": (
        load_pointer(),
        lane_offset(),
        encode("VOPC", "v_cmp_gt_u32", src0=i(64), vsrc1=0),
        encode("VOP2", "v_cndmask_b32", vdst=3, src0=VGPR + 9, vsrc1=0),
        store(3),
    ),
    "shifted out": (
        load_pointer(),
        lane_offset(),
        encode("VOP1", "v_mov_b16", vdst=7, src0=i(1)),
        encode("VOP2", "v_lshlrev_b32", vdst=7, src0=i(16), vsrc1=7),
        store(7),
    ),
    "the unused half": (
        load_pointer(),
        lane_offset(),
        encode("VOP1", "v_mov_b16", vdst=7, src0=i(1)),
        store(7, opcode="global_store_b16"),
    ),
    "in an inactive lane": (
        load_pointer(),
        lane_offset(),
        encode("SOP1", "s_mov_b32", sdst=EXEC, ssrc0=i(1)),
        move(7, i(5)),
        store(7),
    ),
    "stored to lds and never read": (lane_offset(), ds_store(1, 9)),
    "above what is kept": (
        load_pointer(),
        lane_offset(),
        encode("VOP1", "v_mov_b16", vdst=7, src0=i(1)),
        encode("VOP2", "v_add_nc_u32", vdst=7, src0=VGPR + 7, vsrc1=0),
        store(7, opcode="global_store_b16"),
    ),
}


@pytest.mark.parametrize("what", DEFINED)
def test_an_undefined_value_may_be(what):
    launch(*DEFINED[what], lds_bytes=256)


# -- Loads in flight

GLOBAL_LOAD = encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2)
IN_FLIGHT = {
    "read": (load_pointer(), lane_offset(), GLOBAL_LOAD, store(3)),
    "overwritten": (load_pointer(), lane_offset(), GLOBAL_LOAD, move(3, i(0))),
    "waited for by the wrong counter": (load_pointer(), lane_offset(), GLOBAL_LOAD, wait("s_wait_dscnt"), store(3)),
    "waited for too little": (load_pointer(), lane_offset(), GLOBAL_LOAD, wait("s_wait_loadcnt", 1), store(3)),
    "a scalar pair": (encode("SMEM", "s_load_b64", sdata=2, sbase=0), lane_offset(), store(1)),
    "from lds": (
        lane_offset(),
        ds_store(1, 0),
        ds_load(3, 1),
        encode("VOP2", "v_add_nc_u32", vdst=4, src0=i(1), vsrc1=3),
    ),
    "a store to lds at a barrier": (lane_offset(), ds_store(1, 0), barrier()),
}


@pytest.mark.parametrize("what", IN_FLIGHT)
def test_a_register_is_not_touched_while_its_load_is_in_flight(what):
    with pytest.raises(InFlightError, match="in flight: no s_wait"):
        launch(*IN_FLIGHT[what], lds_bytes=256)
    launch(*IN_FLIGHT[what], lds_bytes=256, checks=Checks(in_flight=False))


def test_waiting_for_all_but_the_newest_frees_the_older_loads():
    second = encode("VGLOBAL", "global_load_b32", vdst=4, vaddr=1, saddr=2)
    code = (load_pointer(), lane_offset(), GLOBAL_LOAD, second, wait("s_wait_loadcnt", 1))
    launch(*code, store(3))
    with pytest.raises(InFlightError, match="reads v4"):
        launch(*code, store(4))


def test_two_halves_of_a_register_may_be_loaded_at_once_and_read_one_by_one():
    low, high = (
        encode("VGLOBAL", f"global_load_d16_{half}b16", vdst=3, vaddr=1, saddr=2, ioffset=offset)
        for half, offset in (("", 0), ("hi_", 2))
    )
    both = (load_pointer(), lane_offset(), low, high)
    launch(*both, wait("s_wait_loadcnt", 1), store(3, opcode="global_store_b16"))
    with pytest.raises(InFlightError):
        launch(*both, wait("s_wait_loadcnt", 1), store(3))


# -- Barriers


def skip_unless_first_wave(length: int) -> bytes:
    compare = encode("SOPC", "s_cmp_eq_u32", ssrc0=8, ssrc1=i(0))
    return WAVE_ID + compare + encode("SOPP", "s_cbranch_scc0", simm16=length // 4)


def test_a_barrier_that_one_wave_never_reaches_is_an_error():
    code = (skip_unless_first_wave(len(barrier())), barrier())
    with pytest.raises(BarrierError, match=r"\[0\] wait, \[1\] have ended") as caught:
        launch(*code, num_warps=2)
    assert "s_barrier_wait" in caught.value.place.instruction
    launch(*code, num_warps=2, checks=Checks(barriers=False))


def test_waves_that_come_by_different_ways_meet_at_the_barrier():
    detour = move(3, i(1)) + move(4, i(2))
    code = (skip_unless_first_wave(len(detour)), detour, barrier(), load_pointer(), lane_offset(), store(0))
    np.testing.assert_array_equal(launch(*code, num_warps=2)[:32], np.arange(32))


# -- Races


def test_two_waves_storing_different_values_at_one_lds_place_race():
    own = (lane_offset(), WAVE_ID, move(3, 8))
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=i(60), vsrc1=1)
    with pytest.raises(RaceError, match="of LDS, which wave . of workgroup 0 touched"):
        launch(*own, same_place, ds_store(1, 3), num_warps=2, lds_bytes=256)
    launch(*own, same_place, ds_store(1, 3), num_warps=2, lds_bytes=256, checks=Checks(races=False))


def test_waves_may_store_equal_values_at_one_place():
    same_place = encode("VOP2", "v_and_b32", vdst=1, src0=i(60), vsrc1=1)
    launch(lane_offset(), same_place, move(3, i(7)), ds_store(1, 3), num_warps=2, lds_bytes=256)


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
        launch(*exchange(b""), num_warps=2, lds_bytes=256)
    out = launch(*exchange(barrier()), num_warps=2, lds_bytes=256)
    np.testing.assert_array_equal(out, np.arange(64) ^ 32)


def test_overwriting_what_another_wave_read_needs_a_barrier():
    again = (*exchange(barrier()), move(6, i(1)))
    with pytest.raises(RaceError, match="writes offset"):
        launch(*again, ds_store(1, 6), num_warps=2, lds_bytes=256)
    launch(*again, barrier(), ds_store(1, 6), num_warps=2, lds_bytes=256)


def test_two_workgroups_storing_different_values_at_one_address_race():
    code = (load_pointer(), lane_offset(), move(3, TTMP9), store(3))
    with pytest.raises(RaceError, match="offset 0 of 'out', which wave 0 of workgroup"):
        launch(*code, grid=(2,))
    launch(*code, grid=(2,), checks=Checks(races=False))


def test_atomics_do_not_race():
    add = encode("VGLOBAL", "global_atomic_add_u32", vsrc=3, vaddr=1, saddr=2)
    out = launch(load_pointer(), lane_offset(), move(3, i(1)), add, grid=(3,), num_warps=2)
    np.testing.assert_array_equal(out, np.full(64, 3))


# -- Alignment, endless loops, unknown instructions, launches


@pytest.mark.parametrize(("opcode", "shift"), [("ds_store_b64", 2), ("ds_store_b128", 3), ("ds_store_b96", 3)])
def test_a_misaligned_wide_lds_access_is_refused(opcode, shift):
    code = (lane_offset(shift=shift), *(move(register, i(0)) for register in range(4, 8)), ds_store(1, 4, opcode))
    with pytest.raises(MisalignedError, match="no multiple of"):
        launch(*code, lds_bytes=1024)
    launch(*code, lds_bytes=1024, checks=Checks(alignment=False))


def test_an_endless_loop_ends_at_the_step_budget():
    with pytest.raises(StepBudgetError, match="more than 1000 steps"):
        launch(encode("SOPP", "s_branch", simm16=0xFFFF), checks=Checks(step_budget=1000))


def test_every_unknown_instruction_is_named_before_anything_runs():
    with pytest.raises(UnsupportedInstructions) as caught:
        program(
            encode("VOP3", "v_cubeid_f32", vdst=1, src0=i(0), src1=i(0), src2=i(0)),
            encode("SOPP", "s_trap", simm16=1),
            encode("SOP1", "s_setpc_b64", ssrc0=2),
            end(),
        )
    assert [(item.address, item.name) for item in caught.value.found] == [
        (0, "v_cubeid_f32"),
        (8, "s_trap"),
        (12, "s_setpc_b64"),
    ]


def test_a_branch_out_of_the_kernel_is_refused():
    with pytest.raises(UnsupportedInstructions, match="branches outside the kernel"):
        program(encode("SOPP", "s_branch", simm16=100), end())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arguments": []}, "0 arguments given, 1 wanted"),
        ({"arguments": [2**65]}, "does not fit 8 bytes"),
        ({"num_warps": 33}, "33 waves a workgroup"),
        ({"grid": (1, 1, 1, 1)}, "one to three sizes"),
        ({"lds_bytes": 70000}, "70000 bytes of LDS"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused(change, message):
    with pytest.raises(LaunchError, match=message):
        program(end()).launch(**{"grid": (1,), "num_warps": 1, "arguments": [0], "memory": Memory(), **change})


def test_a_fault_leaves_no_trace_in_memory():
    memory = Memory()
    address = memory.add("out", np.zeros(4, np.uint32))
    planted = program(load_pointer(), lane_offset(), store(0), end())
    for _ in range(2):
        with pytest.raises(OutOfBoundsError):
            planted.launch(grid=(1,), num_warps=1, arguments=[address], memory=memory)
    assert [buffer.name for buffer in memory.buffers] == ["out"]


def test_checks_are_all_on_unless_switched_off():
    checks = Checks()
    assert all(value for value in (getattr(checks, name) for name in Checks.__dataclass_fields__))
    assert replace(checks, races=False) != checks


def test_vcc_is_a_register_like_any_other():
    code = (load_pointer(), lane_offset(), encode("SOP1", "s_mov_b32", sdst=VCC, ssrc0=i(9)), move(3, VCC), store(3))
    np.testing.assert_array_equal(launch(*code)[:32], np.full(32, 9))
