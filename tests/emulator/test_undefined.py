"""Values that nobody wrote are followed to where they matter, and no further."""

from __future__ import annotations

import pytest

from assay.emulator import Checks, UndefinedValueError

from .planting import (
    EXEC,
    VGPR,
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
    "the sign bits alone of a wide lds load": (
        load_pointer(),
        move(1, i(0)),
        move(21, i(0)),
        encode("VOP2", "v_lshlrev_b32", vdst=20, src0=i(31), vsrc1=30),
        *(ds_store(1, register, offset=4 * word) for word, register in enumerate((21, 20, 21, 20))),
        wait("s_wait_dscnt"),
        ds_load(8, 1, "ds_load_b128"),
        wait("s_wait_dscnt"),
        lane_offset(),
        store(9),
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
        launch_planted(*UNDEFINED[what], lds_bytes=256)
    launch_planted(*UNDEFINED[what], lds_bytes=256, checks=Checks(undefined=False))


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
    launch_planted(*DEFINED[what], lds_bytes=256)
