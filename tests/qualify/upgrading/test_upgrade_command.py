"""`assay upgrade` end to end: usage, environments that cannot be made, sides that crash, and whole comparisons."""

import functools
import json
import sys
from pathlib import Path

import pytest

from assay.qualify.upgrading import running
from assay.qualify.upgrading.building import BuildFailed, BuildRequest, build
from assay.qualify.upgrading.environments import CompilerEnvironment, linked_packages
from tests.qualify.upgrading.wheels import BROKEN, borrowing_wheel, hollow_wheel, make_wheel
from tests.specs import TOY, run

TWO = ("--triton", "3.8.0", "--triton", "3.9.0")


@pytest.fixture
def no_environment(monkeypatch):
    """What is wrong must show before any environment is made."""
    monkeypatch.setattr(running, "compiler_environment", None)


@pytest.fixture
def assay(capsys, compile_cache):  # noqa: ARG001 - a cache of this session
    return functools.partial(run, capsys)


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Missing option '--triton'"),
        (("--triton", "3.8.0"), "--triton 3.8.0 alone; allowed: at least two versions"),
        (("--triton", "3.8", "--triton", "3.8.0"), "--triton names a version twice"),
        (("--triton", "3.8.0", "--triton", "newest"), "'newest' is not a version; allowed: one such as 3.9.0"),
        ((*TWO, "--target", "gfx1202"), "did you mean gfx1201?"),
        ((*TWO, "--profile", "cor"), "did you mean core?"),
        ((*TWO, "--target", "gfx1201", "--only", "widht=64"), "did you mean width?"),
        ((*TWO, "--report", "nowhere/report.md"), "no such folder as nowhere"),
        ((*TWO, "--out", __file__), "is a file; allowed: a folder to write to, or to be made"),
        ((*TWO, "--out", f"{__file__}/out"), "is a file; allowed: a folder to write to, or to be made"),
        ((*TWO, "--evidence", "device"), "'device' is not one of"),
    ],
)
def test_wrong_usage_is_refused_at_once(assay, arguments, expected):
    ran = assay("upgrade", "--specs", TOY, *arguments)
    assert ran.status == 2
    assert expected in ran.said


@pytest.mark.slow
def test_every_version_that_cannot_be_installed_is_told(assay, wheels, monkeypatch):  # noqa: ARG001 - where pip looks
    monkeypatch.setattr(running, "pinned_requirements", lambda: ())
    ran = assay("upgrade", "--specs", TOY, "--target", "sm90", "--triton", "8.8", "--triton", "9.9")
    assert ran.status == 3
    for version in ("8.8", "9.9"):
        assert f"triton {version}: cannot be installed: ERROR: Could not find a version" in ran.said


def request_for(tmp_path, **changes):
    fields = {"profile": "core", "specs": TOY, "only": {}, "evidence": ("static",), "jobs": 1, "time_limit": 60.0}
    return BuildRequest(**fields | {"cache": tmp_path / "cache"} | changes)


@pytest.fixture
def ours(tmp_path):
    """The environment of this process as if it were a compiler's own."""
    (tmp_path / "own" / "bin").mkdir(parents=True)
    (tmp_path / "own" / "bin" / "python").symlink_to(sys.executable)
    environment = CompilerEnvironment("3.8.0", tmp_path / "own")
    # The link alone would be another interpreter than the virtual environment's.
    environment.python.unlink()
    environment.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    environment.python.chmod(0o755)
    return environment


@pytest.fixture
def links(tmp_path):
    return linked_packages(tmp_path / "links")


def test_a_side_that_ends_without_a_report_is_told_with_its_last_words(ours, links, tmp_path):
    missing = request_for(tmp_path, specs=tmp_path / "nowhere")
    with pytest.raises(BuildFailed) as caught:
        build(ours, "gfx1201", missing, links, tmp_path / "out", lambda _: None)
    said = [str(fault) for fault in caught.value.faults]
    assert said[0] == "triton 3.8.0 on gfx1201: `assay qualify` ended with status 2 without a report"
    assert "no such directory" in said[-1]


def test_progress_of_a_side_is_passed_on_and_what_was_left_there_before_is_not_read(ours, links, tmp_path):
    folder = tmp_path / "out" / "gfx1201"
    folder.mkdir(parents=True)
    (folder / "report.other.json").write_text("{}")
    totals, lines = [], []

    def progress(total):
        totals.append(total)
        return lines.append

    only = {"x_dtype": ("f16",), "width": ("96",), "alignment": ("16",)}
    report = build(ours, "gfx1201", request_for(tmp_path, only=only), links, tmp_path / "out", progress)
    assert report["verdict"] == "qualified"
    assert report["workarounds"] == []
    assert totals == [1]
    assert lines[0].startswith("ok scale x_dtype=f16 width=96")


@pytest.fixture
def compilers(tmp_path, monkeypatch):
    """Four versions: two of this process's own compiler, one that compiles nothing, one that cannot be imported."""
    borrowing_wheel(tmp_path, "1.0")
    borrowing_wheel(tmp_path, "1.1")
    hollow_wheel(tmp_path, "1.2")
    make_wheel(tmp_path, "1.3", {"triton/__init__.py": BROKEN})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(running, "pinned_requirements", lambda: ())


@pytest.mark.slow
@pytest.mark.usefixtures("compilers")
def test_versions_are_built_and_compared_whatever_they_are(assay, tmp_path):
    versions = [item for number in range(4) for item in ("--triton", f"1.{number}")]
    page = tmp_path / "page.md"
    arguments = ("--specs", TOY, "--target", "gfx1201", "--evidence", "static", "--only", "width=96")
    ran = assay("upgrade", *versions, *arguments, "--report", page, "--json", "--out", tmp_path / "kept")
    assert ran.status == 1, ran.err
    same, hollow, broken = ran.document["upgrades"]
    assert same["harmless"]
    assert {kind for kind, count in same["targets"][0]["rows"].items() if count} == {"same"}
    assert same["targets"][0]["ir"]["ir_equal"] == same["targets"][0]["ir"]["candidates"] > 0
    for upgrade in (hollow, broken):
        assert not upgrade["harmless"]
        assert upgrade["targets"][0]["rows"]["lost"] == same["targets"][0]["rows"]["same"]
    reason = hollow["targets"][0]["changes"][0]["reason"]
    assert "compile error" in reason
    assert "no such pass" in reason
    assert (
        broken["targets"][0]["after"]["unusable"] == "cannot be imported: ImportError: libtriton.so: undefined symbol"
    )
    hashes = {same["targets"][0][side]["toolchain"]["triton_wheel_sha256"] for side in ("before", "after")}
    assert len(hashes) == 2
    assert "may upgrade: nothing lost, nothing worse" in page.read_text()
    assert json.loads(Path(tmp_path / "kept/triton-1.1/gfx1201/report.only.json").read_text())["verdict"] == "qualified"
