"""Waves part and meet again, whole grids run, and memory behaves."""

from __future__ import annotations

import numpy as np
import pytest

from assay.emulator import Checks, Memory
from assay.emulator.launch import _CHUNK_BYTES
from assay.emulator.memory import GUARD_BYTES

from .planting import EXEC, NULL, TTMP9, VCC, VGPR, encode, end, i, lane_offset, load_pointer, program, store, wait

TTMP7 = 115


def run(*code: bytes, words: int, grid=(1,), num_warps: int = 1, **options):
    memory, out = Memory(), np.zeros(words, np.uint32)
    address = memory.add("out", out)
    result = program(*code, end()).launch(grid=grid, num_warps=num_warps, arguments=[address], memory=memory, **options)
    return out, result


def loop_by_workgroup() -> tuple[bytes, ...]:
    """Every workgroup w adds 1 to v3 w + 1 times, then stores it behind its own 32 words."""
    body = (
        encode("VOP2", "v_add_nc_u32", vdst=3, src0=i(1), vsrc1=3),
        encode("SOP2", "s_sub_co_u32", sdst=9, ssrc0=9, ssrc1=i(1)),
        encode("SOPC", "s_cmp_lg_u32", ssrc0=9, ssrc1=i(0)),
    )
    back = -(sum(map(len, body)) + 4) // 4
    return (
        load_pointer(),
        encode("VOP1", "v_mov_b32", vdst=3, src0=i(0)),
        encode("SOP2", "s_add_co_u32", sdst=9, ssrc0=TTMP9, ssrc1=i(1)),
        *body,
        encode("SOPP", "s_cbranch_scc1", simm16=back & 0xFFFF),
        encode("SOP2", "s_lshl_b32", sdst=10, ssrc0=TTMP9, ssrc1=i(7)),
        lane_offset(),
        encode("VOP2", "v_add_nc_u32", vdst=1, src0=10, vsrc1=1),
        store(3),
    )


def test_waves_that_loop_for_different_times_meet_again():
    out, result = run(*loop_by_workgroup(), words=32 * 7, grid=(7,))
    np.testing.assert_array_equal(out, np.repeat(np.arange(1, 8), 32))
    # Seven turns, as many as the last workgroup needs, and everything behind the loop once for all.
    assert result.steps == 4 + 7 * 4 + 5
    assert result.counters.instructions["branch"] == sum(range(1, 8))


def test_lanes_take_both_sides_of_a_branch():
    compare = encode("VOPC", "v_cmp_gt_u32", src0=i(12), vsrc1=0)
    save = encode("SOP1", "s_and_saveexec_b32", sdst=9, ssrc0=VCC)
    then = encode("VOP1", "v_mov_b32", vdst=3, src0=i(7))
    skip = encode("SOPP", "s_cbranch_execz", simm16=len(then) // 4)
    restore = encode("SOP1", "s_mov_b32", sdst=EXEC, ssrc0=9)
    start = encode("VOP1", "v_mov_b32", vdst=3, src0=i(1))
    out, _ = run(load_pointer(), lane_offset(), start, compare, save, skip, then, restore, store(3), words=32)
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 12, 7, 1))


@pytest.mark.parametrize("shortcut", [True, False])
def test_waves_without_active_lanes_skip_a_block_with_and_without_the_shortcut(shortcut):
    """Wave 0 has lanes below 12, wave 1 has none; the block is counted for wave 0 alone either way."""
    compare = encode("VOPC", "v_cmp_gt_u32", src0=i(12), vsrc1=0)
    save = encode("SOP1", "s_and_saveexec_b32", sdst=9, ssrc0=VCC)
    then = encode("VOP1", "v_mov_b32", vdst=3, src0=i(7)) * 3
    skip = encode("SOPP", "s_cbranch_execz", simm16=len(then) // 4)
    restore = encode("SOP1", "s_mov_b32", sdst=EXEC, ssrc0=9)
    start = encode("VOP1", "v_mov_b32", vdst=3, src0=i(1))
    out, result = run(
        load_pointer(),
        lane_offset(),
        start,
        compare,
        save,
        skip,
        then,
        restore,
        store(3),
        words=64,
        num_warps=2,
        checks=Checks(execz_shortcut=shortcut),
    )
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 12, 7, 1))
    assert result.counters.instructions["valu"] == 2 * 3 + 3


@pytest.mark.parametrize("grid", [(3,), (2, 3), (2, 3, 2)])
def test_workgroup_ids_cover_the_grid(grid):
    x, y, z = (*grid, 1, 1)[:3]
    code = (
        load_pointer(),
        encode("SOP2", "s_and_b32", sdst=9, ssrc0=TTMP7, ssrc1=255, literal=0xFFFF),
        encode("SOP2", "s_lshr_b32", sdst=10, ssrc0=TTMP7, ssrc1=i(16)),
        encode("SOP2", "s_mul_i32", sdst=11, ssrc0=10, ssrc1=i(y)),
        encode("SOP2", "s_add_co_u32", sdst=11, ssrc0=11, ssrc1=9),
        encode("SOP2", "s_mul_i32", sdst=11, ssrc0=11, ssrc1=i(x)),
        encode("SOP2", "s_add_co_u32", sdst=11, ssrc0=11, ssrc1=TTMP9),
        encode("SOP2", "s_lshl_b32", sdst=12, ssrc0=11, ssrc1=i(2)),
        encode("VOP1", "v_mov_b32", vdst=1, src0=12),
        encode("VOP1", "v_mov_b32", vdst=3, src0=11),
        store(3),
    )
    out, _ = run(*code, words=x * y * z, grid=grid)
    np.testing.assert_array_equal(out, np.arange(x * y * z))


def test_a_grid_runs_in_parts_when_its_registers_are_many():
    groups = 2 * _CHUNK_BYTES // (4 * 32 * 4) + 3
    code = (
        load_pointer(),
        encode("SOP2", "s_lshl_b32", sdst=10, ssrc0=TTMP9, ssrc1=i(2)),
        encode("VOP1", "v_mov_b32", vdst=1, src0=10),
        encode("VOP1", "v_mov_b32", vdst=3, src0=TTMP9),
        store(3),
    )
    out, result = run(*code, words=groups, grid=(groups,))
    np.testing.assert_array_equal(out, np.arange(groups))
    assert result.counters.waves == groups


def test_an_empty_grid_runs_nothing():
    out, result = run(load_pointer(), lane_offset(), store(0), words=4, grid=(0,))
    assert result.steps == 0
    assert not out.any()


def test_unaligned_global_accesses_work():
    memory, data = Memory(), np.arange(200, dtype=np.uint8)
    address = memory.add("data", data)
    load = encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2, ioffset=3)
    code = (load_pointer(), lane_offset(), load, wait("s_wait_loadcnt"), store(3))
    program(*code, end()).launch(grid=(1,), num_warps=1, arguments=[address], memory=memory, checks=Checks(races=False))
    np.testing.assert_array_equal(data[:128], np.arange(3, 131))


def test_a_sparse_buffer_is_addressed_beyond_two_gibibytes():
    memory = Memory()
    size, far = 5 << 30, (4 << 30) + 12
    address, data = memory.add_sparse("cache", size)
    data[far : far + 4].view(np.uint32)[...] = 4711
    output = np.zeros(32, np.uint32)
    out = memory.add("out", output)
    code = (
        load_pointer(2, 0),
        load_pointer(4, 8),
        encode("SOP1", "s_mov_b32", sdst=6, ssrc0=i(12)),
        encode("SOP1", "s_mov_b32", sdst=7, ssrc0=i(1)),
        encode("SOP2", "s_add_nc_u64", sdst=2, ssrc0=2, ssrc1=6),
        encode("SMEM", "s_load_b32", sdata=9, sbase=2),
        wait(),
        encode("VOP1", "v_mov_b32", vdst=3, src0=9),
        lane_offset(),
        store(3, base=4),
        end(),
    )
    program(*code, pointers=2).launch(grid=(1,), num_warps=1, arguments=[address, out], memory=memory)
    assert (output == 4711).all()


def test_buffers_lie_far_apart_and_keep_their_names():
    memory = Memory()
    first, second = memory.add("a", np.zeros(10)), memory.add("b", np.zeros(10), align=4096)
    assert second - first >= GUARD_BYTES
    assert second % 4096 == 0
    with pytest.raises(ValueError, match="'a' is there already"):
        memory.add("a", np.zeros(1))
    with pytest.raises(ValueError, match="not C-contiguous"):
        memory.add("c", np.zeros((4, 4)).T)


def test_an_access_may_reach_several_buffers_at_once():
    memory = Memory()
    first, second = np.full(32, 5, np.uint32), np.full(32, 6, np.uint32)
    a, b = memory.add("a", first, writable=False), memory.add("b", second, writable=False)
    result = memory.load(np.array([a, b + 4, a + 8], np.uint64), 4)
    np.testing.assert_array_equal(result, [5, 6, 5])


def test_a_buffer_descriptor_hides_lanes_beyond_its_records():
    memory = Memory()
    data, out = np.arange(1, 33, dtype=np.uint32), np.full(32, 99, np.uint32)
    given = [memory.add("data", data, writable=False), memory.add("out", out)]
    descriptor = (
        encode("SOP1", "s_mov_b32", sdst=10, ssrc0=255, literal=40),
        encode("SOP1", "s_mov_b32", sdst=11, ssrc0=255, literal=0x31027000),
        encode("SOP2", "s_and_b32", sdst=9, ssrc0=3, ssrc1=255, literal=0xFFFF),
        encode("SOP1", "s_mov_b32", sdst=8, ssrc0=2),
    )
    load = encode("VBUFFER", "buffer_load_b32", vdata=3, vaddr=1, rsrc=8, offen=1, soffset=NULL)
    code = (load_pointer(), load_pointer(4, 8), *descriptor, lane_offset(), load, wait("s_wait_loadcnt"))
    program(*code, store(3, base=4), end(), pointers=2).launch(grid=(1,), num_warps=1, arguments=given, memory=memory)
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 10, data, 0))


def test_the_two_halves_of_a_dual_instruction_read_before_either_writes():
    swap = encode("VOPD", "v_dual_mov_b32", opy=8, vdstx=4, vdsty=2, srcx0=VGPR + 5, srcy0=VGPR + 4)
    code = (
        load_pointer(),
        lane_offset(),
        encode("VOP1", "v_mov_b32", vdst=4, src0=i(1)),
        encode("VOP1", "v_mov_b32", vdst=5, src0=i(2)),
        swap,
        encode("VOP2", "v_lshlrev_b32", vdst=5, src0=i(8), vsrc1=5),
        encode("VOP2", "v_or_b32", vdst=4, src0=VGPR + 4, vsrc1=5),
        store(4),
    )
    out, _ = run(*code, words=32)
    np.testing.assert_array_equal(out, np.full(32, 2 | 1 << 8))


def test_a_matrix_product_is_rounded_once():
    """Each lane's D is the exact sum of sixteen products and C, in the layout of the ISA document."""
    from assay.emulator.checks import NO_CHECKS
    from assay.emulator.decode import decode_one
    from assay.emulator.machine import Machine
    from assay.emulator.registry import make_step

    rng = np.random.default_rng(5)
    machine = Machine(
        Memory(), NO_CHECKS, workgroups=1, waves_per_group=1, vector_count=32, lds_bytes=0, scratch_bytes=0
    )
    a, b = (rng.standard_normal((16, 16)).astype(np.float16) for _ in "ab")
    c = rng.standard_normal((16, 16)).astype(np.float32)
    vector = machine.registers.vector
    for lane in range(32):
        row, half = lane % 16, lane // 16
        vector[0:4, 0, lane] = a[row, 8 * half : 8 * half + 8].copy().view(np.uint32)
        vector[4:8, 0, lane] = b[8 * half : 8 * half + 8, row].copy().view(np.uint32)
        vector[8:16, 0, lane] = c[8 * half : 8 * half + 8, row].copy().view(np.uint32)
    code = encode(
        "VOP3P", "v_wmma_f32_16x16x16_f16", vdst=16, src0=VGPR, src1=VGPR + 4, src2=VGPR + 8, opsel_hi=3, opsel_hi2=1
    )
    make_step(decode_one(code, 0))(machine.group(np.arange(1)))
    exact = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)
    result = np.empty((16, 16), np.float32)
    for lane in range(32):
        result[8 * (lane // 16) : 8 * (lane // 16) + 8, lane % 16] = vector[16:24, 0, lane].view(np.float32)
    np.testing.assert_array_equal(result, exact)
