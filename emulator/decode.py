"""Machine code to instructions (RDNA4 ISA, chapter 15 'Microcode Formats')."""

from __future__ import annotations

import functools
from dataclasses import replace
from types import MappingProxyType

from .encodings import (
    DPP8,
    DPP8_FETCH_INVALID,
    DPP8_FIELDS,
    DPP16,
    DPP16_FIELDS,
    ENCODINGS,
    LITERAL,
    Encoding,
    find_encoding,
    operand_sizes,
)
from .instruction import NULL, SCC, VGPR, Instruction, Operand

_LITERAL_ONLY = ("fmaak", "fmamk", "setreg_imm32")
_SOURCES = ("src0", "src1", "vsrc1", "src2", "ssrc0", "ssrc1", "srcx0", "srcy0")
_DESTINATIONS = ("vdst", "sdst", "vdstx", "vdsty", "sdata")
_DPP_KINDS = {DPP16: "dpp16", DPP8: "dpp8", DPP8_FETCH_INVALID: "dpp8_fi"}
# Comparisons and lane reads of VOP3 and VOP1 put a scalar register where others have a VGPR.
_SCALAR_RESULT = ("v_cmp", "v_readlane", "v_readfirstlane", "v_s_")
_MEMORY = ("DS", "VGLOBAL", "VFLAT", "VBUFFER", "VSCRATCH")
_DATA = ("vdst", "vsrc", "vdata", "data0")
# The assembler marks the long form of an operation that has a short one.
_VOP2_NAMES = frozenset(item.name.lower() for item in ENCODINGS["VOP2"].opcodes.values())
# Those without a long form are written bare.
_SHORT_ONLY = ("v_readfirstlane", "v_fmamk", "v_fmaak", "v_swap", "v_nop", "v_pipeflush", "v_permlane64")
# One bit a lane: 64 in the tables, 32 in wave32.
_MASK_FORM = "NUM_M64"


class DecodeError(Exception):
    """Bytes that are no gfx12 compute instruction, or code that ends inside one."""


def decode(code: bytes) -> tuple[Instruction, ...]:
    """Every instruction of a kernel's code, in order of address. Raises DecodeError, naming the address.

    What stands behind the last `s_endpgm` is padding (`s_code_end`) and is left out.
    """
    result, at = [], 0
    while at < len(code):
        instruction = decode_one(code, at)
        result.append(instruction)
        at += instruction.size
    while result and result[-1].opcode == "s_code_end":
        result.pop()
    return tuple(result)


def decode_one(code: bytes, address: int) -> Instruction:
    """The instruction at `address`. Raises DecodeError."""
    word = int.from_bytes(code[address : address + 20], "little")
    encoding = find_encoding(word & 0xFFFFFFFF)
    if encoding is None or len(code) - address < 4:
        raise DecodeError(f"{address:#x}: {word & 0xFFFFFFFF:#010x} begins no gfx12 compute instruction")
    instruction = _decode(word, encoding, address)
    if address + instruction.size > len(code):
        raise DecodeError(f"{address:#x}: the code ends inside {instruction.name}")
    return instruction


def _decode(word: int, encoding: Encoding, address: int) -> Instruction:
    fields = _read(word, encoding.fields)
    size, literal, dpp = encoding.size, None, ""
    if encoding.name == "VOPD":
        names = [_opcode_name(encoding, fields[half], address) for half in ("opx", "opy")]
    else:
        names = [_opcode_name(encoding, fields["op"], address)]
    if (kind := _DPP_KINDS.get(fields.get("src0", 0))) and encoding.name.startswith("VOP"):
        dpp = kind
        extra = DPP16_FIELDS if kind == "dpp16" else DPP8_FIELDS
        fields |= _read(word, extra[encoding.size])
        fields["src0"] = fields.pop("vsrc0")
        size += 4
    elif _needs_literal(names, fields):
        literal = (word >> (8 * size)) & 0xFFFFFFFF
        size += 4
    if encoding.name == "VOPD":
        return _pair(fields, names, address, size, literal)
    return _single(encoding, fields, names[0], address, size, literal, dpp)


def _read(word: int, fields) -> dict[str, int]:
    return {name: ((word >> f.low) & f.mask) * f.scale + f.offset for name, f in fields.items()}


def _opcode_name(encoding: Encoding, number: int, address: int) -> str:
    opcode = encoding.opcodes.get(number)
    if opcode is None:
        raise DecodeError(f"{address:#x}: {encoding.name} has no opcode {number}")
    return opcode.name.lower()


def _needs_literal(names: list[str], fields: dict[str, int]) -> bool:
    if any(part in name for name in names for part in _LITERAL_ONLY):
        return True
    return any(fields.get(name) == LITERAL for name in _SOURCES)


def _single(encoding, fields, name, address, size, literal, dpp) -> Instruction:
    opcode = name.removesuffix("_e32").removesuffix("_e64")
    if dpp:
        suffix = "_dpp8" if dpp != "dpp16" else "_dpp"
        name = f"{opcode}_e64{suffix}" if encoding.name.startswith("VOP3") else f"{opcode}{suffix}"
        if encoding.name == "VOP3P":
            name = f"{opcode}{suffix}"
    elif encoding.name == "VOP3SD" and f"{name}_e32" in _VOP2_NAMES:
        name += "_e64"
    elif name.endswith("_e32") and opcode.startswith(_SHORT_ONLY):
        name = opcode
    if encoding.name in ("VOP1", "VOP3") and opcode.startswith(_SCALAR_RESULT):
        fields["vdst"] -= VGPR
    operands = _operands(encoding, encoding.opcodes[fields["op"]], opcode, fields)
    return Instruction(address, size, encoding.name, name, opcode, operands, MappingProxyType(fields), literal, dpp)


def _pair(fields, names, address, size, literal) -> Instruction:
    """VOPD: two operations of two sources each, the second destination's lowest bit being the first's inverted."""
    fields["vdsty"] = VGPR + (fields["vdsty"] * 2 | (fields["vdstx"] & 1 ^ 1))
    parts = []
    for half, name in zip("xy", names, strict=True):
        raw = {
            "vdst": fields[f"vdst{half}"],
            "src0": fields[f"src{half}0"],
            "vsrc1": fields[f"vsrc{half}1"],
        }
        opcode = name.replace("v_dual_", "v_")
        operands = [_operand("vdst", raw["vdst"], 1, written=True), _operand("src0", raw["src0"], 1)]
        if opcode != "v_mov_b32":
            operands.append(_operand("vsrc1", raw["vsrc1"], 1))
        parts.append(Instruction(address, size, "VOPD", name, opcode, tuple(operands), MappingProxyType(raw), literal))
    operands = parts[0].operands + parts[1].operands
    name = " :: ".join(part.name for part in parts)
    return Instruction(address, size, "VOPD", name, name, operands, MappingProxyType(fields), literal, "", tuple(parts))


@functools.cache
def _sizes(encoding_name: str, number: int):
    return operand_sizes(ENCODINGS[encoding_name].opcodes[number])


def _operands(encoding: Encoding, _member, opcode: str, fields: dict[str, int]) -> tuple[Operand, ...]:
    found = []
    for role, size in _sizes(encoding.name, fields["op"]).items():
        if role not in fields or role == "simm16":
            continue
        registers = 1 if size.form == _MASK_FORM else max(1, size.bits // 32)
        written = role in _DESTINATIONS or (role == "vdata" and "_load_" in opcode)
        number = fields[role]
        if encoding.name in ("VGLOBAL", "VFLAT") and role == "vaddr":
            registers = 2 if fields["saddr"] == NULL else 1
        if encoding.name == "VBUFFER" and role == "vaddr":
            registers = fields["offen"] + fields["idxen"]
        if encoding.name == "VSCRATCH" and role == "vaddr" and not fields["sve"]:
            registers = 0
        if registers:
            operand = _operand(role, number, registers, written=written)
            if operand.kind == "vgpr":
                operand = replace(operand, **_half_of(operand, size.bits, encoding.name, opcode, fields))
            found.append(operand)
    return tuple(sorted(found, key=_written_order))


def _written_order(operand: Operand) -> tuple[bool, int]:
    """Results first, as the assembler writes them; then sources by their number."""
    order = _SOURCES if not operand.written else _DESTINATIONS
    return not operand.written, order.index(operand.role) if operand.role in order else len(order)


_OPSEL_BITS = {"src0": 0, "src1": 1, "src2": 2, "vdst": 3}


def _half_of(operand: Operand, bits: int, encoding: str, opcode: str, fields: dict[str, int]) -> dict:
    """Which half of a register an operand is: in OPSEL, in bit 7 of its number in the short forms, or in the name."""
    if encoding in ("VOP1", "VOP2", "VOPC") and bits == 16:
        return {"index": operand.index & 0x7F, "half": "h" if operand.index >> 7 else "l"}
    high = None
    if encoding == "VOP3" and bits == 16:
        high = fields["opsel"] >> _OPSEL_BITS[operand.role] & 1
    elif opcode.startswith("v_fma_mix") and not operand.written:
        position = _OPSEL_BITS[operand.role]
        is_half = fields["opsel_hi2"] if position == 2 else fields["opsel_hi"] >> position & 1
        high = fields["opsel"] >> position & 1 if is_half else None
    elif opcode.startswith("v_fma_mix"):
        high = {"v_fma_mixlo_f16": 0, "v_fma_mixhi_f16": 1}.get(opcode)
    elif encoding in _MEMORY and operand.role in _DATA:
        high = _moved_half(opcode, written=operand.written)
    return {} if high is None else {"half": "h" if high else "l"}


def _moved_half(opcode: str, *, written: bool) -> int | None:
    """Loads of `d16` fill half a register; stores of 8 and 16 bits read half of one."""
    if "d16" in opcode:
        return int("d16_hi" in opcode)
    narrow = "_store_b8" in opcode or "_store_b16" in opcode
    return 0 if narrow and not written else None


def _operand(role: str, number: int, registers: int, *, written: bool = False) -> Operand:
    if number >= VGPR:
        return Operand(role, "vgpr", number - VGPR, registers, written)
    if number == NULL:
        return Operand(role, "null", number, registers, written)
    if number < 128:
        return Operand(role, "sgpr", number, registers, written)
    if number == LITERAL:
        return Operand(role, "literal", number, registers, written)
    if number == SCC:
        return Operand(role, "scc", number, registers, written)
    return Operand(role, "constant", number, registers, written)
