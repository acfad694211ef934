"""Which AMD processor an ELF header names.

Source: LLVM AMDGPUUsage, tables 'AMDGPU EF_AMDGPU_MACH Values' and 'AMDGPU ELF Header e_flags for Code
Object V3 / V4 and After' (llvm/docs/AMDGPUUsage.rst, LLVM 20; gfx1250, gfx1251 and gfx12-5-generic from
llvm/include/llvm/BinaryFormat/ELF.h of later releases).
"""

from __future__ import annotations

MACH_MASK = 0xFF

MACH_NAMES = {
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5B: "gfx12-5-generic",
    0x5F: "gfx9-4-generic",
}

# Processors with RDNA4's instructions, and code for all of them; gfx1250 and its kin have others.
RDNA4 = ("gfx1200", "gfx1201", "gfx12-generic")

# EI_ABIVERSION of ELFOSABI_AMDGPU_HSA; code object V2 (0) has no msgpack note and is not read.
CODE_OBJECT_VERSIONS = {1: 3, 2: 4, 3: 5, 4: 6}

# From V4 on: two bits each for SRAMECC and XNACK; 'any' (1) is not spelled in a target id.
_FEATURES = (("sramecc", 10), ("xnack", 8))
_FEATURE_SPELLING = {0: "", 1: "", 2: "-", 3: "+"}
_FEATURE_MASK = 0xF00
_GENERIC_VERSION_MASK = 0xFF000000  # V6: version of a generic target


def target_id(flags: int, code_object_version: int) -> str | None:
    """The target id (`gfx1201`, `gfx942:sramecc+:xnack-`) that `e_flags` names; `None` if unknown.

    Code object V3 used other feature bits and no target id in the note: only its processor is given.
    """
    chip = MACH_NAMES.get(flags & MACH_MASK)
    if chip is None or code_object_version < 4:
        return chip
    known = MACH_MASK | _FEATURE_MASK | (_GENERIC_VERSION_MASK if code_object_version >= 6 else 0)
    if flags & ~known:
        return None
    signs = ((name, _FEATURE_SPELLING[flags >> shift & 3]) for name, shift in _FEATURES)
    return chip + "".join(f":{name}{sign}" for name, sign in signs if sign)
