"""`assay attest` takes evidence of this very bundle that holds together, and leaves the bundle's identity alone."""

import copy
import json
import shutil
from pathlib import Path

import pytest

from assay.bundle import Bundle, attach_evidence
from assay.qualify.device.checking import Check
from assay.qualify.device.evidence import figures, read_evidence
from assay.qualify.evidence_summary import summarise_evidence
from tests.qualify import standin_device


@pytest.fixture(scope="module")
def evidence(shipped, tmp_path_factory):
    """What a device run of the whole bundle wrote.  It is shared: copy what is to be changed."""
    path = tmp_path_factory.mktemp("evidence") / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        standin_device.shorten(patch, cases=1)
        assert standin_device.run(shipped, path) == 0
    return path


@pytest.fixture
def bundle(shipped, tmp_path):
    return shutil.copy(shipped, tmp_path / "x.assay")


@pytest.fixture
def written(evidence, tmp_path):
    """Writes the evidence anew after a change to its document; returns the file."""

    def write(change, name="changed.json"):
        document = json.loads(evidence.read_text())
        change(document)
        (tmp_path / name).write_text(json.dumps(document))
        return tmp_path / name

    return write


def first(document):
    return next(iter(document["variants"].values()))


def fail(judged):
    """One check of it fails, and everything that follows from that."""
    check = judged["checks"][0]
    check.update(verdict="fail", fault="out: 1 of 2 elements wrong")
    judged["device"] = "fail"


def failing(document):
    fail(first(document))
    document["verdict"] = "fail"


def device_evidence(path):
    with Bundle.open(path) as opened:
        return opened.evidence("device")["variants"]


def test_evidence_becomes_part_of_the_bundle_whose_identity_stays(assay, bundle, evidence):
    with Bundle.open(bundle) as opened:
        identity = opened.identity
    ran = assay("attest", bundle, evidence)
    assert ran.status == 0
    assert "device: 4 pass, 0 without" in ran.out
    assert "static: 4 pass, 0 without" in ran.out
    assert "1 device runs attested" in ran.out
    verified = assay("verify", bundle)
    assert verified.status == 0
    assert identity in verified.out
    for item in device_evidence(bundle).values():
        assert (item["device"], item["cases"], item["replays"], len(item["runs"])) == ("pass", 1, 1, 1)
    with Bundle.open(bundle) as opened:
        summary = summarise_evidence(opened)
        assert (summary.passed, summary.faults) == ({"static": 4, "device": 4}, ())


def test_json_has_the_coverage_of_each_level(assay, bundle, evidence):
    document = assay("attest", bundle, evidence, "--json").document
    assert (document["schema"], document["verdict"]) == ("assay.attest/1", "pass")
    assert document["coverage"]["device"] == {"pass": 4, "without": 0}
    assert document["failures"] == {}


def test_a_part_covers_its_part(assay, bundle, written):
    def part(document):
        document["variants"] = dict(list(document["variants"].items())[:1])
        document["calls"] = []

    assert "device: 1 pass, 3 without" in assay("attest", bundle, written(part)).out


def test_order_and_repetition_make_no_difference(assay, shipped, tmp_path, evidence, written):
    files = [evidence, written(lambda document: document.update(begun="2026-01-01T00:00:00+00:00"))]
    ways = {
        "together": [files],
        "one": [files[:1], files[1:]],
        "other": [files[1:], files[:1]],
        "twice": [files, files],
    }
    for name, calls in ways.items():
        shutil.copy(shipped, tmp_path / name)
        for given in calls:
            assert assay("attest", tmp_path / name, *given).status == 0
    assert len({(tmp_path / name).read_bytes() for name in ways}) == 1
    assert all(item["cases"] == 2 for item in device_evidence(tmp_path / "one").values())


def test_a_failure_is_recorded_and_no_pass_outweighs_it(assay, bundle, evidence, written):
    bad = written(failing)
    id = next(iter(json.loads(bad.read_text())["variants"]))
    ran = assay("attest", bundle, bad)
    assert ran.status == 1
    assert f"FAIL {id}:" in ran.out
    assert "on a stand-in: out: 1 of 2 elements wrong" in ran.out
    assert device_evidence(bundle)[id]["device"] == "fail"
    assert assay("attest", bundle, evidence).status == 1
    found = device_evidence(bundle)
    assert {key for key, item in found.items() if item["device"] == "fail"} == {id}
    assert assay("verify", bundle).status == 0
    with Bundle.open(bundle) as opened:
        (fault,) = summarise_evidence(opened).faults
    assert id in fault.where


def test_a_call_that_fails_fails_the_rows_that_answered_it(assay, bundle, written):
    def change(document):
        fail(document["calls"][0])
        document["verdict"] = "fail"

    file = written(change)
    assert assay("attest", bundle, file).status == 1
    rows = json.loads(file.read_text())["calls"][0]["rows"]
    assert {id for id, item in device_evidence(bundle).items() if item["device"] == "fail"} == set(rows)


def test_evidence_survives_putting_bundles_together(assay, bundle, evidence, tmp_path):
    assert assay("attest", bundle, evidence).status == 0
    out = tmp_path / "both.assay"
    other = tmp_path / "other.assay"
    shutil.copy(bundle, other)
    assert assay("bundle", bundle, other, "--out", out).status == 0
    assert {item["device"] for item in device_evidence(out).values()} == {"pass"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["bundle"].update(identity="0" * 64), "of another bundle, or of another build"),
        (lambda d: d["bundle"].update(identity="short"), "64 hexadecimal digits"),
        (lambda d: d["device"].update(arch="gfx1200"), "the bundle holds no code for it"),
        (lambda d: d["device"].update(backend="cuda"), "the bundle holds no code for it"),
        (lambda d: d["device"].update(pci_address=None), "device: pci_address: None"),
        (lambda d: d["variants"].update({"0" * 16: copy.deepcopy(first(d))}), "0000000000000000: rows"),
        (lambda d: first(d)["problem"].update(head_dim=65), "problem:"),
        (lambda d: d.update(schema="assay.evidence/2"), "'assay.evidence/2'"),
        (lambda d: d.update(level="emulated"), "assay qualify --evidence LEVEL"),
        (lambda d: d.update(verdict="fail"), "verdict: 'fail'; allowed: pass, as its checks say"),
        (lambda d: d.pop("software"), "software: is missing"),
        (lambda d: d.update(variants=[]), "variants: []; allowed: dict"),
        (lambda d: first(d).update(checks=3), "checks: 3; allowed: list"),
        (lambda d: first(d)["checks"].append(7), "check 2: int; allowed: an object"),
        (lambda d: first(d)["checks"][0].pop("rows"), "rows: is missing"),
        (lambda d: first(d)["checks"][0].update(extra=1), "extra"),
        (lambda d: first(d)["checks"][0].update(how="guess"), "guess pass"),
        (lambda d: first(d)["checks"][0].update(largest_error=-1), "-1; allowed: a number of at least 0"),
        (lambda d: first(d)["checks"][0].update(largest_error=None), "passes with a fault, or without figures"),
        (lambda d: first(d)["checks"][0].update(fault="odd"), "passes with a fault"),
        (lambda d: first(d)["checks"][0].update(verdict="fail"), "fail for no reason"),
        (lambda d: first(d).update(cases=99), "cases: 99; allowed: 1, as its checks say"),
        (lambda d: first(d).update(largest_error=0.0), "as its checks say"),
        (lambda d: first(d).update(device="fail"), "device: 'fail'; allowed: 'pass', as its checks say"),
        (lambda d: d["calls"][0].update(rows=[]), "rows:"),
        (lambda d: d["calls"][0].update(facts=None), "call 0: facts: None; allowed: dict"),
    ],
)
def test_what_is_foreign_or_contradicts_itself_is_refused(assay, bundle, written, change, said):
    before = bundle.read_bytes()
    ran = assay("attest", bundle, written(change))
    assert ran.status == 2
    assert said in ran.said
    assert ran.out == ""
    assert bundle.read_bytes() == before


def test_an_unknown_variant_is_refused_by_name(assay, bundle, written):
    def change(document):
        item = copy.deepcopy(first(document))
        for check in item["checks"]:
            check["rows"] = ["0" * 16]
        document["variants"]["0" * 16] = item

    ran = assay("attest", bundle, written(change))
    assert ran.status == 2
    assert "variant 0000000000000000: the bundle has no such variant" in ran.said


def test_evidence_of_nothing_is_refused(assay, bundle, written):
    def nothing(document):
        document.update(variants={}, calls=[], verdict="not_run")

    assert "nothing of it was run" in assay("attest", bundle, written(nothing)).said


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "\x00"])
def test_what_is_no_evidence_is_refused(assay, bundle, tmp_path, text):
    before = bundle.read_bytes()
    (tmp_path / "e.json").write_text(text)
    assert assay("attest", bundle, tmp_path / "e.json").status == 2
    assert bundle.read_bytes() == before


def test_evidence_cut_short_anywhere_is_refused(assay, bundle, evidence, tmp_path):
    text = evidence.read_bytes().rstrip()
    before = bundle.read_bytes()
    for end in range(0, len(text), len(text) // 20):
        (tmp_path / "cut.json").write_bytes(text[:end])
        assert assay("attest", bundle, tmp_path / "cut.json").status == 2
    assert bundle.read_bytes() == before


def test_all_files_are_told_of_at_once_and_none_is_merged(assay, bundle, evidence, written, tmp_path):
    before = bundle.read_bytes()
    foreign = written(lambda document: document["bundle"].update(identity="0" * 64))
    ran = assay("attest", bundle, evidence, tmp_path / "absent.json", foreign, tmp_path)
    assert ran.status == 2
    for part in ("absent.json: no such file", "of another bundle", f"{tmp_path}: no such file, or no regular one"):
        assert part in ran.said
    assert bundle.read_bytes() == before


def test_a_damaged_bundle_is_refused(assay, bundle, evidence):
    with Bundle.open(bundle) as opened:
        blob = opened._blob_index("object")[opened.object_hashes()[0]]
    data = bytearray(bundle.read_bytes())
    data[blob.offset + 20] ^= 1
    bundle.write_bytes(data)
    ran = assay("attest", bundle, evidence)
    assert ran.status == 2
    assert "SHA-256 does not match" in ran.said
    assert bundle.read_bytes() == data


def test_kept_evidence_that_does_not_hold_together_is_refused(assay, bundle, evidence):
    attach_evidence(bundle, {"device-run/0000": b'{"schema": "assay.device-run/1", "evidence": {}}'})
    ran = assay("attest", bundle, evidence)
    assert ran.status == 2
    assert "evidence device-run/0000: schema" in ran.said


def test_what_is_read_is_what_was_written(evidence):
    read = read_evidence(evidence)
    assert read.device == ("hip", "gfx1201")
    assert len(read.variants) == 4
    assert read.document == json.loads(evidence.read_text())


def test_a_failed_call_that_no_row_answered_counts_against_all_that_may_have(assay, bundle, written):
    def change(document):
        call = document["calls"][0]
        for check in call["checks"]:
            check.update(verdict="fail", fault="the launch failed", rows=[], largest_error=None)
        call.update(figures([Check(**{**check, "rows": ()}) for check in call["checks"]]), rows=[])
        document["verdict"] = "fail"

    file = written(change)
    facts = json.loads(file.read_text())["calls"][0]["facts"]
    assert assay("attest", bundle, file).status == 1
    with Bundle.open(bundle) as opened:
        problems = {id: opened.variant(id).problem for id in opened.variant_ids()}
    suspects = {id for id, problem in problems.items() if all(problem.get(k, v) == v for k, v in facts.items())}
    failed = {id for id, item in device_evidence(bundle).items() if item["device"] == "fail"}
    assert failed == suspects != set()


VAGUE = {
    "a device without a name": (lambda d: d["device"].update(name=" "), "device: name"),
    "no address": (lambda d: d["device"].update(pci_address=None), "device: pci_address"),
    "targets that the device is none of": (lambda d: d["targets"].append("nope"), "targets: nope"),
    "another family": (lambda d: first(d).update(family="nope"), "family: 'nope'"),
    "graphs alone": (
        lambda d: first(d).update(
            checks=(left := [c for c in first(d)["checks"] if c["how"] == "graph"]),
            **figures([Check(**{**c, "rows": tuple(c["rows"])}) for c in left]),
        ),
        "passed on graph alone",
    ),
    "a case told twice": (
        lambda d: first(d).update(
            checks=(twice := first(d)["checks"] * 2),
            **figures([Check(**{**c, "rows": tuple(c["rows"])}) for c in twice]),
        ),
        "told twice",
    ),
}


@pytest.mark.parametrize("name", VAGUE)
def test_evidence_that_does_not_say_which_device_ran_what_is_refused(assay, bundle, written, name):
    change, said = VAGUE[name]
    before = Path(bundle).read_bytes()
    ran = assay("attest", bundle, written(change))
    assert ran.status == 2
    assert said in ran.said
    assert Path(bundle).read_bytes() == before
