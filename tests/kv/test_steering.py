"""Which row a kv call takes, and what answers where none does."""

import pytest
import torch

from assay.runtime import ArgumentError, NoMatchError, UnknownRowError

from .engine import Engine
from .test_reconstruct import call_of


def test_a_forced_row_answers_and_a_forbidden_one_does_not(kernels):
    engine = Engine()
    rows = kernels.rows("kv_store")
    facts = {"kv_format": "fp8_per_token_head", "slot_dtype": "i32", "alignment": 1, "most_head_dim": 128}
    (generic,) = (row.id for row in rows if facts.items() <= kernels.variant(row.id).problem.items())
    kernels.kv_store(**engine.tensors, force_row=generic)
    assert kernels.usage() == {generic: 1}
    engine.check_stored()
    aligned = [row.id for row in rows if kernels.variant(row.id).problem["alignment"] == 16]
    kernels.kv_store(**engine.tensors, forbid_rows=aligned)
    assert kernels.usage() == {generic: 2}
    with pytest.raises(UnknownRowError):
        kernels.kv_store(**engine.tensors, force_row="0" * 16)
    with pytest.raises(NoMatchError, match="slot_dtype"):
        kernels.kv_store(**Engine(slot_dtype=torch.int64).tensors, force_row=generic)


@pytest.mark.parametrize("family", ["kv_store", "kv_reconstruct"])
def test_what_no_row_serves_goes_to_the_fallback(kernels, family):
    method = getattr(kernels, family)
    tensors = Engine().tensors if family == "kv_store" else call_of()[0]
    every = [row.id for row in kernels.rows(family)]
    with pytest.raises(NoMatchError):
        method(**tensors, forbid_rows=every)
    seen = {}

    def fallback(*positional, **named):
        # Bound to the method's own parameters, as another kernel library's stand-in would.
        names = ("k", "v", "slots", "k_cache", "v_cache")
        if family == "kv_reconstruct":
            names = ("k_cache", "v_cache", "k_scale", "v_scale", "slots", "k_out", "v_out")
        seen.update(zip(names, positional, strict=True), **named)
        return "answered"

    given = method(**tensors, kv_format="fp8_per_token_head", stream=1, forbid_rows=every, fallback=fallback)
    assert given == "answered"
    assert seen.pop("kv_format") == "fp8_per_token_head"
    assert seen.pop("stream") == 1
    assert {name: id(tensor) for name, tensor in seen.items()} == {name: id(t) for name, t in tensors.items()}
    assert kernels.usage() == {}


@pytest.mark.parametrize("family", ["kv_store", "kv_reconstruct"])
def test_a_fallback_hides_no_wrong_argument_and_is_not_called_for_an_answer(kernels, family):
    method = getattr(kernels, family)
    tensors = Engine().tensors if family == "kv_store" else call_of()[0]

    def never(*_, **__):
        pytest.fail("called where a row answers, or for wrong arguments")

    assert method(**tensors, fallback=never) is None
    with pytest.raises(ArgumentError, match="slots: None"):
        method(**{**tensors, "slots": None}, fallback=never)


@pytest.mark.parametrize("family", ["kv_store", "kv_reconstruct"])
def test_a_fallback_that_cannot_be_called_is_refused_where_a_row_answers(kernels, family):
    method = getattr(kernels, family)
    tensors = Engine().tensors if family == "kv_store" else call_of()[0]
    with pytest.raises(ArgumentError, match=r"^fallback: 'triton'; allowed: what can be called"):
        method(**tensors, fallback="triton")
    assert kernels.usage() == {}


@pytest.mark.parametrize("given", [5, [5], (id for id in ("0" * 16,))], ids=["number", "numbers", "iterator"])
def test_what_is_no_row_id_is_refused_by_name(kernels, given):
    engine, facts = Engine(), {"kv_format": "bf16"}
    for call in (kernels.kv_store, kernels.launch):
        arguments = engine.tensors if call == kernels.kv_store else {"family": "kv_store", "tensors": engine.tensors}
        with pytest.raises(ArgumentError, match=r"^force_row: .*\nforbid_rows: "):
            call(**arguments, force_row=5, forbid_rows=given)
    for ask in (kernels.select, kernels.supports, kernels.explain):
        with pytest.raises(ArgumentError, match=r"^forbid_rows: "):
            ask("kv_store", forbid_rows=given, **facts)
    assert kernels.usage() == {}


def test_a_format_that_the_caches_do_not_hold_is_told_by_the_caches(kernels):
    with pytest.raises(ArgumentError) as caught:
        kernels.kv_store(**Engine().tensors, kv_format="bf16")
    assert "k_cache: elements of u8; allowed: bf16" in str(caught.value)
    assert "k_scale: given" in str(caught.value)
