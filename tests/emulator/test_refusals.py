"""Misaligned accesses, endless loops, unknown instructions and launches that do not fit are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from assay.emulator import (
    Checks,
    EmulationError,
    LaunchError,
    Memory,
    MisalignedError,
    OutOfBoundsError,
    Program,
    StepBudgetError,
    UnsupportedInstructions,
)
from assay.objects.amd_chips import MACH_NAMES
from assay.qualify.emulating import require_emulation
from assay.qualify.executing import EvidenceError
from assay.runtime.drivers import NoDriverError, open_driver

from .planting import VCC, ds_store, encode, end, i, lane_offset, launch_planted, load_pointer, move, program, store


@pytest.mark.parametrize(("opcode", "shift"), [("ds_store_b64", 2), ("ds_store_b128", 3), ("ds_store_b96", 3)])
def test_a_misaligned_wide_lds_access_is_refused(opcode, shift):
    code = (lane_offset(shift=shift), *(move(register, i(0)) for register in range(4, 8)), ds_store(1, 4, opcode))
    with pytest.raises(MisalignedError, match="no multiple of"):
        launch_planted(*code, lds_bytes=1024)
    launch_planted(*code, lds_bytes=1024, checks=Checks(alignment=False))


@pytest.mark.parametrize("arch", [*MACH_NAMES.values(), "sm_120a"])
def test_whose_code_is_executed_is_one_list_for_all_that_ask(monkeypatch, arch):
    """gfx1250 and its kin have names that begin alike, and other instructions."""
    executed = arch in ("gfx1200", "gfx1201", "gfx12-generic")
    backend = "cuda" if arch.startswith("sm_") else "hip"
    kernel = replace(program(end()).kernel, arch=arch, backend=backend)
    monkeypatch.setattr("assay.emulator.program.read_object", lambda *_, **__: SimpleNamespace(kernels=(kernel,)))
    target = SimpleNamespace(target=arch, arch=arch, backend=backend)
    asked = (
        (EmulationError, lambda: Program.load(b"", where="planted")),
        (NoDriverError, lambda: open_driver(f"emulator:{arch}", ())),
        (NoDriverError, lambda: open_driver("emulator", (arch, "gfx1100"))),
        (EvidenceError, lambda: require_emulation(target, [])),
    )
    for error, ask in asked:
        if executed:
            ask()
            continue
        with pytest.raises(error, match="gfx1200, gfx1201, gfx12-generic"):
            ask()


def test_an_endless_loop_ends_at_the_step_budget():
    with pytest.raises(StepBudgetError, match="more than 1000 steps"):
        launch_planted(encode("SOPP", "s_branch", simm16=0xFFFF), checks=Checks(step_budget=1000))


def test_code_that_does_not_end_is_not_taken_for_ended():
    memory, out = Memory(), np.zeros(64, np.uint32)
    with pytest.raises(EmulationError, match=r"planted\+0x0: .*: runs past the end of the code: no s_endpgm"):
        program(move(1, i(0))).launch(grid=(1,), num_warps=1, arguments=[memory.add("out", out)], memory=memory)


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
    np.testing.assert_array_equal(launch_planted(*code)[:32], np.full(32, 9))
