"""Vector comparisons: VOPC and their VOP3 forms (RDNA4 ISA, 'VOPC'). One bit a lane; inactive lanes give 0.

`v_cmp` writes VCC, or the scalar register named in VOP3; `v_cmpx` writes EXEC.
"""

from __future__ import annotations

import numpy as np

from ..instruction import EXEC, VCC, Instruction
from ..registry import Step, semantics
from ..state import Group
from .float_math import biased_exponent
from .relations import FLOAT_RELATIONS, float_relation
from .vop import read_sources, refuse_partial_permutation

_INTEGER_RELATIONS = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
}
_INTEGER_KINDS = ("i16", "u16", "i32", "u32", "i64", "u64")
_FLOAT_KINDS = ("f16", "f32", "f64")


def _result_step(instruction: Instruction, compute) -> Step:
    if instruction.opcode.startswith("v_cmpx"):

        def run(g: Group) -> None:
            g.put_lanes(EXEC, compute(g))
            g.refresh_exec()

        return run
    register = instruction["vdst"] if instruction.encoding == "VOP3" else VCC

    def run(g: Group) -> None:
        g.put_lanes(register, compute(g))

    return run


@semantics(
    "VOPC VOP3",
    *(f"v_{x}_{name}_{kind}" for x in ("cmp", "cmpx") for name in _INTEGER_RELATIONS for kind in _INTEGER_KINDS),
    *(f"v_{x}_{name}_{kind}" for x in ("cmp", "cmpx") for name in FLOAT_RELATIONS for kind in _FLOAT_KINDS),
)
def _compare(instruction: Instruction) -> Step:
    refuse_partial_permutation(instruction)
    _, _, name, kind = instruction.opcode.split("_")
    function = float_relation(name) if kind.startswith("f") else _INTEGER_RELATIONS[name]
    a, b = read_sources(instruction, (kind, kind)).readers
    return _result_step(instruction, lambda g: function(a(g), b(g)))


@semantics("VOPC VOP3", *(f"v_{x}_class_{kind}" for x in ("cmp", "cmpx") for kind in _FLOAT_KINDS))
def _class(instruction: Instruction) -> Step:
    """Whether a float belongs to one of the classes whose bits are set in S1."""
    refuse_partial_permutation(instruction)
    kind = instruction.opcode[-3:]
    a, b = read_sources(instruction, (kind, "u16" if kind == "f16" else "u32")).readers

    def compute(g: Group) -> np.ndarray:
        bit = class_bit(np.asarray(a(g)))
        wanted = np.asarray(b(g)).astype(np.int64)
        return (wanted >> bit & 1).astype(bool)

    return _result_step(instruction, compute)


def class_bit(a: np.ndarray) -> np.ndarray:
    """0 signalling NaN, 1 quiet NaN, then -infinity, -normal, -subnormal, -0, +0, +subnormal, +normal, +infinity."""
    mantissa_bits = {2: 10, 4: 23, 8: 52}[a.dtype.itemsize]
    bits = a.view(f"u{a.dtype.itemsize}").astype(np.uint64)
    quiet = bits >> np.uint64(mantissa_bits - 1) & np.uint64(1) != 0
    negative = np.signbit(a)
    exponent = biased_exponent(a)
    magnitude = np.select([np.isinf(a), exponent > 0, a != 0], [0, 1, 2], 3)
    return np.where(np.isnan(a), np.where(quiet, 1, 0), np.where(negative, 2 + magnitude, 9 - magnitude))
