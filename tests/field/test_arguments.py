"""Run-time arguments stay run-time arguments (field cases C6, C7)."""

import itertools

import pytest

from assay.emulator import LaunchError, Memory
from tests.kernels.shipped import shipped_merge

from .calls import HEAD_DIM, KINDS, assert_attention, kernel, random_call

SIZES = {
    "ones": {"lengths": [1], "splits": [1], "kv_heads": 1, "window": 1},
    "more": {"lengths": [40, 33], "splits": [2, 5], "kv_heads": 2, "window": 5},
    "five keys": {"lengths": [5, 5], "splits": [5, 1], "kv_heads": 1, "window": 16},
}


@pytest.mark.parametrize("order", list(itertools.permutations(SIZES)), ids=", ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_one_binary_serves_sizes_of_one_and_of_more_in_any_order(kind, order):
    """C6: batch, KV heads, splits, window length and, with them, strides."""
    for name in order:
        assert_attention(kernel(kind), random_call(kind, **SIZES[name]))


def every_kernel():
    kernels = [kernel(kind, window=window) for kind in KINDS for window in (False, True)]
    return [*kernels, *(shipped_merge(head_dim=HEAD_DIM, sinks=sinks) for sinks in (False, True))]


def test_the_binary_has_exactly_the_contracts_arguments_and_two_hidden_pointers():
    """C7: nothing was folded away."""
    for item in every_kernel():
        in_binary = [(argument.offset, argument.size) for argument in item.program.kernel.arguments]
        in_spec = [(argument.offset, argument.size) for argument in item.variant.arguments]
        assert in_binary[: len(in_spec)] == in_spec
        assert [size for _, size in in_binary[len(in_spec) :]] == [8, 8]


def test_a_launch_with_another_number_of_arguments_is_refused_before_it_runs():
    """C7"""
    for item in every_kernel():
        count = len(item.variant.arguments)
        for given in (count - 1, count + 1):
            with pytest.raises(LaunchError, match=f"{given} arguments given"):
                item.program.launch(grid=(1,), num_warps=item.outcome.num_warps, arguments=[0] * given, memory=Memory())
