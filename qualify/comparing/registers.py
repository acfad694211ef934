"""Which registers a line of disassembly names, and how many each name stands for.

AMD's text says it: `v[4:7]`.  SASS names the first of a run and leaves its length to the instruction, so that the
length here is an upper bound, from what the mnemonic says of widths.  Too long a run only ties registers together that
may be renamed apart: a comparison then calls code changed that a closer look would call equal, never the reverse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_AMD = re.compile(r"(?<![\w.$])(?P<file>[vs])(?:\[(?P<first>\d+):(?P<last>\d+)\]|(?P<single>\d+))(?![\w])")
_SASS = re.compile(r"(?<![\w.$])(?P<file>UR|UP|UB|R|P|B)(?P<single>\d+)(?![\w])")
_MNEMONIC = re.compile(r"^(?:@!?U?P[T0-9]+\s+)?(?P<name>[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)")

# Predicates and barriers stand for themselves.
_ALWAYS_ONE = ("P", "UP", "B", "UB")
# Roots of mnemonics whose operands are single registers unless a suffix says otherwise.
_SINGLE = re.compile(
    r"U?(?:IADD|IADD3|VIADD|IMAD|IMNMX|VIMNMX|VIADDMNMX|IABS|ISETP|LEA|LOP|LOP3|PLOP3|SHF|SEL|PRMT|MOV|POPC|FLO|BREV|SGXT)"
    r"|F(?:ADD|MUL|FMA|MNMX|SEL|SET|SETP|CHK|RND|2F|2I|2FP|2IP)|I2FP?|MUFU"
    r"|H(?:ADD2|FMA2|MUL2|SET2|SETP2|MNMX2)|SHFL|S2R|S2UR|R2UR|VOTEU?|REDUX|BMSK"
    r"|BAR|BRA|EXIT|NOP|BSSY|BSYNC|WARPSYNC|LDGDEPBAR|DEPBAR|ACQBULK|PREEXIT"
)
_PAIRED = frozenset(["CS2R", "RET", "CALL"])
_GLOBAL = frozenset(["LDG", "STG", "LDGSTS"])  # 64-bit addresses, and bases in uniform registers
_LOCAL = frozenset(["LDS", "STS", "LDL", "STL", "LDC", "LDCU", "ULDC"])  # 32-bit addresses
_MATRIX = frozenset(["HMMA", "IMMA", "QMMA", "OMMA", "LDSM", "STSM", "MOVM"])
# What a mnemonic's suffixes say of widths.
_WIDTHS = (("256", 8), ("128", 4), ("96", 4), ("64", 2), ("WIDE", 2))
_MATRIX_LENGTH = 4  # registers of a thread in any operand of an m16n8 product (PTX ISA, 'Matrix fragments')
_UNKNOWN_LENGTH = 8
# Warp-group and tensor-core products take runs of up to 128 registers; `PR` and these moves take predicates by number.
_UNBOUNDED = re.compile(r"^(?:[A-Z]*GMMA|UTC[A-Z]*|[A-Z]*TCGEN[A-Z0-9]*|LDTM|STTM|UTMA[A-Z]*|SETMAXREG|USETMAXREG)$")
_BY_NUMBER = re.compile(r"(?<!\w)(?:U?PR)(?!\w)|^(?:@!?U?P[T0-9]+\s+)?(?:U?P2U?R|U?R2P|B2R|R2B)\b")
_INDEXED = re.compile(r"^[vs]_movrel|^v_swaprel|^s_cmovrel")
_OPAQUE = (".long", ".byte")


@dataclass(frozen=True, slots=True)
class Named:
    """One place in a line that names registers: `file` such as `v` or `UR`, numbers `first` up to `first + length`."""

    start: int
    end: int
    file: str
    first: int
    length: int


def is_sass(text: str) -> bool:
    """NVIDIA's mnemonics and predicates are in capitals, AMD's never are."""
    return text[:1] == "@" or text[:1].isupper()


def named_registers(text: str) -> Iterator[Named]:
    """Every general register that a line names, from left to right; special ones (`vcc`, `m0`, `RZ`) are none."""
    if not is_sass(text):
        for found in _AMD.finditer(text):
            first = int(found["single"] or found["first"])
            last = int(found["single"] or found["last"])
            yield Named(found.start(), found.end(), found["file"], first, last - first + 1)
        return
    for found in _SASS.finditer(text):
        yield Named(found.start(), found.end(), found["file"], int(found["single"]), _length(text, found))


def fixed_files(text: str) -> frozenset[str]:
    """Register files of which this line uses members that it does not name: those cannot be renamed at all."""
    if text.startswith(_OPAQUE):
        return frozenset("vs")
    if not is_sass(text):
        return frozenset("vs") if _INDEXED.match(text) else frozenset()
    found = _MNEMONIC.match(text)
    if found is None or _UNBOUNDED.match(found["name"].partition(".")[0]):
        return frozenset(("R", "UR", "P", "UP", "B", "UB"))
    return frozenset(("P", "UP", "B", "UB")) if _BY_NUMBER.search(text) else frozenset()


def _length(text: str, found: re.Match[str]) -> int:
    if found["file"] in _ALWAYS_ONE:
        return 1
    mnemonic = _MNEMONIC.match(text)
    root, _, suffixes = mnemonic["name"].partition(".") if mnemonic else ("", "", "")
    said = 2 if text.startswith(".64", found.end()) else 1
    wide = max(said, *(length for suffix, length in _WIDTHS if suffix in suffixes), 1)
    inside = text.count("[", 0, found.start()) > text.count("]", 0, found.start())
    if root in _GLOBAL or root in _LOCAL:
        address = 2 if root in _GLOBAL else said
        return address if inside else wide
    if root in _MATRIX:
        return _MATRIX_LENGTH
    if root in _PAIRED:
        return 2
    return wide if _SINGLE.fullmatch(root) else _UNKNOWN_LENGTH
