"""Registers are not touched before the wait for their load."""

from __future__ import annotations

import pytest

from assay.emulator import Checks, InFlightError

from .planting import (
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
        launch_planted(*IN_FLIGHT[what], lds_bytes=256)
    launch_planted(*IN_FLIGHT[what], lds_bytes=256, checks=Checks(in_flight=False))


def test_waiting_for_all_but_the_newest_frees_the_older_loads():
    second = encode("VGLOBAL", "global_load_b32", vdst=4, vaddr=1, saddr=2)
    code = (load_pointer(), lane_offset(), GLOBAL_LOAD, second, wait("s_wait_loadcnt", 1))
    launch_planted(*code, store(3))
    with pytest.raises(InFlightError, match="reads v4"):
        launch_planted(*code, store(4))


def test_two_halves_of_a_register_may_be_loaded_at_once_and_read_one_by_one():
    low, high = (
        encode("VGLOBAL", f"global_load_d16_{half}b16", vdst=3, vaddr=1, saddr=2, ioffset=offset)
        for half, offset in (("", 0), ("hi_", 2))
    )
    both = (load_pointer(), lane_offset(), low, high)
    launch_planted(*both, wait("s_wait_loadcnt", 1), store(3, opcode="global_store_b16"))
    with pytest.raises(InFlightError):
        launch_planted(*both, wait("s_wait_loadcnt", 1), store(3))
