"""junit.xml, read back with another parser than the one that wrote it."""

import re
import xml.dom.minidom
from dataclasses import replace

import pytest

from assay.qualify.lock import LockChange
from assay.qualify.reports import junit_report

from .conftest import FEWER_SPILLS, HOSTILE, SPILLS


def parse(run):
    return xml.dom.minidom.parseString(junit_report.render(run).encode())


def suites(run):
    return {suite.getAttribute("name"): suite for suite in parse(run).getElementsByTagName("testsuite")}


def failures(element):
    return element.getElementsByTagName("failure")


def text_of(element):
    return "".join(node.data for node in element.childNodes)


def test_one_case_a_problem_and_all_reasons_in_its_failure(make):
    run = make.run(make.passed(), make.failed(SPILLS, nearest=(FEWER_SPILLS,)), status=1)
    suite = suites(run)["gfx1201 core scale"]
    passed, failed = suite.getElementsByTagName("testcase")
    assert not failures(passed)
    assert failed.getAttribute("name") == "x_dtype=f32 width=64 alignment=16"
    assert failed.getAttribute("classname") == "assay.gfx1201.core.scale"
    assert failed.getAttribute("time") == "0.500"
    (failure,) = failures(failed)
    assert failure.getAttribute("type") == "vgpr_spill_count"
    assert "unroll=2 num_stages=1 num_warps=4: vgpr_spill_count 8 > 0 (8 over)" in failure.getAttribute("message")
    assert text_of(failure).splitlines() == [
        "unroll=1 num_stages=1 num_warps=2: vgpr_spill_count 40 > 0 (40 over)",
        "unroll=2 num_stages=1 num_warps=4: vgpr_spill_count 8 > 0 (8 over)  (nearest)",
    ]


def test_the_lock_has_a_suite_of_its_own(make):
    changes = (
        LockChange("worse", "scale width=64", (("vgpr_count", "10", "12"),)),
        LockChange("gone", "scale width=96"),
    )
    run = make.run(make.passed(), changes=changes, lock_messages=("2 differences",), status=1)
    whole, worse, gone = suites(run)["gfx1201 core lock"].getElementsByTagName("testcase")
    assert whole.getAttribute("name") == "qualified.core.lock"
    assert failures(whole)[0].getAttribute("message") == "2 differences"
    assert failures(worse)[0].getAttribute("type") == "worse"
    assert failures(worse)[0].getAttribute("message") == "worse: vgpr_count 10 -> 12"
    assert failures(gone)[0].getAttribute("message") == "gone"
    clean = suites(make.run(make.passed()))["gfx1201 core lock"]
    assert (clean.getAttribute("tests"), clean.getAttribute("failures")) == ("1", "0")


def test_time_is_what_this_run_compiled(make):
    suite = suites(make.run(make.passed(), make.failed(SPILLS)))["gfx1201 core scale"]
    assert [case.getAttribute("time") for case in suite.getElementsByTagName("testcase")] == ["0.250", "0.500"]
    assert suite.getAttribute("time") == "0.750"
    result = make.passed()
    judgement = replace(result.chosen, outcome=replace(result.chosen.outcome, cached=True))
    document = parse(make.run(replace(result, chosen=judgement)))
    assert not any(element.hasAttribute("time") for element in document.getElementsByTagName("*"))


@pytest.mark.parametrize("field", ["complaints", "lock_messages"])
def test_whatever_fails_the_run_fails_a_case(make, field):
    run = make.run(make.passed(), status=1, **{field: ("why",)})
    assert [text_of(failure) for failure in failures(parse(run))] == ["why"]


def test_counts_are_what_is_there(make, hostile_run):
    for run in (make.run(make.passed(), make.failed(SPILLS), make.failed()), hostile_run):
        root = parse(run).documentElement
        for element in (root, *root.getElementsByTagName("testsuite")):
            assert int(element.getAttribute("tests")) == len(element.getElementsByTagName("testcase"))
            assert int(element.getAttribute("failures")) == len(failures(element))
            assert element.getAttribute("errors") == "0"
            assert re.fullmatch(r"\d+\.\d{3}|", element.getAttribute("time"))
        cases = [(c.getAttribute("classname"), c.getAttribute("name")) for c in root.getElementsByTagName("testcase")]
        assert all(all(case) for case in cases)


def test_names_and_messages_stay_text(hostile_run):
    document = parse(hostile_run)
    shown = HOSTILE.replace("\x1b", "\ufffd").replace("\x00", "\ufffd")
    assert {node.tagName for node in document.getElementsByTagName("*")} == {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
    }
    names = [case.getAttribute("name") for case in document.getElementsByTagName("testcase")]
    assert f"x_dtype={shown} width=64 alignment=16" in names
    assert any(shown in text_of(failure) for failure in failures(document))
