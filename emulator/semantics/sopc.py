"""Scalar comparisons, which write SCC: SOPC (RDNA4 ISA, 'Scalar ALU Operations')."""

from __future__ import annotations

import numpy as np

from ..instruction import Instruction
from ..registry import Step, semantics
from ..state import Group
from .operands import Reader, scalar_reader
from .relations import FLOAT_RELATIONS, INTEGER_RELATIONS, float_relation

U32 = np.uint32


def _compare_step(function, a: Reader, b: Reader) -> Step:
    def run(g: Group) -> None:
        g.scc[...] = function(a(g), b(g))

    return run


@semantics(
    "SOPC",
    *(f"s_cmp_{name}_{kind}" for name in INTEGER_RELATIONS for kind in ("i32", "u32")),
    *(f"s_cmp_{name}_{kind}" for name in FLOAT_RELATIONS for kind in ("f32", "f16")),
    "s_cmp_eq_u64",
    "s_cmp_lg_u64",
)
def _compare(instruction: Instruction) -> Step:
    name, kind = instruction.opcode.removeprefix("s_cmp_").rsplit("_", 1)
    function = float_relation(name) if kind.startswith("f") else INTEGER_RELATIONS[name]
    a, b = (scalar_reader(instruction, instruction[role], kind) for role in ("ssrc0", "ssrc1"))
    return _compare_step(function, a, b)


@semantics("SOPC", "s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def _bitcmp(instruction: Instruction) -> Step:
    bits, wanted = int(instruction.opcode[-2:]), int(instruction.opcode[len("s_bitcmp")])
    dtype = np.dtype(f"u{bits // 8}").type
    a = scalar_reader(instruction, instruction["ssrc0"], f"u{bits}")
    b = scalar_reader(instruction, instruction["ssrc1"], "u32")
    return _compare_step(lambda x, y: (x >> np.asarray(y & U32(bits - 1), dtype)) & dtype(1) == wanted, a, b)
