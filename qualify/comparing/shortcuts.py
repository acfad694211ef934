"""What two codes are told apart by at once, without listing them: most code that differs is no renaming.

A listing of 200 kernels on both sides takes a minute; two builds of them are compared in seconds.  Every answer here is
only ever "no": code that these let through is listed and compared.
"""

from __future__ import annotations

from functools import lru_cache

from assay.objects.executed import callable_functions

from .normalising import shape
from .records import Built

# NVIDIA instructions from sm_70 on: 16 bytes, of which the low 12 bits are operation and form of operands; in forms 4
# and 5 bits 40 to 63 belong to a constant, an offset or a place in a constant bank, and to no register.  Bytes 2 and 3
# are registers or have nothing to do with any.  NVIDIA publishes no encoding; the tests look at what they compile, and
# 28,764 instructions of shipped kernels were looked at.
_SASS_BYTES = 16
_OPERATION, _FORM_SHIFT, _FORMS_WITH_CONSTANT = 0xFFF, 9, (4, 5)
_REGISTER_PLACES = (2, 3)
# What decides how long a gfx12 instruction is lies in its first eight bytes.
_SIZE_BYTES, _LONGEST = 8, 20


def may_be_renamed(left: Built, right: Built) -> bool:
    """Whether the code of both could be the same but for registers.  Both are whole code objects."""
    if left.record.resources.get("code_bytes") != right.record.resources.get("code_bytes"):
        return False
    counts = left.record.instructions, right.record.instructions
    if None not in counts and counts[0] != counts[1]:
        return False
    before, after = (callable_functions(side.code, side.row.symbol, where=side.row.id) for side in (left, right))
    if [len(body) for _, body in before] != [len(body) for _, body in after]:
        return False
    alike = _sass_alike if left.target.backend == "cuda" else _gfx12_alike
    return all(alike(one, other) for (_, one), (_, other) in zip(before, after, strict=True))


def _sass_alike(one: bytes, other: bytes) -> bool:
    """Whether each instruction is the same operation on the same constants as the one in its place, and the registers
    of each kind of operation correspond one to one."""
    forward: dict[tuple[int, int, int], int] = {}
    backward: dict[tuple[int, int, int], int] = {}
    for at in range(0, len(one), _SASS_BYTES):
        a, b = one[at : at + _SASS_BYTES], other[at : at + _SASS_BYTES]
        low = int.from_bytes(a[:2], "little") & _OPERATION
        if low != int.from_bytes(b[:2], "little") & _OPERATION:
            return False
        if low >> _FORM_SHIFT in _FORMS_WITH_CONSTANT and a[5:8] != b[5:8]:
            return False
        for place in _REGISTER_PLACES:
            if forward.setdefault((low, place, a[place]), b[place]) != b[place]:
                return False
            if backward.setdefault((low, place, b[place]), a[place]) != a[place]:
                return False
    return True


def _gfx12_alike(one: bytes, other: bytes) -> bool:
    """Whether the first instruction that differs is the same one on other registers."""
    if one == other:
        return True
    different = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    at = 0
    while size := _gfx12_size(one[at : at + _SIZE_BYTES]):
        if at + size > different:
            texts = _gfx12_text(one[at : at + size]), _gfx12_text(other[at : at + size])
            # How far a branch goes is for the whole listing to say.
            return texts[0].startswith(("s_branch", "s_cbranch")) or shape(texts[0]) == shape(texts[1])
        at += size
    return True


@lru_cache(maxsize=1 << 16)
def _gfx12_size(first: bytes) -> int:
    """Bytes of the instruction that begins so; 0 where that is none."""
    from assay.emulator.decode import DecodeError, decode_one

    try:
        return decode_one(first.ljust(_LONGEST, b"\0"), 0).size
    except DecodeError:
        return 0


def _gfx12_text(raw: bytes) -> str:
    from assay.emulator.assembly import disassemble

    return "; ".join(line.text for line in disassemble(raw))
