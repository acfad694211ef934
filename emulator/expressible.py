"""What the assembler refuses or changes though an instruction's fields can hold it.

Each rule is one of LLVM's assembler for gfx12, found by assembling random encodings of every opcode
(tests/emulator/test_assembly.py does that again); an instruction that breaks one is printed as numbers.
"""

from __future__ import annotations

import re

from .encodings import LITERAL, operand_form
from .instruction import EXEC, M0, VGPR, Instruction, Operand
from .operand_text import INVERSE_TWO_PI

# Sources that every lane reads through the constant bus, which serves two of them in one instruction.
_BUS_LIMIT = 2
# Integer operations that can clamp, and conversions and products that cannot though they have floats.
_CLAMPED = re.compile(
    r"v_(?:(?:add|sub|subrev)_nc_|mad_|sad_|msad_|m?qsad_|mul_[iu]32_[iu]24|(?:min3|max3|med3)_[iu]16|align|cvt_pk_u8)"
)
_UNCLAMPED = re.compile(r"v_(?:cvt_\w*(?:fp8|bf8)|dot2_bf16|dot2_f16|cndmask|mov|cmpx?_class|not_b)")
_UNSCALED = re.compile(r"v_(?:cvt_\w*(?:fp8|bf8)|dot2_bf16|dot2_f16)")
_WIDE_SHIFTS = re.compile(r"v_(?:lshl|lshr|ashr)rev_[bi]64")
_NO_LANES = re.compile(
    r"v_(?:readfirstlane|swap|nop|pk_|wmma|swmmac|dot|fma_mix|div_|m?qsad|fma_dx9|pipeflush|movrel|permlane|s_|writelane"
    r"|readlane|mul_lo_u32|mul_hi_[iu]32$)"
)
_SCALARS = frozenset(("sgpr", "null", "constant", "scc"))
# Opcodes, one of their sources, and what it may be.
_KINDS = tuple(
    (re.compile(opcodes), role, frozenset(allowed))
    for opcodes, role, allowed in (
        (r"v_(?:swap|movrel|permlane|readfirstlane|readlane)", "src0", ("vgpr",)),
        (r"v_permlanex?16_var_", "src1", ("vgpr",)),
        (r"v_(?:readlane|writelane)", "src1", _SCALARS),
        (r"v_(?:s|writelane)_", "src0", (*_SCALARS, "literal")),
        (r"v_writelane", "src0", _SCALARS),
        (r"v_(?:cndmask|(?:add|sub|subrev)_co_ci)", "src2", ("sgpr", "null")),
        (r"v_mqsad_u32", "src2", ("vgpr",)),
        (r"s_(?:movrel|cmovrel|setpc|swappc|rfe)", "ssrc0", ("sgpr",)),
        (r"s_sendmsg_rtn", "ssrc0", _SCALARS),
    )
)
_WORDLESS = ("s_barrier_init", "s_barrier_join", "s_get_barrier_state")
_LITERALS_REFUSED = ("v_fmaak", "v_fmamk", "s_fmaak", "s_fmamk")  # beside the constant that they always have
_WORDLESS_FLAT = ("global_load_addtid_b32", "global_store_addtid_b32")  # names in the tables of what is no opcode
_FIRST_SHARED, _LAST_SHARED = 235, 238
_FIRST_INTEGER, _LAST_INTEGER = 128, 208
_BUFFER_OFFSETS = 1 << 23


def is_expressible(instruction: Instruction) -> bool:
    """Whether no rule of the assembler stands against this instruction's operands."""
    return all(rule(instruction) for rule in _RULES)


def _results_are_registers(instruction: Instruction) -> bool:
    return all(operand.kind in ("vgpr", "sgpr", "null") for operand in instruction.operands if operand.written)


def _constant_bus(instruction: Instruction) -> bool:
    """At most two different scalars, one for shifts of 64 bits. A VCC that is not written counts beside one that is."""
    if not instruction.encoding.startswith("VOP"):
        return True
    parts = instruction.parts or (instruction,)
    read = [item for part in parts for item in part.operands if not item.written and _is_shared(item)]
    scalars: set[object] = {(item.index, item.registers) for item in read}
    if instruction.literal is not None:
        scalars.add("literal")
    scalars -= {(LITERAL, 1), (LITERAL, 2)}
    if any(part.opcode.startswith(("v_div_fmas", "v_cndmask_b32")) and not part.operand("src2") for part in parts):
        scalars.add("implied VCC")
    if instruction.opcode.startswith("v_div_fmas"):
        scalars.add("implied VCC")
    return len(scalars) <= (1 if _WIDE_SHIFTS.match(instruction.opcode) else _BUS_LIMIT)


def _is_shared(operand: Operand) -> bool:
    """Whether a source comes over the constant bus."""
    if operand.kind in ("sgpr", "literal", "scc"):
        return True
    return operand.kind == "constant" and _FIRST_SHARED <= operand.index <= _LAST_SHARED


def _offset_of_buffers(instruction: Instruction) -> bool:
    if instruction.encoding != "VBUFFER" and not instruction.opcode.startswith("s_buffer_"):
        return True
    return instruction["ioffset"] < _BUFFER_OFFSETS


def _pair_banks(instruction: Instruction) -> bool:
    """VOPD reads the sources of both halves at once: first from different banks of four, second likewise, third of
    two, unless they are one register. Two moves are exempt."""
    if not instruction.parts or all(part.opcode == "v_mov_b32" for part in instruction.parts):
        return True
    pairs = zip(*(_places_of_sources(part) for part in instruction.parts), strict=True)
    return all(
        one is None or other is None or one == other or one % banks != other % banks
        for (one, other), banks in zip(pairs, (4, 4, 2), strict=True)
    )


def _places_of_sources(part: Instruction) -> tuple[int | None, int | None, int | None]:
    """The vector registers that half of a pair reads as its first, second and third source."""
    first = part["src0"] if part["src0"] >= VGPR else None
    if part.opcode == "v_mov_b32":
        return first, None, None
    if part.opcode.startswith("v_fmamk"):
        return first, None, part["vsrc1"]
    accumulates = part.opcode.startswith(("v_fmac", "v_dot2acc"))
    return first, part["vsrc1"], part["vdst"] if accumulates else None


def _lanes_of_words(instruction: Instruction) -> bool:
    """Permutations move 32 bits: none of a wider operand, none of a product of packed numbers."""
    if not instruction.dpp:
        return True
    if _NO_LANES.match(instruction.opcode):
        return False
    return all(operand.registers == 1 for operand in instruction.operands)


def _sources_are_of_their_kind(instruction: Instruction) -> bool:
    """Operations that index, exchange or permute registers take no constants; others no vector registers."""
    kinds = {item.role: item.kind for item in instruction.operands if not item.written}
    return all(
        kinds.get(role) is None or kinds[role] in allowed
        for opcodes, role, allowed in _KINDS
        if opcodes.match(instruction.opcode)
    )


def _has_words(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    if opcode.startswith("v_readfirstlane") and instruction.encoding == "VOP3":
        return False
    return opcode not in _WORDLESS and not (opcode in _WORDLESS_FLAT and instruction.encoding == "VFLAT")


def _immediates_are_integers(instruction: Instruction) -> bool:
    """Barriers by number or in M0, and lanes by an integer."""
    opcode = instruction.opcode
    if opcode.startswith("s_barrier_signal"):
        return instruction["ssrc0"] == M0 or _FIRST_INTEGER <= instruction["ssrc0"] <= _LAST_INTEGER
    if opcode.startswith(("v_permlane16_b32", "v_permlanex16_b32")):
        return all(_selects_lanes(instruction, role) for role in ("src1", "src2"))
    return True


def _selects_lanes(instruction: Instruction, role: str) -> bool:
    operand = instruction.operand(role)
    return operand.kind in ("sgpr", "null", "literal") or (
        operand.kind == "constant" and operand.index <= _LAST_INTEGER
    )


def _constants_fit(instruction: Instruction) -> bool:
    """Constants whose form the assembler chooses by itself, or has no words for."""
    sources = [item for item in instruction.operands if not item.written]
    if instruction.opcode.startswith(_LITERALS_REFUSED) and any(item.kind == "literal" for item in sources):
        return False
    literals = [item.registers for item in sources if item.kind == "literal"]
    if len(literals) > 1 and max(literals) > 1:
        return False
    if instruction.dpp and any(item.kind == "constant" and item.index == INVERSE_TWO_PI for item in sources):
        return False
    if instruction.opcode.startswith(("v_fma_mix", "v_qsad", "v_mqsad")) and instruction.literal is not None:
        return False
    if instruction.opcode == "v_ldexp_f16" and any(item.index > _LAST_INTEGER for item in sources[1:]):
        return all(item.kind != "constant" for item in sources[1:])
    if instruction.opcode.startswith("v_pk_fmac") and any(item.kind == "constant" for item in sources):
        return False
    return not any(_is_shared(item) and item.kind == "constant" and item.registers > 1 for item in sources)


def _scalar_loads(instruction: Instruction) -> bool:
    """Not into EXEC or M0, and prefetches of at most 32 lines."""
    if instruction.encoding != "SMEM":
        return True
    if "prefetch" in instruction.opcode:
        return instruction["sdata"] < 32 and "pc_rel" not in instruction.opcode
    if "atc_probe" in instruction.opcode:
        return False
    return "sdata" not in instruction.fields or instruction["sdata"] not in (M0, EXEC, EXEC + 1)


def _scaling(instruction: Instruction) -> bool:
    """Only floating-point results are scaled, and only some results clamped."""
    if instruction.encoding == "VOP3SD":
        return not instruction["omod"] or instruction.opcode.startswith("v_div_scale")
    if instruction.encoding != "VOP3":
        return True
    floats = {item.role for item in instruction.operands if _is_float(instruction, item.role)}
    scaled = not instruction["omod"] or ("vdst" in floats and not _UNSCALED.match(instruction.opcode))
    clamped = not _UNCLAMPED.match(instruction.opcode) and (floats or _CLAMPED.match(instruction.opcode))
    return scaled and bool(not instruction["clmp"] or clamped)


def _is_float(instruction: Instruction, role: str) -> bool:
    return operand_form(instruction.encoding, instruction["op"], role).form.startswith("NUM_F")


def _modifiers_of_products(instruction: Instruction) -> bool:
    """Dot and matrix products do not choose halves; those of 8-bit floats negate the accumulator alone."""
    opcode = instruction.opcode
    if not opcode.startswith(("v_dot4", "v_dot8", "v_wmma", "v_swmmac")) or instruction.encoding != "VOP3P":
        return True
    chosen = instruction["opsel"] or instruction["opsel_hi"] != 3 or not instruction["opsel_hi2"]
    negated = instruction["neg"] or instruction["neg_hi"]
    signed = "_iu" in opcode and not instruction["neg_hi"] and not instruction["neg"] & 4
    clamped = instruction["clmp"] and "_i32_" not in opcode and "_u32_" not in opcode
    return not chosen and not clamped and (not negated or signed)


def _sources_of_products(instruction: Instruction) -> bool:
    """Matrices are in vector registers; a whole accumulator may be a constant."""
    if not instruction.opcode.startswith(("v_wmma", "v_swmmac")):
        return True
    kinds = [instruction.operand(role).kind for role in ("src0", "src1", "src2")]
    constant = instruction.opcode.startswith("v_wmma") and kinds[2] == "constant"
    return kinds[:2] == ["vgpr", "vgpr"] and (kinds[2] == "vgpr" or constant)


_RULES = (
    _results_are_registers,
    _constant_bus,
    _offset_of_buffers,
    _pair_banks,
    _lanes_of_words,
    _sources_are_of_their_kind,
    _has_words,
    _immediates_are_integers,
    _constants_fit,
    _scalar_loads,
    _scaling,
    _modifiers_of_products,
    _sources_of_products,
)
