"""Random instructions of every opcode of every encoding, with the modifiers that code has and some that none has."""

from __future__ import annotations

import random

from assay.emulator.decode import DecodeError, decode_one
from assay.emulator.encodings import DPP8_FIELDS, DPP16_FIELDS, ENCODINGS, operand_sizes
from assay.emulator.instruction import Instruction

# Leading bits of each encoding (RDNA4 ISA, 'Microcode Formats'), not read from the code under test.
_LEADING = {
    "SOP1": "101111101", "SOP2": "10", "SOPC": "101111110", "SOPK": "1011", "SOPP": "101111111", "SMEM": "111101",
    "VOP1": "0111111", "VOP2": "0", "VOP3": "110101", "VOP3P": "11001100", "VOP3SD": "110101", "VOPC": "0111110",
    "DS": "110110", "VBUFFER": "110001", "VFLAT": "11101100", "VSCRATCH": "11101101", "VGLOBAL": "11101110",
    "VOPD": "110010", "VINTERP": "11001101",
}  # fmt: skip
NAMES = tuple(_LEADING)
_SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1", "srcx0", "srcy0")
_VECTORS = ("vdst", "vdata", "vaddr", "vsrc", "vsrc1", "addr", "data0", "data1", "vdstx", "vdsty", "vsrcx1", "vsrcy1")
_ALWAYS = (*_VECTORS[7:], "srcx0", "srcy0", "simm16", "ioffset", "offset0", "offset1", "offen", "idxen", "sve")
_CONTROLS = (0x101, 0x10F, 0x111, 0x11F, 0x121, 0x12F, 0x140, 0x141, 0x150, 0x15F, 0x160, 0x16F)
_LITERALS = (0, 1, 40, 0x3C00, 0x3F80, 0x3F800000, 0x40000000, 0xFFFFFFFF, 0x3FF00000)
_LANES, _LITERAL = (250, 250, 233, 234), 255


def samples(name: str, chance: random.Random, each: int) -> list[tuple[bytes, Instruction]]:
    """`each` encodings of every opcode of one encoding; what decodes as something else is left out."""
    found = []
    for number, opcode in ENCODINGS[name].opcodes.items():
        for _ in range(each):
            code = _make(name, number, opcode, chance)
            try:
                instruction = decode_one(code, 0)
            except DecodeError:  # the other half of a pair has no such opcode
                continue
            if instruction.encoding == name:
                found.append((code[: instruction.size], instruction))
    return found


def _make(name: str, number: int, opcode, chance: random.Random) -> bytes:
    roles = set(operand_sizes(opcode))
    encoding = ENCODINGS[name]
    word = int(_LEADING[name], 2) << (32 - len(_LEADING[name]))
    lanes = chance.choice(_LANES) if name.startswith("VOP") and name != "VOPD" and chance.random() < 0.2 else 0
    tidy = chance.random() < 0.8  # fields that the opcode does not use hold what the assembler puts there
    for field, place in encoding.fields.items():
        value = number if field in ("op", "opx") else _value(field, place.mask, chance)
        if field == "vdst" and opcode.name.startswith("V_CMPX"):
            value = 126  # EXEC
        elif tidy and field not in roles and field not in _ALWAYS and field != "op":
            value = _unused(field, value, lanes, opcode)
        word |= (value & place.mask) << place.low
    size = encoding.size
    if not lanes:
        return (word | chance.choice([*_LITERALS, chance.getrandbits(32)]) << 8 * size).to_bytes(size + 4, "little")
    word = word & ~(encoding.fields["src0"].mask << encoding.fields["src0"].low) | lanes << encoding.fields["src0"].low
    for field, place in (DPP16_FIELDS if lanes == 250 else DPP8_FIELDS)[size].items():
        word |= (_value(field, place.mask, chance) & place.mask) << place.low
    return word.to_bytes(size + 4, "little")


def _value(field: str, mask: int, chance: random.Random) -> int:
    pick = chance.choice
    if field in _SOURCES:
        register = pick([chance.randrange(106), chance.randrange(0, 104, 4), 106, 124, 125, 126, 108])
        constant = pick([128, 129, 192, 193, 208, *range(240, 249), 235, 238, 253])
        return pick([register, constant, _LITERAL, *[256 + chance.randrange(256)] * 3 * (mask > 255)])
    if field in ("saddr", "soffset"):
        return pick([124, chance.randrange(0, 106, 2), 106])
    if field in ("sdst", "sdata", "rsrc"):
        return pick([chance.randrange(0, 104, 4), chance.randrange(0, 104, 4), 106])
    if field == "sbase":
        return chance.randrange(0, 52, 2)
    if field in _VECTORS:
        return pick([0, chance.randrange(240), chance.randrange(128)])
    if field == "dpp":
        return pick([chance.randrange(256), pick(_CONTROLS), chance.randrange(512)])
    if field in ("opsel_hi", "opsel_hi2"):
        return pick([mask, mask, chance.randrange(mask + 1)])
    if field in ("opx", "opy"):
        return chance.randrange(19)
    return pick([0, 0, 0, chance.randrange(mask + 1)])


def _unused(field: str, value: int, lanes: int, opcode) -> int:
    if field in ("src1", "src2"):
        return 0 if lanes and not opcode.name.startswith("V_CMPX") else 128
    if field in ("saddr", "soffset"):
        return 124
    if field == "src0":
        return 128 if opcode.name.endswith("_E64") else 0
    if field in ("nv", "tfe", *_VECTORS, "sdst", "ssrc0", "sdata", "sbase"):
        return 0
    return 1 if field == "format" else value
