"""Prefill through the runtime on the emulator: results, what is checked, and what is remembered from call to call."""

import shutil

import numpy as np
import pytest

import assay.runtime
from assay import reference
from assay.reference.judging import compare
from assay.runtime import ArgumentError, NoMatchError

AXES = {"q_dtype": "bf16", "head_dim": 64, "window": False, "sinks": False, "soft_cap": False}
TOLERANCE = (0.002, 0.02)


@pytest.fixture(scope="session")
def extend_bundle(tmp_path_factory, compile_cache):  # noqa: ARG001 - what is compiled is kept for the session
    """A real gfx1201 bundle: head_dim 64, with and without a window."""
    from assay.qualify import entry
    from tests.specs import SHIPPED

    folder = tmp_path_factory.mktemp("extend-bundle")
    specs = shutil.copytree(SHIPPED, folder / "specs")
    (specs / "profiles" / "core.yaml").write_text(
        "schema: assay.profile/1\nprofile: core\nsummary: a part for tests\n"
        "families:\n  extend_attention: {head_dim: [64], sinks: [false], soft_cap: [false]}\n"
    )
    arguments = ["--target", "gfx1201", "--evidence", "static", "--specs", str(specs), "--out", str(folder / "out")]
    assert entry.run(["qualify", *arguments, "--update-lock"]) == 0
    return folder / "out" / "gfx1201" / "gfx1201.assay"


@pytest.fixture
def kernels(extend_bundle):
    with assay.runtime.load(extend_bundle, device="emulator") as loaded:
        yield loaded


def case_of(*, window=False, number=1):
    """A case of the reference's, its tensors, and the longest chunk."""
    case = reference.cases("extend_attention", {**AXES, "window": window})[number]
    tensors = {name: tensor.view for name, tensor in case.tensors.items()}
    return case, tensors, int(np.diff(tensors["q_indptr"]).max())


def call(kernels, tensors, max_chunk, sm_scale=0.125, **changed):
    given = {**tensors, **changed}
    required = [given.pop(name) for name in ("q", "k_new", "v_new", "q_indptr")]
    return kernels.extend_attention(*required, sm_scale, max_chunk=max_chunk, **given)


def faults_of(kernels, *arguments, **named):
    with pytest.raises(ArgumentError) as caught:
        call(kernels, *arguments, **named)
    return str(caught.value)


@pytest.mark.parametrize("window", [False, True])
def test_a_call_is_the_float64_attention(kernels, window):
    case, tensors, max_chunk = case_of(window=window)
    before = {name: tensor.storage.copy() for name, tensor in case.tensors.items()}
    given = {"sliding_window": case.scalars["window_length"]} if window else {}
    out = call(kernels, tensors, max_chunk, **given)
    assert out is tensors["out"]
    dtypes = {"out": "bf16", "lse": "f32"}
    result = compare(case, dtypes, reference.expected("extend_attention", case), before, *TOLERANCE)
    assert result.passed, result.fault


def test_outputs_that_are_not_given_are_made(kernels):
    _, tensors, max_chunk = case_of()
    wanted = call(kernels, tensors, max_chunk).copy()
    made = call(kernels, tensors, max_chunk, out=None, lse=None)
    tokens = slice(tensors["q_indptr"][0], tensors["q_indptr"][-1])
    np.testing.assert_array_equal(made[tokens], wanted[tokens])


def test_a_call_without_a_history_is_one_with_none_of_its_rows(kernels):
    _, tensors, max_chunk = case_of()
    nothing = np.zeros_like(tensors["hist_indptr"])
    wanted = call(kernels, tensors, max_chunk, hist_indptr=nothing).copy()
    got = call(kernels, tensors, max_chunk, k_hist=None, v_hist=None, hist_indptr=None)
    np.testing.assert_array_equal(got, wanted)


def test_a_call_of_known_shapes_reads_the_tensors_it_is_given(kernels):
    _, tensors, max_chunk = case_of()
    first = call(kernels, tensors, max_chunk).copy()
    again = {name: array.copy() for name, array in tensors.items()}
    again["v_new"][...] = again["v_hist"][...] = 0
    zeros = call(kernels, again, max_chunk, sm_scale=0.25)
    tokens = slice(tensors["q_indptr"][0], tensors["q_indptr"][-1])
    assert not (zeros[tokens] & 0x7FFF).any()
    np.testing.assert_array_equal(call(kernels, tensors, max_chunk), first)


def test_requests_without_tokens_launch_nothing(kernels):
    _, tensors, _ = case_of()
    before = tensors["out"].copy()
    call(kernels, tensors, 0, q_indptr=np.zeros_like(tensors["q_indptr"]))
    np.testing.assert_array_equal(tensors["out"], before)
    assert kernels.usage() == {}


INPUTS = ("q", "k_new", "v_new", "q_indptr", "k_hist", "v_hist", "hist_indptr")


def on_one_memory(first, second):
    """Both arrays again, the smaller one in the last bytes of the larger one."""
    large, small = sorted((first, second), key=lambda array: array.nbytes, reverse=True)
    whole = np.ascontiguousarray(large)
    part = whole.reshape(-1).view(np.uint8)[whole.nbytes - small.nbytes :].view(small.dtype).reshape(small.shape)
    return (part, whole) if small is first else (whole, part)


@pytest.mark.parametrize(
    ("written", "other"), [(written, other) for written in ("out", "lse") for other in INPUTS] + [("out", "lse")]
)
def test_what_is_written_shares_no_byte_with_anything(kernels, written, other):
    _, tensors, max_chunk = case_of()
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    call(kernels, tensors, max_chunk)
    launched = kernels.usage()
    both = dict(zip((written, other), on_one_memory(tensors[written], tensors[other]), strict=True))
    before = {name: array.copy() for name, array in both.items()}
    said = faults_of(kernels, tensors, max_chunk, **both)
    size = min(tensors[written].nbytes, tensors[other].nbytes)
    pairs = [(written, other), (other, written)] if other == "lse" else [(written, other)]
    assert any(f"{name}: shares up to {size} bytes of memory with {with_}" in said for name, with_ in pairs), said
    assert kernels.usage() == launched
    for name, array in both.items():
        np.testing.assert_array_equal(array, before[name])


def test_an_output_in_place_of_the_queries_is_refused_and_they_are_untouched(kernels):
    _, tensors, max_chunk = case_of()
    kept = tensors["q"].copy()
    assert "with q;" in faults_of(kernels, tensors, max_chunk, out=tensors["q"])
    without = dict.fromkeys(("k_hist", "v_hist", "hist_indptr"))
    said = faults_of(kernels, tensors, max_chunk, out=tensors["q"], **without)
    assert "with q;" in said
    assert "hist" not in said
    np.testing.assert_array_equal(tensors["q"], kept)
    assert kernels.usage() == {}


def test_an_output_whose_tokens_are_one_place_is_refused(kernels):
    _, tensors, max_chunk = case_of()
    for name in ("out", "lse"):
        one_place = np.broadcast_to(tensors[name][:1], tensors[name].shape)
        one_place.flags.writeable = True
        said = faults_of(kernels, tensors, max_chunk, **{name: one_place})
        assert f"{name}: strides" in said
        assert "several elements in one place" in said


def test_queries_and_output_side_by_side_in_one_block_are_no_overlap(kernels):
    _, tensors, max_chunk = case_of()
    wanted = call(kernels, tensors, max_chunk).copy()
    block = np.zeros((len(tensors["q"]) + 1, 2, *tensors["q"].shape[1:]), np.uint16)
    block[:-1, 0] = tensors["q"]
    tokens = slice(tensors["q_indptr"][0], tensors["q_indptr"][-1])
    for _ in range(2):
        got = call(kernels, tensors, max_chunk, q=block[:-1, 0], out=block[:-1, 1])
        np.testing.assert_array_equal(got[tokens], wanted[tokens])
    # One token on, where the plan of these shapes is known and the output starts on the next token's queries.
    assert "out: shares up to" in faults_of(kernels, tensors, max_chunk, q=block[:-1, 1], out=block[1:, 1])


def test_everything_wrong_with_the_numbers_is_said_at_once(kernels):
    _, tensors, _ = case_of()
    said = faults_of(kernels, tensors, -1, sm_scale=0.0, sliding_window=0, logit_cap=float("inf"), v_hist=None)
    for name in ("max_chunk", "sm_scale", "sliding_window", "logit_cap", "v_hist"):
        assert name in said


def test_heads_and_chunks_that_do_not_fit_the_tensors_are_refused(kernels):
    _, tensors, max_chunk = case_of()
    three = tensors["q"][:, :3]
    two = {"k_new": np.repeat(tensors["k_new"], 2, 1), "v_new": np.repeat(tensors["v_new"], 2, 1)}
    said = faults_of(kernels, tensors, 10**6, q=three, **two)
    assert "3 query heads for 2 KV heads" in said
    assert "max_chunk" in said
    assert "kv_heads" in faults_of(kernels, tensors, max_chunk, k_hist=np.repeat(tensors["k_hist"], 2, 1))
    assert "hist_indptr" in faults_of(kernels, tensors, max_chunk, hist_indptr=tensors["hist_indptr"][:-1])
    assert "torch.int32" in faults_of(kernels, tensors, max_chunk, q_indptr=tensors["q_indptr"].astype(np.int64))


def test_tensors_off_by_less_than_sixteen_bytes_are_refused(kernels):
    """C4: by 2, 4 and 8 bytes."""
    _, tensors, max_chunk = case_of()
    for name in ("q", "k_new", "v_new", "k_hist", "v_hist", "out"):
        for count in (1, 2, 4):
            array = np.ascontiguousarray(tensors[name])
            whole = np.zeros(array.size + 16, np.uint16)
            start = -whole.ctypes.data // 2 % 8 + count
            shifted = whole[start : start + array.size].reshape(array.shape)
            said = faults_of(kernels, tensors, max_chunk, **{name: shifted})
            assert f"{name}: address" in said
            assert "a multiple of 16 bytes" in said


def test_what_no_row_serves_goes_to_the_fallback(kernels):
    _, tensors, max_chunk = case_of()
    with pytest.raises(NoMatchError, match="soft_cap"):
        call(kernels, tensors, max_chunk, logit_cap=30.0)
    seen = {}
    answer = call(kernels, tensors, max_chunk, logit_cap=30.0, fallback=lambda *_, **named: seen.update(named) or "it")
    assert answer == "it"
    assert seen["logit_cap"] == 30.0
    assert seen["k_hist"] is tensors["k_hist"]


def test_a_head_dim_that_no_row_has_goes_to_the_fallback_whatever_its_strides_are(kernels):
    wide = dict.fromkeys(("q", "k_new", "v_new"), np.zeros((4, 2, 65), np.uint16))
    tensors = {**wide, "q_indptr": np.array([0, 4], np.int32)}
    with pytest.raises(NoMatchError, match="head_dim: requested 65"):
        call(kernels, tensors, 4)
    assert call(kernels, tensors, 4, fallback=lambda *_, **__: "answered") == "answered"


def test_a_fallback_that_cannot_be_called_is_refused_where_a_row_answers(kernels):
    _, tensors, max_chunk = case_of()
    with pytest.raises(ArgumentError, match=r"^fallback: 'triton'; allowed: what can be called"):
        call(kernels, tensors, max_chunk, fallback="triton")
    assert kernels.usage() == {}


def test_offsets_are_judged_where_debugging_is_on(extend_bundle):
    _, tensors, max_chunk = case_of()
    with assay.runtime.load(extend_bundle, device="emulator", debug=True) as kernels:
        call(kernels, tensors, max_chunk)
        assert "max_chunk" in faults_of(kernels, tensors, max_chunk - 1)
        said = faults_of(kernels, tensors, max_chunk, hist_indptr=tensors["hist_indptr"] + 10**6)
        assert "hist_indptr" in said
        assert "q_indptr" in faults_of(kernels, tensors, max_chunk, q_indptr=tensors["q_indptr"][::-1].copy())


def test_a_forced_row_answers_and_forbidden_ones_do_not(kernels):
    _, tensors, max_chunk = case_of()
    every = [row.id for row in kernels.rows("extend_attention")]
    (plain,) = (id for id in every if not kernels.variant(id).problem["window"])
    call(kernels, tensors, max_chunk, force_row=plain)
    assert kernels.usage() == {plain: 1}
    with pytest.raises(NoMatchError, match="window"):
        call(kernels, tensors, max_chunk, sliding_window=8, force_row=plain)
    given = call(kernels, tensors, max_chunk, forbid_rows=every, fallback=lambda *_, **__: "answered")
    assert given == "answered"
