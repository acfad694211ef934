"""Program control: SOPP and the barrier instructions of SOP1 (RDNA4 ISA, 'Program Flow Control').

Branches, the end of the program and barrier waits decide where waves go next; the scheduler does that.  What stands
here are the instructions that do nothing to the state, and signalling a barrier.
"""

from __future__ import annotations

import numpy as np

from ..instruction import Instruction
from ..registry import Refused, Step, semantics
from ..state import Group

# Branches and waits at barriers: handled by the scheduler, registered so that they count as known.
CONTROL = (
    "s_branch",
    "s_cbranch_scc0",
    "s_cbranch_scc1",
    "s_cbranch_vccz",
    "s_cbranch_vccnz",
    "s_cbranch_execz",
    "s_cbranch_execnz",
    "s_endpgm",
    "s_barrier_wait",
)
_SENDMSG_DEALLOCATE_VGPRS = 3
_WORKGROUP_BARRIER = 193  # the source number of -1


def _nothing(g: Group) -> None:
    """Timing, scheduling, caches and clocks are not modelled."""


@semantics(
    "SOPP",
    "s_nop",
    "s_sleep",
    "s_clause",
    "s_delay_alu",
    "s_wait_alu",
    "s_wait_idle",
    "s_wait_event",
    "s_setprio",
    "s_icache_inv",
    "s_wakeup",
    "s_sethalt",
    "s_code_end",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_incperflevel",
    "s_decperflevel",
    *CONTROL,
)
def _no_effect(instruction: Instruction) -> Step:
    if instruction.opcode == "s_sethalt" and instruction["simm16"] & 1:
        raise Refused("halts the wave")
    return _nothing


@semantics("SOPP", "s_sendmsg")
def _sendmsg(instruction: Instruction) -> Step:
    if instruction["simm16"] & 0xFF != _SENDMSG_DEALLOCATE_VGPRS:
        raise Refused(f"message {instruction['simm16'] & 0xFF}")
    return _nothing


@semantics(
    "SOPP",
    "s_wait_loadcnt",
    "s_wait_storecnt",
    "s_wait_dscnt",
    "s_wait_kmcnt",
    "s_wait_loadcnt_dscnt",
    "s_wait_storecnt_dscnt",
    "s_wait_samplecnt",
    "s_wait_bvhcnt",
    "s_wait_expcnt",
)
def _wait(instruction: Instruction) -> Step:
    """Memory operations complete at once here; `in_flight` says whether the wait came in time."""
    value = instruction["simm16"]
    loads = scalars = lds = None
    match instruction.opcode:
        case "s_wait_loadcnt":
            loads = value & 0x3F
        case "s_wait_dscnt":
            lds = value & 0x3F
        case "s_wait_kmcnt":
            scalars = value & 0x1F
        case "s_wait_loadcnt_dscnt":
            loads, lds = value >> 8 & 0x3F, value & 0x3F
        case "s_wait_storecnt_dscnt":
            lds = value & 0x3F
        case _:
            return _nothing
    return lambda g: g.complete(loads=loads, lds=lds, scalars=scalars)


@semantics("SOP1", "s_barrier_signal")
def _barrier_signal(instruction: Instruction) -> Step:
    if instruction["ssrc0"] != _WORKGROUP_BARRIER:
        raise Refused("a named barrier")
    return lambda g: g.machine.signal_barrier(g)


@semantics("SOP1", "s_getpc_b64", "s_setpc_b64", "s_swappc_b64")
def _jump(_instruction: Instruction) -> Step:
    raise Refused("a computed jump")


@semantics("SOP1", "s_sleep_var", "s_barrier_init", "s_barrier_join")
def _no_effect_sop1(instruction: Instruction) -> Step:
    if instruction.opcode != "s_sleep_var":
        raise Refused("a named barrier")
    return _nothing


@semantics("SOP1", "s_sendmsg_rtn_b32", "s_sendmsg_rtn_b64")
def _sendmsg_rtn(instruction: Instruction) -> Step:
    """The real-time clock (message 131) reads as the number of steps so far; other messages have no answer here."""
    if instruction["ssrc0"] != 131:
        raise Refused(f"message {instruction['ssrc0']}")
    register = instruction["sdst"]

    def run(g: Group) -> None:
        g.s[register][...] = np.uint32(g.machine.steps & 0xFFFFFFFF)
        if instruction.opcode.endswith("b64"):
            g.s[register + 1][...] = np.uint32(g.machine.steps >> 32)

    return run


@semantics("SOPK", "s_getreg_b32")
def _getreg(instruction: Instruction) -> Step:
    """Hardware registers: the shader clock reads as the number of steps; others are not modelled."""
    number, offset, size = (
        instruction["simm16"] & 63,
        instruction["simm16"] >> 6 & 31,
        (instruction["simm16"] >> 11 & 31) + 1,
    )
    shift = {29: 0, 30: 32}.get(number)
    if shift is None:
        raise Refused(f"hardware register {number}")
    register, mask = instruction["sdst"], (1 << size) - 1

    def run(g: Group) -> None:
        g.s[register][...] = np.uint32(g.machine.steps >> shift >> offset & mask)

    return run
