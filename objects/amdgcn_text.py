"""Counts instructions in the compiler's AMDGCN assembly text (`asm['amdgcn']` of Triton, `clang -S`)."""

from __future__ import annotations

import re
from collections import Counter

_COMMENT = re.compile(r"/\*.*?\*/|;.*|//.*")
_LABEL = re.compile(r"^\s*[A-Za-z_.$][\w.$@]*:\s*")
_MNEMONIC = re.compile(r"^\s*(?P<name>[a-z][a-z0-9_]*)(?=\s|$)")
_METADATA_BEGIN, _METADATA_END = ".amdgpu_metadata", ".end_amdgpu_metadata"


def count_instructions_amdgcn(text: str) -> Counter[str]:
    """Mnemonic → number of instruction lines, as written (`v_add_f32_e32` and `v_add_f32_e64` apart).

    Comments, labels, directives and the metadata block do not count. Both halves of a VOPD pair
    (`v_dual_mul_f32 … :: v_dual_add_f32 …`; RDNA3/RDNA4 ISA, 'Dual Issue VALU') do. The count is of the text,
    not of executed instructions. Text without instructions gives an empty Counter.
    """
    counts: Counter[str] = Counter()
    in_metadata = False
    for line in text.splitlines():
        word = line.strip()
        if word in (_METADATA_BEGIN, _METADATA_END):
            in_metadata = word == _METADATA_BEGIN
        elif not in_metadata:
            counts.update(_mnemonics(line))
    return counts


def _mnemonics(line: str) -> list[str]:
    code = _LABEL.sub("", _COMMENT.sub("", line))
    if code.lstrip().startswith("."):
        return []
    found = (_MNEMONIC.match(half) for half in code.split("::"))
    return [match["name"] for match in found if match]
