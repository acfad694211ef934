"""The short way to plan a decode call launches what the long way launches, and leaves to that whatever is wrong.

Every call of `test_decode_call.py` goes the short way first; here both ways stand side by side.
"""

import subprocess
import sys

import pytest
import torch

import assay.runtime
from assay.bundle import Bundle
from assay.bundle.opening import open_whole
from assay.runtime import ArgumentError, AssayRuntimeError
from assay.runtime.kernels import Kernels, _runs_on

from .decode_inputs import Engine
from .test_fast_path import Recorder


@pytest.fixture
def ways(decode_bundle):
    """The kernels loaded the short way and the long way, each with a device that writes down its launches."""
    opened, bundle = open_whole(decode_bundle), Bundle.open(decode_bundle)
    short, long = Recorder(), Recorder()
    with (
        Kernels(opened, _runs_on(opened, short.device), short) as one,
        Kernels(bundle, bundle.manifest.targets, long) as other,
    ):
        yield (one, short), (other, long)


def plan_of(kernels):
    (plan,) = kernels._decode._plans.values()
    return plan


def launched(recorder, counts):
    """Launches without the addresses of split counts, which are each device's own."""
    return [
        (*launch[:-1], launch[-1].replace(counts.to_bytes(8, "little"), b"counts..")) for launch in recorder.launches
    ]


def strided(tensor):
    """The same values, a row apart from the next by more than its elements."""
    wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 16, dtype=tensor.dtype)
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


PLANNED = {
    "plain": {},
    "splits": {"num_splits": 5},
    "one split": {"num_splits": 1},
    "a window": {"sliding_window": 33, "num_splits": 3},
    "sinks": {"sinks": torch.zeros(4), "num_splits": 2},
    "an LSE": {"lse": torch.zeros(4, 4), "num_splits": 2},
    "an unaligned out": {"out": torch.zeros(4 * 4 * 64 + 1, dtype=torch.bfloat16)[1:].view(4, 4, 64)},
    "a scale that is an integer": {"sm_scale": 1, "num_splits": 2},
}
SHAPED = {
    "as they come": lambda _: None,
    "several queries": lambda engine: setattr(engine, "q", engine.q[:, None].contiguous()),
    "strided queries": lambda engine: setattr(engine, "q", strided(engine.q)),
    "strided caches": lambda engine: (setattr(engine, "k", strided(engine.k)), setattr(engine, "v", strided(engine.v))),
}


@pytest.mark.parametrize("shape", SHAPED)
@pytest.mark.parametrize("name", PLANNED)
@pytest.mark.parametrize("fp8", [True, False])
def test_both_ways_launch_the_same(ways, name, shape, fp8):
    engine = Engine(lengths=(700, 650, 900, 33), fp8=fp8)
    SHAPED[shape](engine)
    if shape == "several queries":
        engine.q_positions = engine.q_positions[:, None].contiguous()
    batch, heads, head_dim = engine.q.shape[0], engine.q.shape[-2], engine.q.shape[-1]
    arguments, options = [*engine.arguments], dict(PLANNED[name])
    arguments[-1] = options.pop("sm_scale", arguments[-1])
    if shape == "several queries":
        options = {name: tensor[:, None] if name in ("out", "lse") else tensor for name, tensor in options.items()}
    made = {"out": torch.empty(engine.q.shape, dtype=torch.bfloat16)} | options
    size = ways[0][0].workspace_size(batch=batch, q_heads=heads, head_dim=head_dim)
    made["workspace"] = torch.empty(size, dtype=torch.uint8)
    seen = []
    for kernels, recorder in ways:
        kernels.decode_attention(*arguments, **engine.scales, **made)
        seen.append((launched(recorder, plan_of(kernels).counts), kernels.usage()))
    assert seen[0] == seen[1]
    assert [plan_of(kernels).whole for kernels, _ in ways] == [False, True]


LEFT = {
    "a forbidden row": {"forbid_rows": ("x",)},
    "a cap below its least": {"logit_cap": 0.0},
    "a window of nothing": {"sliding_window": 0},
    "129 splits": {"num_splits": 129},
    "a scale that is none": {"sm_scale": float("nan")},
    "a workspace that is too small": {"workspace": torch.empty(64, dtype=torch.uint8)},
    "a workspace that is not dense": {"workspace": torch.empty(1 << 20, 2, dtype=torch.uint8)[:, 0]},
    "outputs of another type": {"out": torch.empty(4, 4, 64)},
    "an LSE of another shape": {"lse": torch.empty(4, 5)},
    "an LSE that is expanded": {"lse": torch.empty(4, 1).expand(4, 4)},
    "sinks that are strided": {"sinks": torch.zeros(4, 2)[:, 0]},
    "positions of another batch": {"q_positions": torch.zeros(3, dtype=torch.int64)},
    "a negative view": {"lse": torch._neg_view(torch.empty(4, 4))},
    "indices elsewhere": {"indices": torch.zeros(70, dtype=torch.int32, device="meta")},
    "FP32 queries": {"q": torch.zeros(4, 4, 64)},
    "other caches": {"v_cache": torch.zeros(80, 2, 64, dtype=torch.int8)},
    "no request": {"q": torch.zeros(0, 4, 64, dtype=torch.bfloat16)},
    "no key": {"indices": torch.zeros(0, dtype=torch.int32)},
}
NAMES = ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions", "sm_scale")


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_plain_is_left_to_the_long_way(ways, name):
    engine = Engine(lengths=(20, 20, 20, 10))
    given = dict(zip(NAMES, engine.arguments, strict=True)) | engine.scales | LEFT[name]
    ends = []
    for kernels, recorder in ways:
        try:
            kernels.decode_attention(**given)
            ends.append([launch[1:5] for launch in recorder.launches])
        except AssayRuntimeError as error:
            ends.append((type(error), str(error)))
            assert recorder.launches == []
        assert all(plan is None or plan.whole for plan in kernels._decode._plans.values())
    assert ends[0] == ends[1]


def test_a_bound_call_shows_rows_with_all_of_their_fields(ways):
    engine = Engine()
    (kernels, _), _ = ways
    kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=4)
    assert not plan_of(kernels).whole
    bound = kernels.plan(*engine.arguments, **engine.scales, num_splits=4)
    assert all(stage.row.conditions for stage in bound.stages)


def test_a_missing_row_is_told_by_the_long_way(ways):
    engine = Engine(head_dim=64, gqa=16)
    said = []
    for kernels, _ in ways:
        with pytest.raises((ArgumentError, AssayRuntimeError)) as caught:
            kernels.decode_attention(*engine.arguments, **engine.scales)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_what_was_closed_tells_what_it_knows_and_reads_no_more(decode_bundle):
    kernels = assay.runtime.load(decode_bundle, device="emulator")
    kernels.close()
    kernels.close()
    assert kernels.families() == ("decode_attention", "merge_splits")
    with pytest.raises(AssayRuntimeError, match="cannot be read"):
        kernels.select("merge_splits", head_dim=64)
    engine = Engine()
    with pytest.raises(AssayRuntimeError, match="closed"):
        kernels.decode_attention(*engine.arguments, **engine.scales)


def test_methods_that_come_later_are_methods_like_any_other():
    code = """
import inspect
from assay.runtime import Kernels
assert list(inspect.signature(Kernels.select).parameters)[:3] == ["self", "family", "force_row"], Kernels.select
for name in dir(Kernels):
    assert name.startswith("_") or inspect.getdoc(getattr(Kernels, name)), name
assert {"select", "explain", "launch", "preload", "kv_store", "extend_attention", "driver"} <= set(dir(Kernels))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
