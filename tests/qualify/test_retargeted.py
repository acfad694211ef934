"""Evidence of level retargeted: of the bundle whose companion ran, for what ran, and never of a higher level."""

import json
import shutil

import pytest

from assay.bundle import Bundle, write_bundle
from assay.bundle.records import COMPANION_SCHEMA
from assay.qualify import bundling
from assay.qualify.device.evidence import read_evidence
from assay.qualify.evidence_summary import summarise_evidence
from tests.qualify import standin_device

REWRITTEN = {"add.f32x2": 2, "max.f32 of three": 7}
# The stand-in runs gfx1201's own code objects; that they were re-assembled for gfx1200 is only what the files say.
ELSEWHERE = "gfx1200"


@pytest.fixture(scope="module")
def companion(shipped, tmp_path_factory):
    """The shipped bundle as a companion of itself."""
    contents, identity = bundling._read(shipped).contents, bundling._read(shipped).identity
    variants = {item.id: {"code_sha256": item.code_sha256, "rewritten": REWRITTEN} for item in contents.variants}
    said = {"of": identity, "target": ELSEWHERE, "arch": ELSEWHERE, "variants": variants}
    path = tmp_path_factory.mktemp("companion") / "x.companion"
    manifest = contents.manifest._replace(companion=said, schema=COMPANION_SCHEMA)
    write_bundle(path, contents._replace(manifest=manifest, evidence={}))
    return path


@pytest.fixture(scope="module")
def ran(companion, tmp_path_factory):
    """What a run of the companion wrote; copy it to change it."""
    path = tmp_path_factory.mktemp("evidence") / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        standin_device.shorten(patch, cases=1)
        assert standin_device.run(companion, path, retarget=True) == 0
    document = json.loads(path.read_text())
    document["device"]["arch"] = ELSEWHERE
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def bundle(shipped, tmp_path):
    return shutil.copy(shipped, tmp_path / "x.assay")


@pytest.fixture
def written(ran, tmp_path):
    def write(change):
        document = json.loads(ran.read_text())
        change(document)
        (tmp_path / "changed.json").write_text(json.dumps(document))
        return tmp_path / "changed.json"

    return write


def first(document):
    return next(iter(document["variants"].values()))


def evidence_of(path, level):
    with Bundle.open(path) as opened:
        return opened.evidence(level)["variants"]


def test_the_evidence_is_of_the_bundle_and_says_what_ran_in_its_place(shipped, companion, ran):
    document = json.loads(ran.read_text())
    with Bundle.open(shipped) as bundle, Bundle.open(companion, companion=True) as opened:
        assert document["bundle"] == {"identity": bundle.identity}
        assert document["companion"]["identity"] == opened.identity != bundle.identity
        assert (document["level"], document["companion"]["arch"]) == ("retargeted", ELSEWHERE)
        assert document["variants"].keys() == set(bundle.variant_ids())
        for id, item in document["variants"].items():
            assert item["code_sha256"] == bundle.variant(id).code_sha256
            assert item["companion_sha256"] == opened.variant(id).code_sha256
            assert (item["retargeted"], item["rewritten"]) == ("pass", REWRITTEN)
            assert "device" not in item
    assert read_evidence(ran).level == "retargeted"


def test_attested_it_is_evidence_of_its_own_level_alone(assay, bundle, ran):
    attested = assay("attest", bundle, ran)
    assert attested.status == 0, attested.text
    assert "static: 4 pass, 0 without\nretargeted: 4 pass, 0 without" in attested.out
    assert "1 retargeted runs attested" in attested.out
    for item in evidence_of(bundle, "retargeted").values():
        assert item["retargeted"] == "pass"
        assert item["rewritten"] == {ELSEWHERE: REWRITTEN}
    with Bundle.open(bundle) as opened:
        assert "device" not in opened.evidence_names()
        assert summarise_evidence(opened).passed == {"static": 4, "retargeted": 4}
    verified = assay("verify", bundle)
    assert verified.status == 0
    assert "evidence static, retargeted" in verified.out
    facts = ("head_dim=64", "sinks=true", "out_dtype=bf16", "splits=4")
    explained = assay("explain", bundle, "merge_splits", *facts)
    assert "; evidence static pass, retargeted pass" in explained.out
    told = assay("explain", bundle, "merge_splits", *facts, "--json").document
    assert list(told["evidence"].values()) == [{"static": "pass", "retargeted": "pass"}]


def test_device_evidence_stands_beside_it_as_the_higher(assay, shipped, bundle, ran, tmp_path, monkeypatch):
    standin_device.shorten(monkeypatch, cases=1)
    assert standin_device.run(shipped, tmp_path / "device.json", only={"family": ("merge_splits",)}) == 0
    for files in ((ran,), (tmp_path / "device.json",)):
        assert assay("attest", bundle, *files).status == 0
    assert len(evidence_of(bundle, "device")) == 2
    assert len(evidence_of(bundle, "retargeted")) == 4
    with Bundle.open(bundle) as opened:
        assert list(summarise_evidence(opened).passed) == ["static", "retargeted", "device"]
    again = bundle.read_bytes()
    assert assay("attest", bundle, tmp_path / "device.json", ran).status == 0
    assert bundle.read_bytes() == again


def test_a_failure_of_the_companion_keeps_the_variant_from_shipping(assay, bundle, written):
    def change(document):
        first(document)["checks"][0].update(verdict="fail", fault="out: 1 of 2 elements wrong")
        first(document).update(retargeted="fail")
        document["verdict"] = "fail"

    attested = assay("attest", bundle, written(change))
    assert attested.status == 1
    assert f"re-assembled for {ELSEWHERE}: out: 1 of 2 elements wrong" in attested.out
    assert assay("wheel", bundle).status == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["bundle"].update(identity="0" * 64), "of another bundle, or of another build"),
        (lambda d: first(d).update(code_sha256="0" * 64), "the companion is of another build"),
        (lambda d: first(d).pop("code_sha256"), "code_sha256: is missing"),
        (lambda d: first(d).update(companion_sha256=None), "companion_sha256: None; allowed: str"),
        (lambda d: first(d).update(rewritten=[]), "rewritten: []; allowed: dict"),
        (lambda d: d.pop("companion"), "companion: NoneType; allowed: an object"),
        (lambda d: d["companion"].pop("arch"), "companion: arch: is missing"),
        (lambda d: d["device"].update(arch="gfx1201"), "re-assembled code ran on (hip, gfx1201)"),
        (lambda d: d["device"].update(backend="cuda"), "re-assembled code ran on (cuda, gfx1200)"),
        (lambda d: d.update(level="device"), "device: is missing; allowed: str"),
        (lambda d: d["variants"].update({"0" * 16: first(d)}), "0000000000000000"),
        (lambda d: d["device"].update(name=""), "device: name"),
    ],
)
def test_what_is_foreign_or_tampered_with_is_refused(assay, bundle, written, change, said):
    before = bundle.read_bytes()
    attested = assay("attest", bundle, written(change))
    assert attested.status == 2
    assert said in attested.said
    assert bundle.read_bytes() == before


def test_the_flag_must_fit_the_file(assay, shipped, companion):
    wrong = assay("qualify-device", companion)
    assert wrong.status == 2
    assert "give --retarget: its evidence is of level retargeted" in wrong.said
    wrong = assay("qualify-device", shipped, "--retarget")
    assert wrong.status == 2
    assert "is a bundle; allowed: a companion of one; assay retarget BUNDLE --for TARGET" in wrong.said


def test_without_the_device_it_is_not_run_and_the_json_has_every_check(assay, companion):
    ran = assay("qualify-device", companion, "--retarget", "--device", "cuda:99", "--json")
    assert ran.status == 4
    document = ran.document
    assert (document["level"], document["verdict"], document["evidence"]) == ("retargeted", "not_run", None)
    assert {item["retargeted"] for item in document["variants"].values()} == {"not_run"}
    assert all(len(item["checks"]) == 2 for item in document["variants"].values())


def test_qualify_says_how_it_is_made(assay):
    ran = assay("qualify", "--target", "gfx1201", "--evidence", "retargeted", "--evidence", "device")
    assert ran.status == 4
    for command in ("assay retarget BUNDLE", "assay qualify-device COMPANION --retarget", "assay attest BUNDLE"):
        assert command in ran.said
    assert "evidence 'device': cannot be produced here" in ran.said


def test_a_build_of_the_same_bundle_keeps_it(assay, shipped, ran, tmp_path):
    shutil.copytree(shipped.parent.parent, tmp_path / "out")
    path = tmp_path / "out" / "gfx1201" / shipped.name
    assert assay("attest", path, ran).status == 0
    families = "family=decode_attention,family=merge_splits"
    only = f"{families},head_dim=64,block_m=4,kv_format=bf16,window=true,alignment=16,most_splits=128"
    arguments = ("--target", "gfx1201", "--evidence", "static", "--only", only, "--out", tmp_path / "out")
    assert assay("qualify", *arguments).status == 0
    assert len(evidence_of(path, "retargeted")) == 4
