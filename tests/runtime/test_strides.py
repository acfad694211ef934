"""Which strides a kernel is passed: a dimension of one element has none of its own, whatever a framework reports."""

import pytest

from assay.runtime.contract import Contract
from assay.runtime.tensors import TensorView

ARGUMENTS = [
    {"name": "q", "kind": "pointer", "dtype": "bf16", "role": "input", "shape": ["batch", "kv_heads", "gqa", "dim"],
     "alignment": {"axis": "alignment"}},
    {"name": "batch_step", "kind": "stride", "dtype": "i64", "of": "q", "dim": "batch"},
    {"name": "head_step", "kind": "stride", "dtype": "i64", "of": "q", "dim": "gqa"},
]  # fmt: skip
CONTRACT = Contract("heads", {"arguments": ARGUMENTS})


def seen(shape, strides):
    views = {"q": TensorView(1 << 20, "bf16", shape, strides, ("cpu", 0))}
    steps = [CONTRACT.number_of(name, views) for name in ("batch_step", "head_step")]
    return steps, CONTRACT.facts(views)["alignment"], [str(fault) for fault in CONTRACT.shape_faults(views, {})]


@pytest.mark.parametrize("reported", [64, 1, 0, -7])
def test_one_head_a_group_is_stepped_over_as_its_kv_head_is(reported):
    """The kernel finds query head h at h steps, and there is one for each KV head."""
    assert seen((2, 3, 1, 64), (192, 64, reported, 1)) == ([192, 64], 16, [])
    assert seen((2, 3, 1, 64), (210, 70, reported, 1)) == ([210, 70], 4, [])


def test_several_heads_a_group_must_lie_one_after_the_other():
    assert seen((2, 3, 2, 64), (384, 128, 64, 1)) == ([384, 64], 16, [])
    steps, _, faults = seen((2, 3, 2, 64), (384, 120, 64, 1))
    assert (steps, faults) == ([384, 64], ["q, dimension kv_heads: stride 120; allowed: 128"])


def test_a_stride_over_one_element_is_never_used():
    assert seen((1, 1, 1, 64), (5, 7, 9, 1)) == ([0, 0], 16, [])
