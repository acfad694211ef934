"""The classes that the table of negative controls counts instructions in."""

from __future__ import annotations

from assay.emulator.instruction import Instruction

CLASSES = (
    "vector arithmetic",
    "scalar arithmetic",
    "matrix products",
    "comparisons and selections",
    "moves",
    "lane exchanges",
    "scalar loads",
    "global loads",
    "global stores",
    "LDS loads",
    "LDS stores",
    "waits for memory",
    "barriers",
    "branches",
    "program end",
    "waits for the ALU",
    "hints",
)

_MEMORY_WAITS = ("s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt")
_LANE_EXCHANGES = ("ds_bpermute", "ds_permute", "ds_swizzle", "v_permlane", "v_readlane", "v_readfirstlane", "v_write")
_SELECTIONS = ("v_cmp", "s_cmp", "s_bitcmp", "v_cndmask", "s_cselect")
_MOVES = ("v_mov", "s_mov", "v_swap")
_BY_NAME = (
    (("s_barrier",), "barriers"),
    (("s_branch", "s_cbranch"), "branches"),
    (("s_endpgm",), "program end"),
    (_MEMORY_WAITS, "waits for memory"),
    (("s_wait_alu",), "waits for the ALU"),
    (_LANE_EXCHANGES, "lane exchanges"),
    (("v_wmma", "v_swmmac"), "matrix products"),
    (_SELECTIONS, "comparisons and selections"),
    (_MOVES, "moves"),
)


def class_of(instruction: Instruction) -> str:
    """Which of CLASSES.  A VOPD pair counts as what its halves are, or as arithmetic where they differ."""
    if instruction.parts:
        classes = {class_of(part) for part in instruction.parts}
        return classes.pop() if len(classes) == 1 else "vector arithmetic"
    if instruction.dpp:
        return "lane exchanges"
    for prefixes, name in _BY_NAME:
        if instruction.opcode.startswith(prefixes):
            return name
    writes = "_store_" in instruction.opcode
    match instruction.encoding:
        case "SOPP":
            return "hints"
        case "SMEM":
            return "scalar loads"
        case "DS":
            return "LDS stores" if writes else "LDS loads"
        case "VGLOBAL" | "VFLAT" | "VBUFFER" | "VSCRATCH":
            return "global stores" if writes else "global loads"
    return "scalar arithmetic" if instruction.opcode.startswith("s_") else "vector arithmetic"
