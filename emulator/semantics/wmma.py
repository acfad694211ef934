"""Wave matrix multiply-accumulate: D = A · B + C on 16×16 tiles (RDNA4 ISA, 'WMMA').

In wave32 a lane holds one row of A, or one column of B, of which lanes 0-15 have the first half of the K elements and
lanes 16-31 the second, packed in registers in order; of C and D, lane l holds column l % 16, and register r row
r + 8 · (l / 16).  EXEC is ignored.  Float products are summed in float64 and rounded once, where the hardware rounds in
between: results agree to the last bits only.  Integer results are exact.
"""

from __future__ import annotations

import numpy as np

from ..float_formats import E4M3_TO_F32, E5M2_TO_F32, bf16_to_f32, f32_to_bf16
from ..instruction import VGPR, Instruction
from ..registry import Refused, Step, semantics
from ..state import Group
from .constants import constant, is_constant

U16, U32, F64 = np.uint16, np.uint32, np.float64


def _words(g: Group, register: int, count: int) -> np.ndarray:
    """`count` registers as [waves, 16 rows or columns, 2 halves, count] uint32."""
    words = np.empty((g.count, 16, 2, count), U32)
    for offset in range(count):
        words[..., offset] = g.u[register + offset].reshape(g.count, 2, 16).transpose(0, 2, 1)
    return words


def _bf16(words: np.ndarray) -> np.ndarray:
    return bf16_to_f32(words.view(U16))


def _f16(words: np.ndarray) -> np.ndarray:
    return words.view(np.float16)


def _codes(table: np.ndarray):
    return lambda words: table.take(words.view(np.uint8))


def _bytes(signed: bool):
    return lambda words: words.view(np.int8 if signed else np.uint8)


def _nibbles(signed: bool):
    def run(words: np.ndarray) -> np.ndarray:
        codes = words.view(np.uint8)
        both = np.empty((*codes.shape, 2), np.int8)
        both[..., 0], both[..., 1] = codes & 15, codes >> 4
        if signed:
            both = (both << 4) >> 4
        return both.reshape(*codes.shape[:-1], -1)

    return run


def _matrix(words: np.ndarray, unpack) -> np.ndarray:
    """[waves, 16, K] float64: every format here is exact in it, and so are products and, for integers, sums."""
    values = unpack(words).astype(F64)
    return values.reshape(values.shape[0], 16, -1)


# Operand format -> (registers of A and of B, unpacking)
_FLOAT_FORMS = {
    "f16": (4, _f16),
    "bf16": (4, _bf16),
    "fp8": (2, _codes(E4M3_TO_F32)),
    "bf8": (2, _codes(E5M2_TO_F32)),
}


def _accumulator(instruction: Instruction, kind: str, packed: bool):
    """Reads C as [waves, 16, 16] float64."""
    number = instruction["src2"]
    if is_constant(number):
        value = F64(constant(number, instruction.literal, kind))
        return lambda _g: value
    if number < VGPR:
        raise Refused("a scalar accumulator")
    register = number - VGPR

    def read(g: Group) -> np.ndarray:
        tile = np.empty((g.count, 2, 8, 16), F64)
        for row in range(8):
            source = _accumulator_row(g, register, row, kind, packed)
            tile[:, :, row] = source.reshape(g.count, 2, 16)
        return tile.reshape(g.count, 16, 16)

    return read


def _accumulator_row(g: Group, register: int, row: int, kind: str, packed: bool) -> np.ndarray:
    if not packed:
        return (g.i if kind == "i32" else g.f)[register + row]
    slot = 2 * (register + row // 2) + row % 2
    return g.h[slot] if kind == "f16" else bf16_to_f32(g.w[slot])


def _store(g: Group, register: int, tile: np.ndarray, kind: str, packed: bool) -> None:
    rows = tile.reshape(g.count, 2, 8, 16)
    for row in range(8):
        values = rows[:, :, row].reshape(g.count, 32)
        if not packed:
            (g.i if kind == "i32" else g.f)[register + row][...] = values
        else:
            slot = 2 * (register + row // 2) + row % 2
            if kind == "f16":
                g.h[slot][...] = values
            else:
                g.w[slot][...] = f32_to_bf16(values)


def _round(total: np.ndarray, kind: str) -> np.ndarray:
    if kind == "i32":
        return total.astype(np.int64).astype(np.int32)
    return total if kind == "f16" else total.astype(np.float32)


def _product_step(instruction: Instruction, unpack_a, unpack_b, registers: int, kind: str, *, packed: bool) -> Step:
    if instruction["clmp"]:
        raise Refused("clamp of a matrix product")
    a, b, d = (instruction[role] - VGPR for role in ("src0", "src1", "vdst"))
    c = _accumulator(instruction, "f32" if kind == "bf16" else kind, packed)

    def run(g: Group) -> None:
        left = _matrix(_words(g, a, registers), unpack_a)
        right = _matrix(_words(g, b, registers), unpack_b)
        total = np.matmul(left, right.transpose(0, 2, 1))
        total += c(g)
        _store(g, d, _round(total, kind), kind, packed)

    return run


@semantics(
    "VOP3P",
    "v_wmma_f32_16x16x16_f16",
    "v_wmma_f32_16x16x16_bf16",
    "v_wmma_f16_16x16x16_f16",
    "v_wmma_bf16_16x16x16_bf16",
    *(f"v_wmma_f32_16x16x16_{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
)
def _float_product(instruction: Instruction) -> Step:
    names = instruction.opcode.removeprefix("v_wmma_").split("_")
    result, forms = names[0], names[2:]
    registers, unpack_a = _FLOAT_FORMS[forms[0]]
    _, unpack_b = _FLOAT_FORMS[forms[-1]]
    if instruction["neg"] or instruction["neg_hi"]:
        raise Refused("negated sources of a matrix product")
    return _product_step(instruction, unpack_a, unpack_b, registers, result, packed=result != "f32")


@semantics("VOP3P", "v_wmma_i32_16x16x16_iu8", "v_wmma_i32_16x16x16_iu4", "v_wmma_i32_16x16x32_iu4")
def _integer_product(instruction: Instruction) -> Step:
    """NEG says which of A and B is signed."""
    signed = [bool(instruction["neg"] >> position & 1) for position in (0, 1)]
    unpack = _bytes if instruction.opcode.endswith("iu8") else _nibbles
    registers = 1 if instruction.opcode.endswith("16x16x16_iu4") else 2
    return _product_step(instruction, unpack(signed[0]), unpack(signed[1]), registers, "i32", packed=False)
