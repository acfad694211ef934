"""Of the mutants that change an output, the gate notices nineteen of twenty; and it notices missing waits."""

import pytest

from .judging import judge
from .judging_all import all_mutants, judge_all
from .page import share_noticed
from .subject import SUBJECTS, run_as_gate, storages


@pytest.mark.parametrize("family", ["merge_splits", pytest.param("decode_attention", marks=pytest.mark.slow)])
def test_the_kernel_itself_passes_and_computes_the_same_with_checks_as_without(family):
    subject = SUBJECTS[family]()
    for trial in subject.trials:
        assert run_as_gate(subject, trial, subject.program).passed
        assert storages(trial.case) == trial.golden


@pytest.mark.parametrize(("family", "every"), [("merge_splits", 20), ("decode_attention", 170)])
def test_changes_are_noticed(family, every):
    """One miss among so few is still a share that the whole set has."""
    check(family, every, changes=10, share=0.9)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "every"), [("merge_splits", 9), ("decode_attention", 37)])
def test_nineteen_of_twenty_changes_are_noticed_in_a_larger_sample(family, every):
    check(family, every, changes=40, share=0.95)


def check(family, every, changes, share):
    verdicts = list(judge_all(family, every=every))
    assert sum(bool(verdict.changed) for verdict in verdicts) >= changes
    missed = [(verdict.mutant.name, verdict.changed) for verdict in verdicts if verdict.changed and not verdict.noticed]
    assert share_noticed(verdicts) >= share, missed


@pytest.mark.parametrize("opcode", ["s_wait_kmcnt", "s_wait_loadcnt", "s_wait_dscnt"])
def test_a_wait_that_is_left_out_is_noticed_although_nothing_changes(opcode):
    subject = SUBJECTS["merge_splits"]()
    waits = [item for item in all_mutants("merge_splits") if item.kind == "deleted" and item.before.startswith(opcode)]
    verdicts = [judge(subject, mutant) for mutant in waits]
    assert not any(verdict.changed for verdict in verdicts)
    assert any("no s_wait between" in verdict.noticed for verdict in verdicts)
