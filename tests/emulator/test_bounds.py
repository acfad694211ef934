"""An access outside every buffer, LDS or scratch is found, and says where."""

from __future__ import annotations

import numpy as np
import pytest

from assay.emulator import NO_CHECKS, Checks, Memory, OutOfBoundsError

from .planting import (
    EXEC,
    NULL,
    ds_store,
    encode,
    end,
    i,
    lane_offset,
    launch_planted,
    load_pointer,
    move,
    program,
    store,
    wait,
)


def test_a_store_behind_a_buffer_names_buffer_offset_and_lane():
    code = (load_pointer(), lane_offset(), store(0))
    with pytest.raises(OutOfBoundsError) as caught:
        launch_planted(*code, words=20)
    assert "offset 80 of buffer 'out', which has 80 bytes (wave 0, lane 20)" in str(caught.value)
    assert caught.value.place.kernel == "planted"
    assert caught.value.place.instruction.startswith("global_store_b32")
    assert caught.value.place.address == sum(map(len, code[:2]))


def test_a_load_before_a_buffer_says_by_how_much():
    load = encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2, ioffset=-8 & 0xFFFFFF)
    with pytest.raises(OutOfBoundsError, match="8 bytes before buffer 'out'"):
        launch_planted(load_pointer(), lane_offset(), load)


def test_an_access_that_straddles_a_buffers_end_is_outside():
    pair = (move(4, i(0)), move(5, i(0)))
    with pytest.raises(OutOfBoundsError, match="of 8 bytes at offset 124 of buffer 'out'"):
        launch_planted(load_pointer(), lane_offset(), *pair, store(4, opcode="global_store_b64"), words=32)


def test_inactive_lanes_access_nothing():
    only_sixteen = encode("SOP1", "s_mov_b32", sdst=EXEC, ssrc0=255, literal=0xFFFF)
    out = launch_planted(load_pointer(), lane_offset(), only_sixteen, store(0), words=16)
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
    np.testing.assert_array_equal(launch_planted(*code, words=32, checks=Checks(bounds=False)), np.zeros(32))


def test_without_bounds_checks_the_end_of_the_address_space_is_outside_too():
    code = (move(4, i(-1)), move(5, i(-1)), store(0, address=4, base=NULL, opcode="global_store_b128"))
    np.testing.assert_array_equal(launch_planted(*code, words=32, checks=NO_CHECKS), np.zeros(32))


def test_a_scalar_load_outside_every_buffer_is_refused():
    with pytest.raises(OutOfBoundsError, match="scalar"):
        launch_planted(encode("SMEM", "s_load_b32", sdata=4, sbase=0, ioffset=4096))


def test_an_lds_access_beyond_the_launched_size_is_refused():
    with pytest.raises(OutOfBoundsError, match=r"offset 124, of 100 bytes launched with .wave 0, lane 31"):
        launch_planted(lane_offset(), ds_store(1, 0), lds_bytes=100)


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
