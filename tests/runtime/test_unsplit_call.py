"""Decode calls that are not split: one kernel writes the output, on the emulator as the device."""

import numpy as np
import pytest
import torch

import assay.runtime
from assay.bundle import Bundle
from assay.bundle.opening import open_whole
from assay.runtime import ArgumentError, NoMatchError, UnknownRowError, fast
from assay.runtime.kernels import Kernels, _runs_on

from .decode_inputs import Engine, assert_close
from .test_fast_path import Recorder

TWO, ONE = ["decode_attention", "merge_splits"], ["decode_attention_unsplit"]


@pytest.fixture(scope="module")
def kernels(unsplit_bundle):
    with assay.runtime.load(unsplit_bundle, device="emulator") as loaded:
        yield loaded


def families(plan):
    return [stage.row.family for stage in plan.stages]


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("window", [None, 1, 17])
@pytest.mark.parametrize("fp8", [True, False])
def test_a_call_of_one_split_is_one_kernel_and_is_attention(kernels, fp8, window, sinks):
    engine = Engine(lengths=(70, 1, 0, 133), fp8=fp8)
    given = {"sinks": torch.tensor([-3.0, 0.5, 4.0, 200.0])} if sinks else {}
    lse = torch.full(engine.q.shape[:2], torch.nan)
    call = (*engine.arguments,)
    plan = kernels.plan(*call, **engine.scales, **given, num_splits=1, sliding_window=window, lse=lse)
    assert families(plan) == ONE
    expected, expected_lse = engine.attention(window, given.get("sinks"))
    # A request without keys gives 0 and -inf, whatever its sinks.
    expected_lse[2] = -torch.inf
    assert_close(plan.launch(), expected)
    torch.testing.assert_close(lse.double(), expected_lse, atol=0.002, rtol=1e-4)


@pytest.mark.parametrize("group", [1, 3, 8])
def test_any_group_that_the_block_holds_is_answered(kernels, group):
    engine = Engine(lengths=(80, 61), gqa=group)
    plan = kernels.plan(*engine.arguments, **engine.scales, num_splits=1)
    assert families(plan) == ONE
    assert_close(plan.launch(), engine.attention()[0])


def test_the_first_call_and_later_ones_give_the_same_bits_as_the_plan(kernels):
    engine = Engine(lengths=(70, 9))
    calls = [kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1) for _ in range(3)]
    planned = kernels.plan(*engine.arguments, **engine.scales, num_splits=1).launch()
    assert all(torch.equal(out, planned) for out in calls)


def test_kernels_say_what_they_are_of(kernels, unsplit_bundle):
    assert repr(kernels) == f"<kernels of {unsplit_bundle} for gfx1201>"


def test_two_splits_are_two_kernels(kernels):
    engine = Engine(lengths=(70, 70))
    plan = kernels.plan(*engine.arguments, **engine.scales, num_splits=2)
    assert families(plan) == TWO
    first, merge = (stage.row.id for stage in plan.stages)
    said = f"<decode_attention row {first}, grid 2 x 2 x 2>, <merge_splits row {merge}, grid 2 x 4 x 1>"
    assert repr(plan) == f"<decode call: {said}>"


def test_a_batch_that_fills_the_device_is_not_split(kernels):
    few, many = Engine(lengths=(600,)), Engine(lengths=(40,) * 400)
    assert families(kernels.plan(*few.arguments, **few.scales)) == TWO
    assert families(kernels.plan(*many.arguments, **many.scales)) == ONE


@pytest.mark.parametrize(("length", "window", "families"), [(500, None, ONE), (900, None, TWO), (900, 300, TWO)])
@pytest.mark.parametrize("short", [False, True])
def test_splits_that_would_gain_less_than_the_merge_takes_are_not_made(unsplit_bundle, short, length, window, families):
    """On a device with room for 32 workgroups and a call of 12."""
    engine, recorder = Engine(lengths=(length,) * 6), Recorder()
    opened = open_whole(unsplit_bundle) if short else Bundle.open(unsplit_bundle)
    targets = _runs_on(opened, recorder.device) if short else opened.manifest.targets
    with Kernels(opened, targets, recorder) as kernels:
        kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=window)
        assert [launch[1].partition("/")[0] for launch in recorder.launches] == families
        asked = kernels.plan(*engine.arguments, **engine.scales, num_splits=2)
        assert [stage.row.family for stage in asked.stages] == TWO


@pytest.mark.parametrize("order", [(600, 16), (16, 600)])
def test_which_window_comes_first_decides_nothing(unsplit_bundle, order):
    engine = Engine(lengths=(600,) * 6)
    with Bundle.open(unsplit_bundle) as bundle, Kernels(bundle, bundle.manifest.targets, Recorder()) as kernels:
        plans = [kernels.plan(*engine.arguments, **engine.scales, sliding_window=window) for window in order]
        fresh = [
            Kernels(bundle, bundle.manifest.targets, Recorder()).plan(
                *engine.arguments, **engine.scales, sliding_window=window
            )
            for window in order
        ]
        assert [families(plan) for plan in plans] == [families(plan) for plan in fresh]


def test_without_a_row_that_does_not_split_there_are_as_many_splits_as_fill_the_device(unsplit_bundle):
    engine = Engine(lengths=(500,) * 6)
    with Bundle.open(unsplit_bundle) as bundle, Kernels(bundle, bundle.manifest.targets, Recorder()) as kernels:
        rows = [row.id for row in kernels.rows("decode_attention_unsplit")]
        plan = kernels.plan(*engine.arguments, **engine.scales, forbid_rows=rows)
        assert [stage.row.family for stage in plan.stages] == TWO
        assert plan.stages[0].grid[2] == 2


def test_calls_that_only_a_row_that_does_not_split_serves_need_no_stage_1(unsplit_bundle):
    """Groups of 8, where stage 1 has rows for 2, and two of which stage 1 may not have a row."""
    many, few = Engine(lengths=(33, 8), gqa=8), Engine(lengths=(33, 8))
    with (
        Bundle.open(unsplit_bundle) as bundle,
        Kernels(bundle, bundle.manifest.targets, recorder := Recorder()) as kernels,
    ):
        stage_1 = [row.id for row in kernels.rows("decode_attention")]
        forced = kernels.plan(*many.arguments, **many.scales, num_splits=1).stages[0].row.id
        for engine, steering in ((many, {}), (many, {"force_row": forced}), (few, {"forbid_rows": stage_1})):
            assert families(kernels.plan(*engine.arguments, **engine.scales, **steering)) == ONE
        merges = [row.id for row in kernels.rows("merge_splits")]
        long = Engine(lengths=(900,) * 6)
        assert families(kernels.plan(*long.arguments, **long.scales, forbid_rows=merges)) == ONE
        with pytest.raises(NoMatchError):
            kernels.plan(*many.arguments, **many.scales, num_splits=2)
        # And none is loaded for a forced row.
        recorder.loaded.clear()
        kernels.plan(*few.arguments, **few.scales, force_row=forced)
        assert not [label for label in recorder.loaded if label.startswith("decode_attention/")]


def test_partial_results_that_a_caller_has_buffers_for_are_filled(kernels):
    engine = Engine(lengths=(70, 5))
    batch, heads, head_dim = engine.q.shape
    logits, lse = torch.full((batch, heads, 1, head_dim), torch.nan), torch.full((batch, heads, 1), torch.nan)
    counts = torch.ones(batch, dtype=torch.int32)
    arguments = (engine.q, engine.k, engine.v, engine.indptr, engine.indices, engine.q_positions)
    out = kernels.decode_paged_attention(*arguments, logits, lse, counts, 1, head_dim**-0.5, **engine.scales)
    assert_close(out, engine.attention()[0])
    assert_close(logits[:, :, 0], engine.attention()[0])


def test_a_layout_that_is_not_aligned_is_answered_by_both_stages(kernels):
    engine = Engine(lengths=(33,), fp8=False)
    shifted = torch.empty(engine.k.numel() + 1, dtype=torch.bfloat16)[1:].view(engine.k.shape)
    engine.k = shifted.copy_(engine.k)
    plan = kernels.plan(*engine.arguments, num_splits=1)
    assert families(plan) == TWO
    assert_close(plan.launch(), engine.attention()[0])


def test_a_workspace_has_room_for_the_lse_alone(kernels):
    engine = Engine(lengths=(33, 8))
    size = 4 * engine.q.shape[0] * engine.q.shape[1]
    guarded = torch.full((size + 16,), 0xA5, dtype=torch.uint8)
    out = kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, workspace=guarded[:size])
    assert_close(out, engine.attention()[0])
    assert (guarded[size:] == 0xA5).all()
    with pytest.raises(ArgumentError, match=f"workspace: {size - 1} bytes; allowed: at least {size} bytes"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, workspace=guarded[: size - 1])


@pytest.mark.parametrize("own_lse", [False, True])
def test_the_path_in_c_launches_the_same(unsplit_bundle, own_lse):
    engine, recorder = Engine(lengths=(33, 8)), Recorder()
    given = {"out": torch.empty_like(engine.q), "workspace": torch.zeros(32, dtype=torch.uint8), "num_splits": 1}
    given |= {"lse": torch.zeros(2, 4)} if own_lse else {}
    with Kernels(bundle := Bundle.open(unsplit_bundle), bundle.manifest.targets, recorder) as kernels:
        for _ in range(2):
            kernels.decode_attention(*engine.arguments, **engine.scales, **given)
        assert sum(kernels.usage().values()) == 2
    (way, *first), (later_way, *later) = recorder.launches
    assert first == later
    assert way == "python"
    assert later_way == ("python" if fast.module is None else "c")


def test_a_workspace_is_judged_by_what_answers_the_call(kernels):
    engine = Engine(lengths=(33, 8))
    workspace = torch.zeros(16, dtype=torch.uint8)
    with pytest.raises(ArgumentError, match=r"workspace: 16 bytes; allowed: at least 32 bytes .*, not split"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, workspace=workspace)
    unaligned = torch.zeros(engine.q.numel() + 1, dtype=torch.bfloat16)[1:].view(engine.q.shape)
    size = kernels.workspace_size(batch=2, q_heads=4, head_dim=64, num_splits=1)
    with pytest.raises(ArgumentError, match=rf"workspace: 16 bytes; allowed: at least {size} bytes .*, 1 splits"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, workspace=workspace, out=unaligned)


SPLIT_COUNTS = {
    "of another type": (torch.ones(2), "elements of f32; allowed: i32"),
    "of another batch": (torch.ones(5, dtype=torch.int32), "5 elements; allowed: 2"),
    "that are strided": (torch.ones(4, dtype=torch.int32)[::2], "stride 2; allowed: 1"),
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", SPLIT_COUNTS)
def test_split_counts_of_a_caller_are_held_to_their_contract(unsplit_bundle, name, debug):
    engine, (counts, said) = Engine(lengths=(70, 5)), SPLIT_COUNTS[name]
    arguments = (engine.q, engine.k, engine.v, engine.indptr, engine.indices, engine.q_positions, None, None)
    with assay.runtime.load(unsplit_bundle, device="emulator", debug=debug) as kernels:
        with pytest.raises(ArgumentError, match=rf"num_kv_splits.*{said}"):
            kernels.decode_paged_attention(*arguments, counts, 1, 0.125, **engine.scales)
        whole = torch.ones(2, dtype=torch.int32)
        out = kernels.decode_paged_attention(*arguments, whole, 1, 0.125, **engine.scales)
    assert_close(out, engine.attention()[0])


def test_rows_of_either_way_may_be_forced_and_forbidden(kernels):
    engine = Engine(lengths=(33,))
    call = {**engine.scales, "num_splits": 1}
    (unsplit,) = kernels.plan(*engine.arguments, **call).stages
    assert families(kernels.plan(*engine.arguments, **call, force_row=unsplit.row.id)) == ONE
    both = kernels.plan(*engine.arguments, **call, forbid_rows=[unsplit.row.id])
    assert families(both) == TWO
    for stage in both.stages:
        assert families(kernels.plan(*engine.arguments, **call, force_row=stage.row.id)) == TWO
    # Without a number of splits the forced row decides it.
    assert families(kernels.plan(*engine.arguments, **engine.scales, force_row=unsplit.row.id)) == ONE


def test_a_forced_row_that_cannot_answer_is_told(kernels):
    engine = Engine(lengths=(33,))
    (unsplit,) = kernels.plan(*engine.arguments, **engine.scales, num_splits=1).stages
    with pytest.raises(ArgumentError, match="num_splits: 3; allowed: 1: the forced row splits nothing"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=3, force_row=unsplit.row.id)
    with pytest.raises(ArgumentError, match="out: elements of f16; allowed: bf16, as the forced row has it"):
        kernels.decode_attention(
            *engine.arguments, **engine.scales, num_splits=1, force_row=unsplit.row.id, out=engine.q.half()
        )
    with pytest.raises(
        UnknownRowError, match="no row 'nosuch' of decode_attention, merge_splits, decode_attention_unsplit"
    ):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, force_row="nosuch")
    # Tables show the first digits of an id.
    with pytest.raises(UnknownRowError, match=f"did you mean {unsplit.row.id}"):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1, force_row=unsplit.row.id[:8])


def test_what_is_wrong_is_told_in_the_callers_words(kernels):
    engine = Engine(lengths=(33,))
    out = torch.full_like(engine.q, 7.0)
    with pytest.raises(ArgumentError, match="sinks"):
        kernels.decode_attention(
            *engine.arguments, **engine.scales, num_splits=1, out=out, sinks=torch.zeros(3)
        )  # fmt: skip
    assert (out == 7).all()


def test_debug_mode_reads_the_index_tensors(unsplit_bundle):
    engine = Engine(lengths=(33, 4))
    with assay.runtime.load(unsplit_bundle, device="emulator", debug=True) as kernels:
        assert_close(kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1), engine.attention()[0])
        engine.indices[3] = 10_000
        with pytest.raises(ArgumentError, match=r"indices\[3\]"):
            kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=1)


def test_numpy_arrays_take_the_same_way(kernels):
    engine = Engine(lengths=(40, 2))
    arrays = [
        tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()
        for tensor in engine.arguments[:-1]
    ]
    scales = {name: scale.numpy() for name, scale in engine.scales.items()}
    plan = kernels.plan(*arrays, engine.arguments[-1], **scales, num_splits=1)
    assert families(plan) == ONE
    wanted = kernels.plan(*engine.arguments, **engine.scales, num_splits=1).launch()
    np.testing.assert_array_equal(plan.launch(), wanted.view(torch.int16).numpy().view(np.uint16))


def test_a_first_call_of_one_split_is_one_kernel_too(unsplit_bundle):
    """The short way of a first call leaves the choice between one kernel and two to the long way."""
    few, many = Engine(lengths=(33,)), Engine(lengths=(20,) * 400)
    for engine, given in ((few, {"num_splits": 1}), (many, {})):
        with assay.runtime.load(unsplit_bundle, device="emulator") as kernels:
            out = kernels.decode_attention(*engine.arguments, **engine.scales, **given)
            used = {row.family for row in kernels.rows(ONE[0]) if row.id in kernels.usage()}
            assert used == set(ONE)
            assert sum(kernels.usage().values()) == 1
            assert torch.equal(out, kernels.plan(*engine.arguments, **engine.scales, **given).launch())


@pytest.mark.parametrize("family", [*TWO, *ONE])
def test_a_launch_without_tensors_is_told_what_rows_ask_for(kernels, family):
    """A dimension that no tensor tells is not given; it is no error of its own kind."""
    with pytest.raises(NoMatchError):
        kernels.launch(family, {}, {}, {})


def test_a_number_of_splits_out_of_range_names_the_call_that_takes_counts(kernels):
    engine = Engine(lengths=(33,))
    with pytest.raises(
        ArgumentError, match="num_splits: 129; allowed: 1 to 128; decode_paged_attention takes a tensor"
    ):
        kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=129)
