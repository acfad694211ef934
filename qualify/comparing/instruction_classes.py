"""Instructions by class: what a person looks at first when two builds differ.

AMD mnemonics: RDNA4 ISA, chapters on each encoding, and CDNA3 ISA for matrix instructions; NVIDIA's: CUDA Binary
Utilities, 'Instruction Set Reference', by the root of the mnemonic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# Class -> what its mnemonics begin with; the first class that fits counts.
_AMD = (
    ("WMMA/MFMA", r"v_(wmma|swmmac|mfma|smfmac)_"),
    ("scratch", r"scratch_"),
    ("VMEM", r"(buffer|tbuffer|global|flat|image)_"),
    ("DS", r"ds_"),
    ("SMEM", r"s_(buffer_)?(load|store|prefetch|dcache|atomic)"),
    ("wait", r"s_(wait|delay|clause|sleep)"),
    ("NOP", r"s_nop|s_code_end"),
    ("barrier", r"s_barrier"),
    ("branch", r"s_(c?branch|call|setpc|swappc|endpgm|getpc)"),
    ("SALU", r"s_"),
    ("conversion", r"v_cvt_"),
    ("transcendental", r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos|tanh)_"),
    ("VALU", r"v_"),
)
_NVIDIA = (
    ("MMA", r"[A-Z]*MMA|WARPGROUP"),
    ("barrier", r"BAR|DEPBAR|LDGDEPBAR|SYNCS|MEMBAR|ERRBAR|CGAERRBAR|FENCE|ACQBULK|WARPSYNC|B2R"),
    ("local", r"LDL|STL"),
    ("shared", r"LDS|STS|ATOMS|LDGSTS|MOVM"),
    ("global", r"LDG|STG|LD$|ST$|ATOM|RED$|REDG|UBLK|UTMA|CCTL"),
    ("constant", r"LDC|ULDC"),
    ("branch", r"BRA|BRX|JMP|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BMOV|YIELD|NANOSLEEP"),
    ("NOP", r"NOP"),
    ("conversion", r"F2|I2|FRND"),
    ("transcendental", r"MUFU"),
    ("shuffle", r"SHFL|VOTE|REDUX|MATCH"),
    ("uniform", r"U|R2UR|S2UR"),
    ("ALU", r"[A-Z]"),
)
_PATTERNS = {
    backend: tuple((name, re.compile(pattern)) for name, pattern in classes)
    for backend, classes in {"hip": _AMD, "cuda": _NVIDIA}.items()
}


def by_class(counts: Mapping[str, int], backend: str) -> Counter[str]:
    """Mnemonic -> count as class -> count.  A mnemonic that fits no class counts as `other`."""
    found: Counter[str] = Counter()
    for mnemonic, count in counts.items():
        found[_class_of(mnemonic, backend)] += count
    return found


def class_changes(before: Mapping[str, int], after: Mapping[str, int], backend: str) -> dict[str, tuple[int, int]]:
    """The classes whose counts differ: before and after."""
    old, new = by_class(before, backend), by_class(after, backend)
    names = [name for name, _ in _PATTERNS[backend]] + ["other"]
    return {name: (old[name], new[name]) for name in names if old[name] != new[name]}


def _class_of(mnemonic: str, backend: str) -> str:
    root = mnemonic.partition(".")[0] if backend == "cuda" else mnemonic
    return next((name for name, pattern in _PATTERNS[backend] if pattern.match(root)), "other")
