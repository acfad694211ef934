"""Which encoding a 32-bit word begins, and where its bit fields lie (RDNA4 ISA, chapter 15 'Microcode Formats').

The field positions, opcode numbers and operand sizes come from tinygrad's tables, which are generated from AMD's own
machine-readable ISA.  Its decoder is not used: it does not know VBUFFER nor the DPP forms of VOP3 and VOP3P.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .isa_tables import OPERANDS, AlignedSGPRField, BitField, FixedBitField, VGPRField, ins

LITERAL = 255  # a source of this number is the 32-bit word behind the instruction
DPP8, DPP8_FETCH_INVALID, DPP16 = 233, 234, 250  # the same place then names how lanes are permuted


@dataclass(frozen=True, slots=True)
class Field:
    """A bit field: `(word >> low) & mask`, then scaled; VGPR fields of 8 bits become source numbers from 256."""

    low: int
    mask: int
    scale: int
    offset: int


@dataclass(frozen=True, slots=True)
class Encoding:
    """One instruction format. `opcodes` maps its numbers to the enumeration members of the tables."""

    name: str
    size: int
    fields: Mapping[str, Field]
    op_field: str
    opcodes: Mapping[int, object]


@dataclass(frozen=True, slots=True)
class Size:
    """What the tables say of one operand: its width in bits, and whether its format name holds a float or integer."""

    bits: int
    form: str


def _field(item: BitField) -> Field:
    scale = item._align if isinstance(item, AlignedSGPRField) else 1
    return Field(item.lo, item.mask, scale, 256 if isinstance(item, VGPRField) else 0)


def _fields(form: type) -> Mapping[str, Field]:
    items = {name: _field(item) for name, item in form._fields if not isinstance(item, FixedBitField)}
    return MappingProxyType(items)


def _encoding(name: str, form: type, op_field: str = "op") -> Encoding:
    enumeration = dict(form._fields)[op_field]._enum
    return Encoding(
        name, form._base_size, _fields(form), op_field, MappingProxyType({item.value: item for item in enumeration})
    )


_NAMES = "SOP1 SOP2 SOPC SOPK SOPP SMEM VOP1 VOP2 VOP3 VOP3P VOP3SD VOPC DS VBUFFER VFLAT VGLOBAL VSCRATCH VINTERP"
ENCODINGS: Mapping[str, Encoding] = MappingProxyType(
    {name: _encoding(name, getattr(ins, name)) for name in _NAMES.split()}
    | {"VOPD": _encoding("VOPD", ins.VOPD, "opx")}
)
# The DPP word stands behind the base instruction: bits 32 on after 4 bytes, bits 64 on after 8.
DPP16_FIELDS = {
    size: {
        name: _fields(form)[name]
        for name in (
            "vsrc0",
            "dpp",
            "fi",
            "bc",
            "row_mask",
            "bank_mask",
            "src0_neg",
            "src0_abs",
            "src1_neg",
            "src1_abs",
        )
    }
    for size, form in ((4, ins.VOP1_DPP16), (8, ins.VOP3_DPP16))
}
DPP8_FIELDS = {
    size: {name: _fields(form)[name] for name in ("vsrc0", *(f"lane_sel_{lane}" for lane in range(8)))}
    for size, form in ((4, ins.VOP1_DPP8), (8, ins.VOP3_DPP8))
}

# Longest prefix first.  (number of leading bits, their value, encoding)
_PREFIXES: tuple[tuple[int, int, str], ...] = (
    (9, 0b101111101, "SOP1"),
    (9, 0b101111110, "SOPC"),
    (9, 0b101111111, "SOPP"),
    (8, 0b11001100, "VOP3P"),
    (8, 0b11001101, "VINTERP"),
    (8, 0b11101100, "VFLAT"),
    (8, 0b11101101, "VSCRATCH"),
    (8, 0b11101110, "VGLOBAL"),
    (7, 0b0111110, "VOPC"),
    (7, 0b0111111, "VOP1"),
    (6, 0b110101, "VOP3"),
    (6, 0b110010, "VOPD"),
    (6, 0b110110, "DS"),
    (6, 0b110001, "VBUFFER"),
    (6, 0b111101, "SMEM"),
    (4, 0b1011, "SOPK"),
    (2, 0b10, "SOP2"),
    (1, 0b0, "VOP2"),
)


def find_encoding(word: int) -> Encoding | None:
    """The encoding of the instruction that begins with this word; `None` if it is none of gfx12's compute ones."""
    for bits, value, name in _PREFIXES:
        if word >> (32 - bits) == value:
            # VOP3 and VOP3SD share their prefix and are told apart by the opcode.
            if name == "VOP3" and (word >> 16) & 0x3FF in ENCODINGS["VOP3SD"].opcodes:
                name = "VOP3SD"
            return ENCODINGS[name]
    return None


def operand_sizes(opcode: object) -> Mapping[str, Size]:
    """Width and format of each operand of an opcode, by field name; `vsrc0` of DPP forms is listed as `src0`."""
    listed = OPERANDS.get(opcode, {})
    return {
        ("src0" if name == "vsrc0" else name): Size(bits, form.name.removeprefix("FMT_"))
        for name, (form, bits, _) in listed.items()
    }


@functools.cache
def operand_form(encoding: str, number: int, role: str) -> Size:
    """Width and format of one operand of an opcode by its number. Raises LookupError."""
    return operand_sizes(ENCODINGS[encoding].opcodes[number])[role]


@functools.cache
def _field_bits(encoding: str, dpp: str) -> int:
    """The bits of an instruction that say which encoding it is, or lie in one of its fields; behind them all are."""
    form = ENCODINGS[encoding]
    prefix = next(bits for bits, _, name in _PREFIXES if name == ("VOP3" if encoding == "VOP3SD" else encoding))
    known = ((1 << prefix) - 1) << (32 - prefix)
    fields = [*form.fields.values()]
    if dpp:
        fields += (DPP16_FIELDS if dpp == "dpp16" else DPP8_FIELDS)[form.size].values()
    for item in fields:
        known |= item.mask << item.low
    return known


def reserved_bits(word: int, encoding: str, dpp: str) -> int:
    """Those bits of an instruction that are set and lie in no field. word: the instruction without its literal."""
    return word & ~_field_bits(encoding, dpp)
