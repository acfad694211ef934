"""What becomes of the bit fields of an instruction that is altered: values by field name, `literal` among them."""

from __future__ import annotations

from collections.abc import Iterator

from assay.emulator.encodings import ENCODINGS, LITERAL
from assay.emulator.instruction import NULL, VGPR, Instruction

from .classes import class_of

Change = dict[str, int]

# Stems of an opcode and what they become; the first that names an opcode of the same encoding is taken.
_OPERATIONS = (
    ("_add_", "_sub_"),
    ("_sub_", "_add_"),
    ("_addk_", "_mulk_"),
    ("_max3_", "_min3_"),
    ("_max_", "_min_"),
    ("_min_", "_max_"),
    ("_mul_f32", "_add_f32"),
    ("_mul_i32", "_add_co_i32"),
    ("_mul_u64", "_add_nc_u64"),
    ("_mul_lo_u32", "_mul_hi_u32"),
    ("_and_not1_", "_or_not1_"),
    ("_and_saveexec_", "_or_saveexec_"),
    ("_and_", "_or_"),
    ("_or_", "_and_"),
    ("_xor_", "_or_"),
    ("_lshlrev_", "_lshrrev_"),
    ("_lshrrev_", "_lshlrev_"),
    ("_ashrrev_", "_lshrrev_"),
    ("_lshl_", "_lshr_"),
    ("_lshr_", "_lshl_"),
    ("_ashr_", "_lshr_"),
    ("_bfe_u32", "_bfe_i32"),
    ("_bfe_i32", "_bfe_u32"),
    ("_add3_", "_or3_"),
    ("_or3_", "_add3_"),
    ("_fma_f32", "_max3_num_f32"),
    ("_fmac_f32", "_mul_f32"),
    ("_exp_f32", "_log_f32"),
    ("_log_f32", "_exp_f32"),
    ("_rcp_f32", "_sqrt_f32"),
    ("_gt_", "_ge_"),
    ("_ge_", "_gt_"),
    ("_lt_", "_le_"),
    ("_le_", "_lt_"),
    ("_eq_", "_ne_"),
    ("_eq_", "_lg_"),
    ("_lg_", "_eq_"),
    ("_nlg_", "_lg_"),
    ("_cmp_o_", "_cmp_u_"),
    ("_cmpx_gt_", "_cmpx_ge_"),
    ("_bitcmp1_", "_bitcmp0_"),
    ("_scc0", "_scc1"),
    ("_scc1", "_scc0"),
    ("_vccz", "_vccnz"),
    ("_vccnz", "_vccz"),
    ("_execz", "_execnz"),
    ("_execnz", "_execz"),
)
_SOURCES = ("src0", "vsrc1", "src1", "src2", "ssrc0", "ssrc1", "addr", "srcx0", "vsrcx1", "srcy0", "vsrcy1")
_EXCHANGED = (("src0", "src1"), ("src0", "vsrc1"), ("ssrc0", "ssrc1"))
# Integers, and one half to four with their negatives.
_SMALL_CONSTANTS = (*range(128, 208), *range(240, 247))
_MEMORY = ("global loads", "global stores", "scalar loads", "LDS loads", "LDS stores")


def operations(instruction: Instruction) -> Iterator[Change]:
    """Another operation on the same operands; a comparison at its boundary; a branch on the inverted condition."""
    encoding = ENCODINGS[instruction.encoding]
    if instruction.parts:
        names = {field: part.name for field, part in zip(("opx", "opy"), instruction.parts, strict=True)}
    else:
        names = {"op": encoding.opcodes[instruction["op"]].name.lower().removesuffix("_e32")}
    for field, name in names.items():
        numbers = {
            member.name.lower().removesuffix("_e32"): number
            for number, member in encoding.opcodes.items()
            if number <= encoding.fields[field].mask
        }
        wanted = [name.replace(old, new, 1) for old, new in _OPERATIONS if old in name]
        yield from ({field: numbers[other]} for other in wanted if other in numbers)


def operands(instruction: Instruction) -> Iterator[Change]:
    """A neighbouring offset or register, a source negated or exchanged with the other, a wait for one fewer."""
    name = class_of(instruction)
    if name == "waits for memory":
        yield {"simm16": instruction["simm16"] + 1}
    elif name in _MEMORY:
        yield from _neighbouring_offset(instruction)
    elif instruction.encoding != "SOPP":
        if "cndmask" in instruction.opcode or "cselect" in instruction.opcode or name == "matrix products":
            yield from _exchanged(instruction)
        if "neg" in instruction.fields and "f32" in instruction.opcode and name != "matrix products":
            yield {"neg": instruction["neg"] ^ 1}
        yield from _neighbouring_source(instruction)


def _neighbouring_offset(instruction: Instruction) -> Iterator[Change]:
    """The next element: the access's own width further, or one element in the LDS forms that count in elements."""
    if "ioffset" in instruction.fields:
        yield {"ioffset": instruction["ioffset"] + _width(instruction)}
    elif "2addr" in instruction.opcode:
        yield {"offset0": instruction["offset0"] + 1}
    else:
        offset = (instruction["offset1"] << 8 | instruction["offset0"]) + _width(instruction)
        yield {"offset0": offset & 0xFF, "offset1": offset >> 8}


def _width(instruction: Instruction) -> int:
    """Bytes of one access, from the name: `b128`, `u16_d16`."""
    access = instruction.opcode.removesuffix("_hi").removesuffix("_d16")
    return int(access.rpartition("_")[2].lstrip("bui")) // 8


def _exchanged(instruction: Instruction) -> Iterator[Change]:
    for first, second in _EXCHANGED:
        if first in instruction.fields and second in instruction.fields:
            values = {first: instruction[second], second: instruction[first]}
            if values.get("vsrc1", VGPR) >= VGPR:
                yield values


def _neighbouring_source(instruction: Instruction) -> Iterator[Change]:
    """The next register after a source; without one, the next constant, or a literal of the other sign."""
    used = [role for role in _SOURCES if role in instruction.fields and _is_read(instruction, role)]
    sources = [role for role in used if not (instruction.dpp and role == "src0")]
    for role in sources:
        number = instruction[role]
        operand = instruction.operand(role)
        if number >= VGPR or number < NULL:
            yield {role: number + (2 if operand and operand.kind == "sgpr" and operand.registers > 1 else 1)}
    for role in sources:
        if instruction[role] in _SMALL_CONSTANTS:
            yield {role: instruction[role] + 1}
        elif instruction[role] == LITERAL:
            yield {"literal": (instruction.literal or 0) ^ 0x80000000}


def _is_read(instruction: Instruction, role: str) -> bool:
    """A field that means nothing to the operation is no source; of a pair, a field belongs to the half it names."""
    if instruction.parts:
        half = instruction.parts["xy".index(role[-2])]
        return role.replace(role[-2], "", 1) == "src0" or half.opcode != "v_mov_b32"
    return instruction.operand(role) is not None
