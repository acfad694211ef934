"""Memory that a call writes is nobody else's: refused by name before anything is launched, on every path."""

import random

import numpy as np
import pytest
import torch

import assay.runtime
from assay.bundle.reader import Bundle
from assay.runtime import ArgumentError, fast
from assay.runtime.kernels import Kernels
from assay.runtime.overlap_faults import overlap_faults, self_overlap_faults
from assay.runtime.overlaps import may_overlap
from assay.runtime.tensors import view

from .decode_inputs import Engine, assert_close
from .test_fast_path import Recorder


@pytest.fixture
def emulated(decode_bundle):
    with assay.runtime.load(decode_bundle, device="emulator") as loaded:
        yield loaded


@pytest.fixture(params=["c", "python"])
def recorded(decode_bundle, request, monkeypatch):
    """Kernels on a device that writes its launches down, through the C path and without it."""
    if request.param == "python":
        monkeypatch.setattr(fast, "module", None)
    elif fast.module is None:
        pytest.skip("no C compiler built the extension here")
    bundle = Bundle.open(decode_bundle)
    with Kernels(bundle, bundle.manifest.targets, Recorder()) as loaded:
        yield loaded


def call(kernels, engine, tensors, **options):
    """A paged or a plain call, whichever these tensors are of."""
    given = {**engine.scales, **tensors}
    if "attn_logits" not in given:
        return kernels.decode_attention(*engine.arguments, **given, **options)
    names = ("attn_logits", "attn_lse", "num_kv_splits")
    partials = [given.pop(name) for name in names]
    return kernels.decode_paged_attention(*engine.arguments[:-1], *partials, 2, engine.arguments[-1], **given)


def own_memory(engine, *, paged):
    batch, heads, head_dim = engine.q.shape
    tensors = {"out": torch.full_like(engine.q, 7), "sinks": torch.zeros(heads)}
    if paged:
        tensors["attn_logits"] = torch.zeros(batch, heads, 2, head_dim)
        tensors["attn_lse"] = torch.zeros(batch, heads, 2)
        tensors["num_kv_splits"] = torch.full((batch,), 2, dtype=torch.int32)
    else:
        tensors["lse"] = torch.zeros(batch, heads)
        tensors["workspace"] = torch.zeros(1 << 17, dtype=torch.uint8)
    return tensors


def at_the_end(memory, like):
    """A tensor of another's dtype and shape in the last bytes of a larger one."""
    size = like.numel() * like.element_size()
    return memory.flatten().view(torch.uint8)[-size:].view(like.dtype).view(like.shape)


SPELLED = {"k": "k_cache", "v": "v_cache"}
WRITTEN = {False: ("out", "lse", "workspace"), True: ("out", "attn_logits", "attn_lse")}
PAIRS = [
    (paged, written, other)
    for paged, names in WRITTEN.items()
    for written in names
    for other in ("q", "k", "v", "indptr", "indices", "q_positions", "k_scale", "v_scale", "sinks", *names)
    if other != written
] + [(True, name, "num_kv_splits") for name in WRITTEN[True]]


@pytest.mark.parametrize(("paged", "written", "other"), PAIRS)
def test_what_is_written_shares_no_byte_with_anything(recorded, paged, written, other):
    engine = Engine(lengths=(70, 60, 0, 33))
    tensors = own_memory(engine, paged=paged)
    call(recorded, engine, tensors, num_splits=2)
    before = len(recorded.driver.launches)
    if other in tensors or other in engine.scales:
        holder = tensors if other in tensors else engine.scales
    else:
        holder = vars(engine)
    # The smaller one lies at the larger one's end, so that starts alone do not show it.
    large, small = sorted((tensors[written], holder[other]), key=lambda t: t.numel() * t.element_size(), reverse=True)
    whole = large.clone()
    part = at_the_end(whole, small).copy_(small)
    tensors[written], holder[other] = (part, whole) if small is tensors[written] else (whole, part)
    with pytest.raises(ArgumentError) as caught:
        call(recorded, engine, tensors, num_splits=2)
    names = [SPELLED.get(name, name) for name in (written, other)]
    said = str(caught.value)
    assert all(name in said for name in names), said
    assert "bytes of memory with" in said
    assert len(recorded.driver.launches) == before


def test_an_output_over_the_queries_is_refused_and_they_are_untouched(emulated):
    engine = Engine(fp8=False)
    kept = engine.q.clone()
    with pytest.raises(ArgumentError, match="out: shares up to 2048 bytes of memory with q"):
        emulated.decode_attention(*engine.arguments, out=engine.q)
    with pytest.raises(ArgumentError, match="out: shares up to 2048 bytes of memory with q"):
        emulated.plan(*engine.arguments, out=engine.q)
    assert torch.equal(engine.q, kept)
    assert emulated.usage() == {}


def test_neighbours_and_tensors_without_elements_overlap_nothing(recorded):
    engine = Engine()
    size = engine.q.numel()
    both = torch.zeros(2 * size, dtype=torch.bfloat16)
    both[:size] = engine.q.flatten()
    engine.q, out = both[:size].view(engine.q.shape), both[size:].view(engine.q.shape)
    recorded.decode_attention(*engine.arguments, **engine.scales, out=out, num_splits=2)
    nothing = Engine(lengths=(0, 0))
    recorded.decode_attention(*nothing.arguments, **nothing.scales, out=torch.empty_like(nothing.q), num_splits=2)
    assert len(recorded.driver.launches) == 4


def test_longer_indices_are_seen_to_reach_the_output(recorded):
    engine = Engine(lengths=(40,))
    arena = torch.zeros(4096, dtype=torch.int32)
    out = arena[64 : 64 + engine.q.numel() // 2].view(torch.bfloat16).view(engine.q.shape)
    q, k, v, indptr, _, positions, scale = engine.arguments
    for keys in (40, 63, 64):
        recorded.decode_attention(
            q, k, v, indptr, arena[:keys], positions, scale, **engine.scales, out=out, num_splits=2
        )
    with pytest.raises(ArgumentError, match="out: shares up to 4 bytes of memory with indices"):
        recorded.decode_attention(q, k, v, indptr, arena[:65], positions, scale, **engine.scales, out=out, num_splits=2)


def test_partial_results_interleaved_in_one_buffer_are_no_overlap(emulated):
    engine = Engine(lengths=(70, 33))
    batch, heads, head_dim = engine.q.shape
    buffer = torch.zeros(batch, heads, 2, head_dim + 4)
    counts = torch.full((batch,), 2, dtype=torch.int32)
    arguments = engine.arguments[:-1]
    for _ in range(2):
        out = emulated.decode_paged_attention(
            *arguments, buffer[..., :head_dim], buffer[..., head_dim], counts, 2, head_dim**-0.5, **engine.scales
        )
        assert_close(out, engine.attention()[0])
    with pytest.raises(ArgumentError, match=r"attn_(logits|lse): shares up to .* with attn_(logits|lse)"):
        emulated.decode_paged_attention(
            *arguments, buffer[..., :head_dim], buffer[..., 1], counts, 2, head_dim**-0.5, **engine.scales
        )


@pytest.mark.parametrize("name", ["out", "lse", "attn_logits", "attn_lse"])
def test_an_output_whose_rows_are_one_place_is_refused(emulated, name):
    engine = Engine()
    tensors = own_memory(engine, paged=name.startswith("attn"))
    tensors[name] = tensors[name][:1].expand(tensors[name].shape)
    with pytest.raises(ArgumentError, match=f"{SPELLED.get(name, name)}: strides .* several elements in one place"):
        call(emulated, engine, tensors, num_splits=2)
    assert emulated.usage() == {}


def test_a_launch_of_one_family_is_checked_like_a_call(emulated):
    partial, lse = torch.zeros(1, 1, 2, 2, 64), torch.zeros(1, 1, 2, 2)
    tensors = {
        "partial_out": partial, "partial_lse": lse, "num_kv_splits": torch.tensor([2], dtype=torch.int32),
        "out": torch.zeros(1, 1, 2, 64, dtype=torch.bfloat16), "lse": lse[..., 0],
    }  # fmt: skip
    facts = {"out_dtype": "bf16", "head_dim": 64, "sinks": False}
    with pytest.raises(ArgumentError, match="lse: shares up to 12 bytes of memory with partial_lse"):
        emulated.launch("merge_splits", tensors, facts=facts)
    assert emulated.usage() == {}


@pytest.mark.skipif(fast.module is None, reason="no C compiler built the extension here")
def test_the_c_path_sees_an_overlap_exactly_where_its_twin_does():
    chance, arena = random.Random(5), torch.zeros(64, dtype=torch.uint8)
    seen = set()
    for _ in range(3000):
        tensors = []
        for _ in range(4):
            shape = (chance.randint(0, 2), chance.randint(1, 3))
            strides = (chance.randint(1, 8), chance.randint(1, 3))
            tensors.append(arena.as_strided(shape, strides, chance.randint(0, 40)) if chance.random() < 0.8 else None)
        written = {index for index in range(4) if chance.random() < 0.4}
        views = [None if tensor is None else view(tensor) for tensor in tensors]
        expected = may_overlap(
            [v.address if v else 0 for v in views], [v.extent_bytes if v else 0 for v in views], written
        )
        bits = sum(1 << index for index in written)
        assert (fast.module.read(tuple(tensors), -1, 0, bits) is None) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_every_fault_is_of_bytes_that_really_are_shared_and_every_shared_byte_is_found():
    chance, memory = random.Random(11), np.zeros(96, np.uint8)
    found = set()
    for _ in range(3000):
        arrays = []
        for _ in range(2):
            shape = (chance.randint(1, 3), chance.randint(1, 4))
            strides = (chance.choice((-16, -8, 4, 8, 16)), chance.choice((1, 2, -1)))
            arrays.append(np.lib.stride_tricks.as_strided(memory[40 + chance.randint(0, 15) :], shape, strides))
        shares = bool({*_addresses(arrays[0])} & {*_addresses(arrays[1])})
        views = {"a": view(arrays[0]), "b": view(arrays[1])}
        told = bool(overlap_faults(views, ["a"]))
        assert told or not shares, "a byte that both have is never passed over"
        found.add((told, shares))
        repeats = len(set(_addresses(arrays[0]))) < arrays[0].size
        assert bool(self_overlap_faults(views, ["a"])) or not repeats
    assert {(True, True), (False, False)} <= found


def _addresses(array):
    start, (rows, columns) = array.__array_interface__["data"][0], array.strides
    return [start + r * rows + c * columns for r in range(array.shape[0]) for c in range(array.shape[1])]
