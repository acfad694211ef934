"""`assay compare --outputs`: bits that differ are a difference that a rule must allow, whatever it says of code."""

import pytest

from assay.qualify.commands.compare_command import CASES
from assay.qualify.comparing.case_sets import CASE_SETS
from assay.qualify.comparing.output_bits import FirstDifference
from assay.qualify.comparing.outputs import PairOutputs
from tests.qualify.comparing.changed_bundles import with_code, with_first
from tests.qualify.comparing.test_bundles import an_immediate_changed

WRONG = FirstDifference("two keys", "out", (0, 5), "1.0 (3f80)", "2.0 (4000)", 3, 64)


def test_the_options_cases_are_those_that_there_are():
    assert CASES == CASE_SETS


@pytest.fixture
def changed(toy, other, monkeypatch):
    """A pair of bundles with one kernel changed, whose outputs are said to differ: the toy has no cases to run."""

    def ran(_left, _right, pairs, _request, report):
        results = [
            (pair, PairOutputs("different", 1, difference=WRONG) if pair.differences else PairOutputs("same code"))
            for pair in pairs
        ]
        for result in results:
            report(*result)
        return results

    monkeypatch.setattr("assay.qualify.comparing.running.compare_outputs", ran)
    return toy, other(lambda contents: with_code(contents, an_immediate_changed))


def test_other_outputs_are_a_difference_next_to_the_code(assay, changed):
    ran = assay("compare", *changed, "--outputs", "emulated", "--json")
    assert ran.status == 1
    (pair,) = [pair for pair in ran.document["pairs"] if pair["differences"]]
    assert [item["aspect"] for item in pair["differences"]] == ["code", "outputs"]
    assert "out[0, 5] is 1.0 (3f80) and 2.0 (4000); 3 of 64 elements differ" in pair["differences"][1]["after"]
    assert ran.document["outputs"]["pairs"][0]["verdict"] in ("different", "same code")
    assert not ran.document["outputs"]["equal"]
    assert "[6/6]" in ran.err


def test_who_allows_other_code_does_not_allow_other_outputs(assay, changed):
    assert assay("compare", *changed, "--allow", "code").status == 0
    ran = assay("compare", *changed, "--allow", "code", "--outputs", "emulated")
    assert ran.status == 1
    assert "outputs different: scale on gfx1201" in ran.text
    assert assay("compare", *changed, "--allow", "code,outputs", "--outputs", "emulated").status == 0


def test_a_variant_shown_tells_its_outputs_too(assay, changed):
    # Of a family's variants the one that differs is meant.
    ran = assay("compare", *changed, "--outputs", "emulated", "--show", "family=scale")
    assert ran.status == 1, ran.text
    assert f"outputs, emulated: different: {WRONG}; 1 cases ran on both sides" in ran.out
    assert "outputs, " not in assay("compare", *changed, "--show", "family=scale").out


def test_a_fault_of_one_side_is_a_difference_in_its_own_words(assay, changed, monkeypatch):
    def ran(_left, _right, pairs, _request, _report):
        fault = "the right side alone: two keys: out of bounds"
        return [(pair, PairOutputs("different", detail=fault)) for pair in pairs if pair.differences]

    monkeypatch.setattr("assay.qualify.comparing.running.compare_outputs", ran)
    document = assay("compare", *changed, "--outputs", "emulated", "--json").document
    (pair,) = [pair for pair in document["pairs"] if pair["differences"]]
    assert pair["differences"][-1]["after"] == "the right side alone: two keys: out of bounds"


def test_what_has_no_cases_is_said_not_to_have_run(assay, toy, other):
    path = other(lambda contents: with_first(contents, lambda row: row._replace(lds_bytes=row.lds_bytes + 16)))
    assert assay("compare", toy, path, "--allow", "launch").status == 0
    ran = assay("compare", toy, path, "--outputs", "emulated", "--allow", "launch")
    assert ran.status == 4
    assert "outputs, emulated: 5 same code, 1 not run; 0 cases ran on both sides" in ran.text


def test_the_emulator_and_a_device_are_one_or_the_other(assay, toy):
    ran = assay("compare", toy, toy, "--outputs", "emulated", "--device", "cuda:0")
    assert ran.status == 2
    assert "give one of them" in ran.said


def test_without_it_nothing_is_run(assay, toy):
    assert assay("compare", toy, toy, "--json").document["outputs"] is None


def test_a_difference_counts_before_outputs_that_could_not_be_had(assay, toy, other):
    path = other(lambda contents: with_first(contents, lambda row: row._replace(lds_bytes=row.lds_bytes + 16)))
    assert assay("compare", toy, path, "--outputs", "emulated").status == 1


def test_a_misspelt_device_is_told_also_where_nothing_has_to_run(assay, toy):
    ran = assay("compare", toy, toy, "--device", "cdua:0", "--json")
    assert ran.status == 2
    assert "cdua:0" in ran.err


def test_a_lock_has_no_outputs(assay, built):
    """Without a word, nothing would have been run, and all of it would have been equal."""
    lock = built("gfx1201").lock
    ran = assay("compare", lock, lock, "--outputs", "emulated")
    assert ran.status == 2
    assert "a lock, which holds no code to run" in ran.err


def test_cases_of_outputs_that_nobody_asked_for_are_told(assay, toy):
    ran = assay("compare", toy, toy, "--cases", "isolation")
    assert ran.status == 2
    assert "without --outputs or --device" in ran.err
