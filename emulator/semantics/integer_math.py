"""Integer operations of the pseudocode that numpy has no function for. All take and return arrays of one dtype."""

from __future__ import annotations

import numpy as np

U32, U64, I32, I64 = np.uint32, np.uint64, np.int32, np.int64


def bit_count(a: np.ndarray) -> np.ndarray:
    """Number of set bits, int32."""
    return np.bitwise_count(a).astype(I32)


def bit_length(a: np.ndarray) -> np.ndarray:
    """Position behind the highest set bit, 0 for 0; int32. A float64 holds every uint32 exactly."""
    a = np.asarray(a)
    if a.dtype == U64:
        high, low = (a >> U64(32)).astype(U32), a.astype(U32)
        return np.where(high != 0, bit_length(high) + I32(32), bit_length(low)).astype(I32)
    return np.frexp(a.astype(np.float64))[1].astype(I32)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """clz: zeros above the highest set bit, -1 for 0."""
    a = np.asarray(a)
    return np.where(a == 0, I32(-1), I32(a.dtype.itemsize * 8) - bit_length(a)).astype(I32)


def trailing_zeros(a: np.ndarray) -> np.ndarray:
    """ctz: zeros below the lowest set bit, -1 for 0."""
    a = np.asarray(a)
    return bit_length(a & (~a + a.dtype.type(1))) - I32(1)


def leading_sign_bits(a: np.ndarray) -> np.ndarray:
    """cls: bits from the top that equal the sign bit, -1 where all bits are the same."""
    a = np.asarray(a)
    bits = a.dtype.itemsize * 8
    signs = np.where(a >> a.dtype.type(bits - 1) != 0, ~a, a)
    return np.where(signs == 0, I32(-1), I32(bits) - bit_length(signs)).astype(I32)


def reverse_bits(a: np.ndarray) -> np.ndarray:
    """D0[i] = S0[bits - 1 - i]."""
    a = np.asarray(a)
    word = a.dtype.type
    masks = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}
    for step, mask in masks.items():
        low = word(mask & ((1 << a.dtype.itemsize * 8) - 1))
        a = (a & low) << word(step) | a >> word(step) & low
    return a.byteswap()


def extract_unsigned(a: np.ndarray, offset: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(S0 >> offset) & ((1 << size) - 1); numpy shifts by the width or more give 0, so a large size keeps all bits."""
    word = np.asarray(a).dtype.type
    return (a >> offset) & ((word(1) << np.asarray(size, word)) - word(1))


def extract_signed(a: np.ndarray, offset: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The same, sign-extended from bit size - 1; size 0 gives 0."""
    a = np.asarray(a)
    word, bits = a.dtype.type, a.dtype.itemsize * 8
    size = np.minimum(np.asarray(size, word), word(bits))
    unused = word(bits) - size
    value = (a >> np.asarray(offset, word)) << np.minimum(unused, word(bits - 1)) >> np.minimum(unused, word(bits - 1))
    return np.where(size == 0, word(0), value)


def bit_field_mask(size: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """bfm: ((1 << S0[4:0]) - 1) << S1[4:0]."""
    return ((U32(1) << (size & U32(31))) - U32(1)) << (offset & U32(31))


def multiply_high_unsigned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.asarray(a, U64) * np.asarray(b, U64) >> U64(32)).astype(U32)


def multiply_high_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.asarray(a, I64) * np.asarray(b, I64) >> I64(32)).astype(I32)


def median(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """med3: the middle one of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def permute_bytes(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """v_perm_b32: each byte of `selector` picks one of the eight bytes of {S0, S1}, S1 being the lower four.

    Selectors 8 to 11 give the sign of bytes 1, 3, 5, 7 spread over a byte; 12 gives 0x00, 13 and up 0xff.
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(selector))
    source = np.empty((*shape, 2), U32)
    source[..., 0], source[..., 1] = b, a
    table = np.empty((*shape, 14), np.uint8)
    table[..., :8] = source.view(np.uint8)
    table[..., 8:12] = np.where(table[..., 1:8:2] >> 7, 0xFF, 0)
    table[..., 12], table[..., 13] = 0, 0xFF
    chosen = np.ascontiguousarray(np.broadcast_to(selector, shape))[..., None].view(np.uint8)
    picked = np.take_along_axis(table, np.minimum(chosen, 13).astype(np.intp), axis=-1)
    return np.ascontiguousarray(picked).view(U32)[..., 0]


def permute_bytes_by(selector: int):
    """`permute_bytes` for a selector known beforehand: shifts and masks instead of a table."""
    sources = [(selector >> 8 * byte) & 0xFF for byte in range(4)]

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = U32(0)
        for byte, pick in enumerate(sources):
            result = result | _picked_byte(a, b, pick) << U32(8 * byte)
        return result

    halves = {0x05040100: (0, 0), 0x07060302: (1, 1), 0x07060100: (0, 1), 0x05040302: (1, 0)}
    if selector not in halves:
        return run
    low, high = halves[selector]
    high_mask, low_mask = U32(0xFFFF0000), U32(0xFFFF)

    def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whole 16-bit halves: what narrowing two floats to a BF16 pair, or packing, comes down to."""
        upper = a & high_mask if high else a << U32(16)
        lower = b >> U32(16) if low else b & low_mask
        return upper | lower

    return join


def _picked_byte(a: np.ndarray, b: np.ndarray, pick: int) -> np.ndarray:
    if pick >= 13:
        return U32(0xFF)
    if pick == 12:
        return U32(0)
    if pick >= 8:
        byte = 2 * (pick - 8) + 1
        sign = (b if byte < 4 else a) >> U32(8 * (byte % 4) + 7) & U32(1)
        return sign * U32(0xFF)
    return (b if pick < 4 else a) >> U32(8 * (pick % 4)) & U32(0xFF)


def join_halves(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two 16-bit numbers of any dtype as one uint32."""
    low, high = np.asarray(low).view(np.uint16), np.asarray(high).view(np.uint16)
    return low.astype(U32) | high.astype(U32) << U32(16)


def byte_values(a: np.ndarray, *, signed: bool) -> list[np.ndarray]:
    """The four bytes of a word as int32, lowest first."""
    parts = [(a >> U32(8 * byte) & U32(0xFF)).astype(I32) for byte in range(4)]
    return [(part << I32(24)) >> I32(24) for part in parts] if signed else parts
