"""Vector operations that do not work lane by lane on plain operands: scalar transcendentals, single FP8 codes."""

from __future__ import annotations

import numpy as np

from ..float_formats import E4M3_TO_F32, E5M2_TO_F32, f32_to_e4m3, f32_to_e5m2
from ..instruction import Instruction
from ..registry import Step, semantics
from ..state import Group
from . import float_math as fm
from .operands import negated, scalar_reader, vector_reader
from .operations import Operation
from .scalar_results import write_scalar
from .vop import everywhere_active, output_modified, read_sources, sign_modifiers, writer

U32 = np.uint32

_SCALAR_FLOAT = {"exp": fm.exp2, "log": fm.log2, "rcp": fm.reciprocal, "rsq": fm.reciprocal_root, "sqrt": np.sqrt}


@semantics("VOP3", *(f"v_s_{name}_{kind}" for name in _SCALAR_FLOAT for kind in ("f32", "f16")))
def _scalar_float(instruction: Instruction) -> Step:
    """Transcendental functions of a scalar, on the vector unit (RDNA4 ISA, 'Pseudo-scalar transcendental')."""
    name, kind = instruction.opcode.removeprefix("v_s_").rsplit("_", 1)
    read = scalar_reader(instruction, instruction["src0"], kind)
    negative, absolute = sign_modifiers(instruction, 0)
    operation = Operation(_SCALAR_FLOAT[name], (kind,), kind)
    function = output_modified(instruction, operation)
    read, register = negated(read, negative=negative, absolute=absolute), instruction["vdst"]
    return lambda g: write_scalar(g, register, kind, function(read(g)))


@semantics("VOP1 VOP3", "v_cvt_f32_fp8", "v_cvt_f32_bf8")
def _cvt_f32_fp8(instruction: Instruction) -> Step:
    """One code to a float; OPSEL picks the byte, its two bits in reverse."""
    table = E4M3_TO_F32 if instruction.opcode.endswith("fp8") else E5M2_TO_F32
    read = vector_reader(instruction, instruction["src0"], "u32")
    shift = U32(8 * {0: 0, 2: 1, 1: 2, 3: 3}[instruction.get("opsel") & 3])
    write = writer(instruction, "f32", everywhere_active)
    return lambda g: write(g, table.take(read(g) >> shift & U32(0xFF)))


@semantics("VOP3", "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def _cvt_pk_fp8(instruction: Instruction) -> Step:
    """Two floats to two codes in one half of the destination; the other half is kept."""
    narrow = f32_to_e4m3 if "fp8" in instruction.opcode else f32_to_e5m2
    sources = read_sources(instruction, ("f32", "f32"))
    a, b = sources.readers
    write = writer(instruction, "u16", sources.where)

    def run(g: Group) -> None:
        low, high = narrow(a(g)).astype(np.uint16), narrow(b(g)).astype(np.uint16)
        write(g, low | high << np.uint16(8))

    return run
