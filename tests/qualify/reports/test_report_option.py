"""`--report`: which files are written, and when."""

import json
import os
import subprocess
import sys

import pytest

from assay.bundle import Bundle
from tests.specs import FAMILY, TOY, copy_toy, edit

FILES = {
    "json": "report.only.json",
    "junit": "junit.only.xml",
    "sarif": "report.only.sarif",
    "md": "report.only.md",
    "html": "report.only.html",
}
ALL = ",".join(FILES)


@pytest.fixture
def qualify(assay, tmp_path):
    def run(*options, specs=TOY):
        only = ("--only", "width=64,alignment=16")
        return assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", *only, *options)

    return run


@pytest.fixture
def written(tmp_path):
    def names():
        folder = tmp_path / "out/gfx1201"
        return {path.name for path in folder.iterdir()} & set(FILES.values()) if folder.exists() else set()

    return names


def test_json_alone_is_the_default(qualify, written):
    assert qualify("--update-lock").status == 0
    assert written() == {"report.only.json"}


@pytest.mark.parametrize("names", [ALL, "html,md", " junit , sarif ", "md,md"])
def test_those_asked_for_are_written_and_no_others(qualify, written, names):
    ran = qualify("--update-lock", "--report", names)
    assert ran.status == 0
    expected = {FILES[name.strip()] for name in names.split(",")}
    assert written() == expected
    assert all(f"/{file}" in ran.text for file in expected)


@pytest.mark.parametrize(
    ("names", "wrong", "hint"),
    [("jnuit", "jnuit", "did you mean junit?"), ("json,xml", "xml", ""), ("", "", ""), ("md,", "", "")],
)
def test_an_unknown_report_is_bad_usage_that_names_the_known(qualify, tmp_path, names, wrong, hint):
    ran = qualify("--report", names)
    assert (ran.status, ran.out) == (2, "")
    assert f"{wrong!r} is not a report; allowed: json, junit, sarif, md, html" in ran.said
    assert hint in ran.said
    assert not (tmp_path / "out").exists()


def test_check_writes_none(qualify, tmp_path):
    assert qualify("--check", "--report", ALL).status == 1
    assert not (tmp_path / "out").exists()


def test_a_failed_run_writes_all_of_them(qualify, written, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {vgpr_count: 1}\n\ntolerance:\n")
    assert qualify("--report", ALL, specs=specs).status == 1
    assert written() == set(FILES.values())
    assert json.loads((tmp_path / "out/gfx1201/report.only.json").read_text())["verdict"] == "failed"


def test_a_run_that_differs_from_the_lock_alone_writes_all_of_them(qualify, written, tmp_path):
    assert qualify("--report", ALL).status == 1
    assert written() == set(FILES.values())
    document = json.loads((tmp_path / "out/gfx1201/report.only.json").read_text())
    assert {problem["verdict"] for problem in document["problems"]} == {"qualified"}
    assert {change["kind"] for change in document["lock_changes"]} == {"new"}


def test_reports_are_the_same_bytes_when_nothing_changed(qualify, tmp_path):
    folder = tmp_path / "out/gfx1201"
    qualify("--update-lock")  # now all is in the cache: junit.xml has the seconds of what is compiled
    qualify("--report", ALL)
    before = {file: (folder / file).read_bytes() for file in FILES.values()}
    qualify("--report", ALL)
    assert {file: (folder / file).read_bytes() for file in FILES.values()} == before


def test_report_json_says_of_what_it_is_and_what_came_of_it(qualify, tmp_path):
    folder = tmp_path / "out/gfx1201"
    lock, bundle = folder / "qualified.core.lock", folder / "gfx1201.only.assay"

    def told(*options, specs=TOY):
        ran = qualify("--json", *options, specs=specs)
        if "--check" not in options:
            assert ran.document == json.loads((folder / "report.only.json").read_text())
        document = ran.document
        assert (document["profile"], document["only"]) == ("core", {"width": ["64"], "alignment": ["16"]})
        assert (document["lock"].pop("path"), document["evidence"]) == (str(lock), ["static"])
        return document["outcome"], document["lock"]["state"], document["bundle"]

    assert told() == ("lock_differs", "missing", None)
    outcome, state, written = told("--update-lock")
    assert (outcome, state, written["path"]) == ("qualified", "updated", str(bundle))
    with Bundle.open(bundle) as opened:
        assert written["identity"] == opened.identity
    assert told() == ("qualified", "matches", written)
    assert told("--check") == ("qualified", "matches", None)

    good = lock.read_text()
    lock.write_text(good.replace("vgpr_count=", "vgpr_count=1", 1))
    assert told() == ("lock_differs", "differs", None)
    lock.write_text(good.replace("triton 3.", "triton 2."))
    assert told() == ("other_compiler_build", "other_compiler_build", None)
    lock.write_text(good.replace("target gfx1201", "target gfx1200"))
    assert told() == ("lock_differs", "of_another", None)
    lock.write_text("garbage")
    assert told() == ("lock_differs", "unreadable", None)
    lock.write_text(good)
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {code_bytes: 1}\n\ntolerance:\n")
    assert told(specs=specs) == ("not_qualified", "not_compared", None)
    assert told("--update-lock", specs=specs) == ("not_qualified", "not_compared", None)


def test_the_report_of_a_whole_profile_says_that_nothing_was_left_out(built):
    document = json.loads((built("gfx1201").folder / "report.json").read_text())
    assert (document["only"], document["outcome"], document["lock"]["state"]) == (None, "qualified", "updated")


def test_no_report_of_a_part_reads_like_the_whole(qualify, tmp_path):
    qualify("--update-lock", "--report", ALL)
    folder = tmp_path / "out/gfx1201"
    assert (folder / "report.only.md").read_text().startswith("## assay gfx1201, a part of core: QUALIFIED\n")
    assert "<title>assay gfx1201, a part of core: QUALIFIED</title>" in (folder / "report.only.html").read_text()
    assert 'name="assay qualify gfx1201 core.only"' in (folder / "junit.only.xml").read_text()


def test_a_path_that_is_no_utf_8_is_told_as_well_as_it_can_be(tmp_path, compile_cache):  # noqa: ARG001
    """The program's own output is what cannot hold it."""
    out = os.fsencode(tmp_path) + b"/out\xff"
    arguments = ["--target", "gfx1201", "--specs", TOY, "--only", "width=96", "--json", "--update-lock", "--out", out]
    program = "from assay.qualify.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "qualify", *arguments], capture_output=True, check=True)
    assert json.loads(done.stdout)["bundle"]["path"] == f"{tmp_path}/out\ufffd/gfx1201/gfx1201.only.assay"


def test_a_report_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(qualify, tmp_path):
    folder = tmp_path / "out/gfx1201"
    qualify("--update-lock", "--report", "md")
    before = sorted(path.name for path in folder.iterdir())
    (folder / "report.only.html").mkdir()
    ran = qualify("--report", "html")
    assert ran.status == 3
    assert "report.only.html" in ran.said
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "report.only.html"])
