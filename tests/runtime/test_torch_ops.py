"""The operator under torch's own checks and under torch.compile."""

import pytest
import torch

import assay.runtime
from assay.runtime import torch_ops

from .decode_inputs import Engine, assert_close


@pytest.fixture
def kernels(decode_bundle):
    with assay.runtime.load(decode_bundle, device="emulator") as loaded:
        yield loaded


def test_the_operator_is_the_call(kernels):
    engine = Engine()
    handle = torch_ops.register(kernels)
    given = torch.ops.assay.decode_attention(handle, *engine.arguments, **engine.scales, num_splits=3)
    assert torch.equal(given, kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=3))


def test_torch_finds_nothing_wrong_with_the_operator(kernels):
    engine = Engine(lengths=(20,))
    handle = torch_ops.register(kernels)
    torch.library.opcheck(torch.ops.assay.decode_attention.default, (handle, *engine.arguments), engine.scales)


def test_a_compiled_model_calls_it_without_a_graph_break(kernels):
    engine = Engine()
    handle = torch_ops.register(kernels)

    def layer(q, k, v, *rest):
        return torch.ops.assay.decode_attention(handle, q * 2, k, v, *rest, **engine.scales) * 2

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    given = compiled(*engine.arguments)
    engine.q = engine.q * 2
    assert_close(given / 2, engine.attention()[0])


def test_a_number_stands_for_kernels_as_long_as_they_live(decode_bundle):
    engine = Engine(lengths=(5,))
    kernels = assay.runtime.load(decode_bundle, device="emulator")
    handle = torch_ops.register(kernels)
    assert torch_ops.register(kernels) == handle
    kernels.close()
    del kernels
    with pytest.raises(torch_ops.UnknownHandleError, match=f"registered under {handle}"):
        torch.ops.assay.decode_attention(handle, *engine.arguments, **engine.scales)


def test_a_number_is_never_given_to_other_kernels(decode_bundle):
    first = torch_ops.register(assay.runtime.load(decode_bundle, device="emulator"))
    second = assay.runtime.load(decode_bundle, device="emulator")
    assert torch_ops.register(second) != first
