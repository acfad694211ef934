"""Which tensors share memory, against sets of bytes."""

import itertools
import random

from assay.runtime.overlap import Layout, overlap_faults, self_overlap_faults
from assay.runtime.tensors import TensorView

DTYPES = {1: "u8", 2: "bf16", 4: "f32"}


def bytes_of(view):
    """Every byte that a tensor has, as often as it has it."""
    found = []
    for index in itertools.product(*map(range, view.shape)):
        start = view.address + view.item_bytes * sum(i * stride for i, stride in zip(index, view.strides, strict=True))
        found += range(start, start + view.item_bytes)
    return found


def random_view(rng):
    shape = tuple(rng.choice([0, 1, 2, 3]) for _ in range(3))
    strides = tuple(rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 24]) for _ in range(3))
    return TensorView(rng.randrange(40), DTYPES[rng.choice([1, 2, 4])], shape, strides, ("cpu", 0))


def faults_of(views, written):
    layouts = {name: Layout.of(view) for name, view in views.items()}
    return overlap_faults(layouts, {name: view.address for name, view in views.items()}, written)


def test_whatever_shares_a_byte_is_a_fault():
    rng, shared, told = random.Random(0), 0, 0
    for _ in range(4000):
        views = {"out": random_view(rng), "x": random_view(rng)}
        meets = bool(set(bytes_of(views["out"])) & set(bytes_of(views["x"])))
        faults = faults_of(views, ("out",))
        assert faults or not meets, views
        shared, told = shared + meets, told + bool(faults)
    assert 300 < shared <= told < 4000


def test_whatever_meets_itself_is_a_fault():
    rng = random.Random(1)
    for _ in range(4000):
        view = random_view(rng)
        own = bytes_of(view)
        faults = self_overlap_faults({"out": Layout.of(view)}, ("out",))
        assert faults or len(own) == len(set(own)), view


def test_views_beside_each_other_in_one_block_are_none():
    block = TensorView(256, "bf16", (5, 3, 64), (2 * 3 * 64, 64, 1), ("cpu", 0))
    beside = block._replace(address=256 + 2 * 3 * 64)
    assert not faults_of({"k": block, "v": beside}, ("k", "v"))
    (fault,) = faults_of({"k": block, "v": beside._replace(address=beside.address - 2)}, ("k", "v"))
    assert str(fault).startswith("k: shares memory with v")
    assert not faults_of({"k": block, "v": block}, ())
