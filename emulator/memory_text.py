"""Loads, stores and atomics in the assembler's syntax."""

from __future__ import annotations

from .instruction import NULL, Operand
from .modifier_text import cache_policy, has_policy, signed
from .writing import Writing

_OFFSET_BITS = 24


def write_ds(writing: Writing) -> None:
    for operand in writing.instruction.operands:
        writing.operand(operand.role, halves=False)
    first, second = writing["offset0"], writing["offset1"]
    if "2addr" in writing.name:
        pairs = (("offset0", first), ("offset1", second))
        writing.modifiers += [f"{name}:{value}" for name, value in pairs if value]
    elif (offset := first | second << 8) and not writing.shown:
        writing.refuse()
    elif offset:
        writing.modifiers.append(f"offset:{offset}")


def write_smem(writing: Writing) -> None:
    opcode = writing.instruction.opcode
    if opcode == "s_dcache_inv":
        return
    prefetches = "prefetch" in opcode
    for role in ("sbase",) if prefetches else ("sdata", "sbase"):
        if writing.has(role):
            writing.operand(role)
    offset = signed(writing["ioffset"], _OFFSET_BITS)
    if prefetches:
        writing.shown.append(f"{offset:#x}")
        writing.operand("soffset")
        writing.shown.append(str(writing["sdata"]))
        return
    if writing["soffset"] == NULL:
        writing.shown.append(f"{offset:#x}")
    else:
        writing.operand("soffset")
        writing.modifiers += [f"offset:{offset:#x}"] if offset else []
    _policy(writing)


def write_buffer(writing: Writing) -> None:
    writing.operand("vdata", halves=False)
    if writing.has("vaddr"):
        writing.operand("vaddr")
    else:
        writing.shown.append("off")
    writing.operand("rsrc")
    writing.operand("soffset")
    if writing.name.startswith("tbuffer"):
        writing.modifiers.append(f"format:{writing['format']}")
    writing.modifiers += [name for name in ("idxen", "offen") if writing[name]]
    _offset(writing)
    _policy(writing)
    if writing["tfe"]:  # one register more than the text would say
        writing.refuse()


def write_flat(writing: Writing) -> None:
    """FLAT, GLOBAL and SCRATCH: the same fields, with other addresses."""
    if writing.has("vdst") and _returns(writing):
        writing.operand("vdst", halves=False)
    scratch = writing.instruction.encoding == "VSCRATCH"
    if scratch and not writing["sve"]:
        writing.shown.append("off")
    elif writing.has("vaddr"):
        writing.operand("vaddr")
    if writing.has("vsrc"):
        writing.operand("vsrc", halves=False)
    if writing.has("saddr"):
        _base(writing, 1 if scratch else 2)
    if writing.instruction.encoding == "VFLAT" and writing["saddr"] != NULL:
        writing.refuse()
    if writing.has("vaddr") or writing.has("saddr"):
        _offset(writing)
    _policy(writing)


def _returns(writing: Writing) -> bool:
    atomic = "_atomic_" in writing.name
    return not atomic or bool(writing["th"] & 1)


def _base(writing: Writing, registers: int) -> None:
    index = writing["saddr"]
    text = writing.register(Operand("saddr", "sgpr", index, registers, False))
    writing.shown.append("off" if index == NULL else text)


def _offset(writing: Writing) -> None:
    if offset := signed(writing["ioffset"], _OFFSET_BITS):
        writing.modifiers.append(f"offset:{offset}")


def _policy(writing: Writing) -> None:
    kind = "atomic" if "_atomic_" in writing.name else "store" if "_store_" in writing.name else "load"
    hint, scope = writing["th"], writing["scope"]
    if not has_policy(kind, hint, scope):
        writing.refuse()
    writing.modifiers += cache_policy(kind, hint, scope)
