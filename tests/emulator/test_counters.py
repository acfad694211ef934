"""Counters: instructions by class, bytes and segments of memory, LDS bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest

from assay.emulator import Memory
from assay.emulator.counters import bank_cycles, segment_counts

from .planting import encode, end, i, lane_offset, load_pointer, program, store, wait


def run(*code: bytes, words: int = 4096, num_warps: int = 2, grid=(1,), lds_bytes: int = 65536):
    memory = Memory()
    address = memory.add("out", np.zeros(words, np.uint32))
    return (
        program(*code, end())
        .launch(grid=grid, num_warps=num_warps, arguments=[address], memory=memory, lds_bytes=lds_bytes)
        .counters
    )


def test_instructions_are_counted_by_class_for_each_wave():
    counters = run(load_pointer(), lane_offset(), store(0), num_warps=3, grid=(2,))
    wanted = {"smem": 1, "valu": 1, "vmem": 1, "other": 2}
    assert {name: count for name, count in counters.instructions.items() if count} == {
        name: 6 * count for name, count in wanted.items()
    }
    assert (counters.waves, counters.workgroups, counters.total) == (6, 2, 30)


@pytest.mark.parametrize(("shift", "segments"), [(2, (4, 2, 1)), (3, (8, 4, 2)), (5, (32, 16, 8)), (7, (32, 32, 32))])
def test_a_wave_touches_as_many_segments_as_its_stride_says(shift, segments):
    counters = run(load_pointer(), lane_offset(shift=shift), store(0), num_warps=1)
    (found,) = counters.memory
    assert (found.segments_32, found.segments_64, found.segments_128) == segments
    assert (found.bytes, found.waves, found.kind) == (128, 1, "store")


def test_an_access_across_a_segments_border_touches_both():
    at = np.full((1, 32), 30, np.uint64)
    assert segment_counts(at, 4, None) == [2, 1, 1]


def test_waves_are_kept_apart_when_lanes_are_missing():
    at = np.array([0, 4, 64, 0], np.uint64)
    assert segment_counts(at, 4, np.array([0, 0, 0, 1])) == [3, 3, 2]


@pytest.mark.parametrize(("shift", "cycles"), [(2, 1), (3, 2), (4, 4), (7, 32)])
def test_bank_conflicts_grow_with_the_stride(shift, cycles):
    store_lds = encode("DS", "ds_store_b32", addr=1, data0=0)
    counters = run(lane_offset(shift=shift), store_lds, num_warps=2)
    (found,) = counters.lds
    assert (found.cycles, found.ideal_cycles, found.waves) == (2 * cycles, 2, 2)
    assert counters.bank_conflict_cycles == 2 * (cycles - 1)


def test_lanes_that_read_one_word_do_not_conflict():
    assert bank_cycles(np.zeros((1, 32), np.int64), 4) == (1, 1)
    assert bank_cycles(np.arange(32)[None] * 16, 16) == (4, 4)
    assert bank_cycles(np.full((2, 32), -1), 4) == (0, 0)


def test_memory_counters_can_be_left_out():
    memory = Memory()
    address = memory.add("out", np.zeros(32, np.uint32))
    planted = program(load_pointer(), lane_offset(), store(0), end())
    result = planted.launch(grid=(1,), num_warps=1, arguments=[address], memory=memory, count_transactions=False)
    assert result.counters.memory == ()
    assert result.counters.instructions["vmem"] == 1


def test_an_instruction_in_a_loop_is_one_counter():
    code = (
        load_pointer(),
        lane_offset(),
        encode("SOP1", "s_mov_b32", sdst=9, ssrc0=i(3)),
        encode("VGLOBAL", "global_load_b32", vdst=3, vaddr=1, saddr=2),
        wait("s_wait_loadcnt"),
        encode("SOP2", "s_sub_co_u32", sdst=9, ssrc0=9, ssrc1=i(1)),
        encode("SOPC", "s_cmp_lg_u32", ssrc0=9, ssrc1=i(0)),
        encode("SOPP", "s_cbranch_scc1", simm16=-7 & 0xFFFF),
    )
    (found,) = run(*code, num_warps=1).memory
    assert (found.waves, found.bytes) == (3, 3 * 128)
