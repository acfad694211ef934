"""What devices have attested stays with the very same bundle, and with no other."""

import json

import pytest

from assay.bundle import Bundle, attach_evidence
from assay.qualify import run
from tests.specs import TEMPLATE, TOY, copy_toy, edit

DEVICE = {
    "device": {"schema": "assay.evidence/1", "level": "device", "variants": {}},
    "device-run/0123456789abcdef": {"schema": "assay.device-run/1", "evidence": {}},
}


def attest(bundle):
    attach_evidence(bundle, {name: json.dumps(document).encode() for name, document in DEVICE.items()})


def names(bundle):
    with Bundle.open(bundle) as opened:
        return {name: opened.evidence(name) for name in opened.evidence_names() if name.startswith("device")}


def test_building_the_same_again_keeps_what_was_attested(assay, out):
    attest(out.bundle)
    assert assay("qualify", "--target", "gfx1201", "--specs", TOY, "--out", out.out).status == 0
    assert names(out.bundle) == DEVICE
    assert assay("verify", out.bundle).status == 0


def test_another_bundle_does_not_inherit_it(assay, out, tmp_path):
    attest(out.bundle)
    specs = copy_toy(tmp_path / "specs")
    edit(specs, TEMPLATE, "import triton\n", "import triton\n\n# Another source, another bundle.\n")
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out, "--update-lock")
    assert ran.status == 0, ran.err
    assert names(out.bundle) == {}


@pytest.fixture
def places(monkeypatch, tmp_path):
    """A folder to stand in, with a file, a link to nothing and a folder where a bundle would go."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    (tmp_path / "taken" / "gfx1201" / "gfx1201.assay").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "file"), "--out: file/gfx1201: file is a file; allowed: a folder to write to, or to be made"),
        (("--out", "file/deeper"), "--out: file/deeper/gfx1201: file is a file; allowed: "),
        (("--out", "link"), "--out: link/gfx1201: link is a link to what is not there; allowed: "),
        (("--out", "taken"), "--out: taken/gfx1201/gfx1201.assay: a folder; allowed: the name of a file"),
        (("--out", "a" * 300), "a name too long for the file system; allowed: a shorter one"),
        (
            ("--out", "o", "--update-lock", "--lock", "o/gfx1201/report.json"),
            "--lock: o/gfx1201/report.json: the name of what --out gets: report.json; allowed: a file of its own",
        ),
        (("--update-lock", "--lock", "file/lock"), "--lock: file: file is a file; allowed: "),
        (("--update-lock", "--lock", "taken"), "--lock: taken: a folder; allowed: the name of a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_3_before_anything_is_compiled(assay, places, monkeypatch, options, said):
    monkeypatch.setattr(run, "Builder", None)
    ran = assay("qualify", "--target", "gfx1201", "--specs", TOY, *options)
    assert (ran.status, ran.out) == (3, "")
    assert said in ran.said
    assert sorted(path.name for path in places.iterdir()) == ["file", "link", "taken"]


def test_where_nothing_is_written_the_place_does_not_matter(assay, places, built):
    options = ("--check", "--lock", built("gfx1201").lock)
    assert assay("qualify", "--target", "gfx1201", "--specs", TOY, "--out", places / "file", *options).status == 0
