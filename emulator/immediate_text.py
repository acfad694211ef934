"""The 16-bit immediates of SOPP and SOPK that the assembler has names for."""

from __future__ import annotations

from .modifier_text import signed

BRANCHES = ("s_branch", "s_cbranch_", "s_call_b64")
_WITHOUT = (
    "s_wait_idle",
    "s_barrier_leave",
    "s_code_end",
    "s_endpgm_saved",
    "s_wakeup",
    "s_ttracedata",
    "s_icache_inv",
)
_MESSAGES = {1: "MSG_INTERRUPT", 3: "MSG_DEALLOC_VGPRS"}
_DEPENDENCIES = ("NO_DEP", *(f"VALU_DEP_{n}" for n in range(1, 5)), *(f"TRANS32_DEP_{n}" for n in range(1, 4)))
_DEPENDENCIES += ("FMA_ACCUM_CYCLE_1", *(f"SALU_CYCLE_{n}" for n in range(1, 4)))
_SKIPS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")


def is_branch(opcode: str) -> bool:
    return opcode.startswith(BRANCHES)


def immediate_text(opcode: str, value: int) -> str | None:
    """The immediate of a SOPP or SOPK instruction that is no branch; `None` where the assembler wants none."""
    if opcode in _WITHOUT or (opcode == "s_endpgm" and not value):
        return None
    if opcode == "s_delay_alu":
        return _delay(value)
    if opcode == "s_sendmsg" and value in _MESSAGES:
        return f"sendmsg({_MESSAGES[value]})"
    if opcode in ("s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32"):
        return f"hwreg({value & 0x3F}, {value >> 6 & 0x1F}, {(value >> 11) + 1})"
    if opcode == "s_barrier_wait":
        return str(signed(value, 16))
    return f"{value:#x}" if opcode not in ("s_nop", "s_sleep", "s_setprio") else str(value)


def _delay(value: int) -> str:
    """`instid0(VALU_DEP_1) | instskip(NEXT) | instid1(…)`, or the number where a part of it has no name."""
    first, skip, second = value & 15, value >> 4 & 7, value >> 7 & 15
    if value >> 11 or max(first, second) >= len(_DEPENDENCIES) or skip >= len(_SKIPS):
        return f"{value:#x}"
    shown = [f"instid0({_DEPENDENCIES[first]})"] if first else []
    shown += [f"instskip({_SKIPS[skip]})"] if skip else []
    shown += [f"instid1({_DEPENDENCIES[second]})"] if second else []
    return " | ".join(shown) or "0"
