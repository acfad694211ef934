"""Where tensors lie and how far they reach (field cases C2, C3, C4, C21)."""

import mmap

import numpy as np
import pytest

from assay.emulator import Memory, OutOfBoundsError
from tests.kernels.shipped import run_decode

from .calls import GROUP, HEAD_DIM, KINDS, assert_attention, kernel, random_call

MIB = 1 << 20


def spread(array: np.ndarray, stride_bytes: int) -> np.ndarray:
    """The same values, `stride_bytes` apart along the first axis, in memory whose pages exist once touched."""
    size = stride_bytes * (len(array) - 1) + array[0].nbytes
    whole = np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), np.uint8)
    view = np.ndarray(array.shape, array.dtype, whole, 0, (stride_bytes, *array.strides[1:]))
    view[...] = array
    return view


def shifted(array: np.ndarray, count: int) -> np.ndarray:
    """The same values, `count` bytes behind the start of their memory."""
    whole = np.zeros(count + array.nbytes, np.uint8)
    view = np.ndarray(array.shape, array.dtype, whole, count)
    view[...] = array
    return view


@pytest.mark.parametrize("kind", KINDS)
def test_rows_beyond_four_gib_are_read_by_the_64_bit_kernel(kind):
    """C2"""
    call = random_call(kind, [40, 3], [2, 1])
    assert 110 * MIB * (len(call.k_cache) - 1) > 1 << 32
    call.k_cache, call.v_cache = (spread(cache, 110 * MIB) for cache in (call.k_cache, call.v_cache))
    if call.k_scale is not None:
        call.k_scale, call.v_scale = (spread(scale, 110 * MIB) for scale in (call.k_scale, call.v_scale))
    assert_attention(kernel(kind), call)


@pytest.mark.parametrize("kind", ["bf16", "packed"])
def test_the_32_bit_kernel_reads_up_to_the_last_byte_that_its_row_admits(kind):
    """C2: extents of 2 GiB - 16 bytes, of at most 2 GiB - 1."""
    call = random_call(kind, [40, 3], [2, 1])
    apart = ((1 << 31) - 16 - call.k_cache[0].nbytes) // (len(call.k_cache) - 1) // 16 * 16
    call.k_cache, call.v_cache = (spread(cache, apart) for cache in (call.k_cache, call.v_cache))
    assert (1 << 31) - 1024 < apart * (len(call.k_cache) - 1) + call.k_cache[0].nbytes < 1 << 31
    assert_attention(kernel(kind, offset_bits=32), call)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_and_partials_may_lie_more_than_four_gib_apart(kind):
    """C3"""
    call = random_call(kind, [40, 33], [2, 1])
    call.q = spread(call.q, 5 << 30)
    call.partial_out = spread(np.full((2, GROUP, 2, HEAD_DIM), np.nan, np.float32), 6 << 30)
    call.partial_lse = spread(np.full((2, GROUP, 2), np.nan, np.float32), 7 << 30)
    assert_attention(kernel(kind), call)


@pytest.mark.parametrize("kind", ["bf16", "generic"])
def test_unaligned_views_give_the_same_bits_as_aligned_ones(kind):
    """C4: each pointer in turn, by 2, 4 and 8 bytes, or by what its elements and the contract ask for."""
    decode = kernel(kind, alignment=1)
    plain = random_call(kind, [40, 3], [2, 1], kv_heads=2)
    wanted = run_decode(decode, plain)
    steps = {"q": (2, 4, 8), "k_cache": (2, 4, 8), "v_cache": (2, 4, 8), "indptr": (4, 8), "indices": (4, 8)}
    steps |= {"k_scale": (4, 8), "v_scale": (4, 8), "q_positions": (8,), "num_kv_splits": (4, 8)}
    steps |= {"partial_out": (16,), "partial_lse": (4, 8)}
    for name, counts in steps.items():
        for count in counts if getattr(plain, name) is not None else ():
            call = random_call(kind, [40, 3], [2, 1], kv_heads=2)
            call.partial_out, call.partial_lse = (np.full_like(array, np.nan) for array in wanted)
            setattr(call, name, shifted(getattr(call, name), count))
            for got, bits in zip(run_decode(decode, call), wanted, strict=True):
                np.testing.assert_array_equal(got.view(np.uint32), bits.view(np.uint32), f"{name} by {count}")


def test_codes_at_odd_bytes_give_the_same_bits():
    """C4"""
    wanted = run_decode(kernel("generic"), random_call("generic", [40, 3], [2, 1]))
    call = random_call("generic", [40, 3], [2, 1])
    call.k_cache, call.v_cache = shifted(call.k_cache, 1), shifted(call.v_cache, 3)
    for got, bits in zip(run_decode(kernel("generic"), call), wanted, strict=True):
        np.testing.assert_array_equal(got.view(np.uint32), bits.view(np.uint32))


@pytest.mark.parametrize(("batch", "splits"), [(1, 1), (1, 64), (2, 17), (7, 3), (32, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_partial_is_written_and_the_words_behind_the_workspace_are_not(kind, batch, splits):
    """C21"""
    call = random_call(kind, [(37 * n) % 71 for n in range(1, batch + 1)], [splits] * batch)
    guard = np.float32(-123.25)
    sizes = batch * GROUP * splits * HEAD_DIM, batch * GROUP * splits
    wholes = [np.full(size + 256, np.nan, np.float32) for size in sizes]
    for whole in wholes:
        whole[-256:] = guard
    call.partial_out = wholes[0][:-256].reshape(batch, GROUP, splits, HEAD_DIM)
    call.partial_lse = wholes[1][:-256].reshape(batch, GROUP, splits)
    run_decode(kernel(kind), call)
    for whole in wholes:
        assert not np.isnan(whole).any()
        assert (whole[-256:] == guard).all()


class ShortMemory(Memory):
    """One buffer lacks its last `elements`."""

    def __init__(self, name: str, elements: int):
        super().__init__()
        self.short = name, elements

    def add(self, name: str, array: np.ndarray, **options: bool) -> int:
        whole = array.reshape(-1)
        return super().add(name, whole[: -self.short[1]] if name == self.short[0] else whole, **options)


@pytest.mark.parametrize(("name", "row"), [("partial_out", HEAD_DIM), ("partial_lse", 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_workspace_one_row_short_is_an_access_out_of_bounds_that_names_it(kind, name, row):
    """C21"""
    with pytest.raises(OutOfBoundsError, match=f"buffer '{name}'"):
        run_decode(kernel(kind), random_call(kind, [40, 3], [2, 1]), ShortMemory(name, row))
