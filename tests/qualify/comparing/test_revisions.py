"""Revisions are built from worktrees of their own by what they hold, and nothing of that is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.qualify.comparing import building
from assay.qualify.comparing.errors import BuildEnvironmentError, CompareError
from assay.qualify.comparing.trees import Recipe, Tree
from tests.specs import FAMILY, TEMPLATE, edit

STATEMENT = ("values.to(tl.float32) * factor", "values.to(tl.float32) * factor + 1.0")
COMMENT = (
    "    columns = tl.arange(0, BLOCK)\n",
    "    # Of one row.\n{# two kinds of comment, and lines that move #}\n\n    columns = tl.arange(0, BLOCK)\n",
)
RECIPE = Recipe("core", {}, 1, Path("specs"))
OPTIONS = ("--specs", "specs", "--target", "gfx1201", "--part", "x_dtype=f16,width=64")


@pytest.fixture
def untouched(repository, tmp_path):
    """The repository; afterwards it has one worktree, and the temporary folder is empty."""
    yield repository
    assert repository.worktrees() == 1
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_comment_in_a_template_is_no_difference(assay, untouched):
    edit(untouched.specs, TEMPLATE, *COMMENT)
    untouched.commit("a comment")
    ran = assay("compare", "first..HEAD", *OPTIONS, "--json")
    assert ran.status == 0, ran.err
    assert ran.document["counts"]["levels"] == {"identical_bytes": 2}
    assert [pair["notes"][0]["name"] for pair in ran.document["pairs"]] == ["source", "source"]
    assert [(side["name"], side["kind"]) for side in ran.document["sides"]] == [
        ("first", "revision"),
        ("HEAD", "revision"),
    ]


def test_one_line_of_a_template_is_one_in_every_variant_of_the_family(assay, untouched):
    edit(untouched.specs, TEMPLATE, *STATEMENT)
    untouched.commit("one more")
    ran = assay("compare", "first", "HEAD", *OPTIONS)
    assert ran.status == 1
    assert "scale on gfx1201: 2 of 2 differ" in ran.text
    assert "[1/2] first gfx1201: ok scale" in ran.err


@pytest.mark.slow
def test_the_working_tree_is_what_lies_there_and_a_bundle_may_be_the_other_side(assay, untouched, tmp_path):
    options = ("--specs", untouched.specs, "--evidence", "static", "--update-lock")
    assert assay("qualify", "--target", "gfx1201", "--out", tmp_path / "out", *options).status == 0
    bundle = tmp_path / "out" / "gfx1201" / "gfx1201.assay"
    edit(untouched.specs, TEMPLATE, *STATEMENT)
    assert assay("compare", "HEAD", ".", *OPTIONS).status == 1
    assert assay("compare", bundle, "HEAD", *OPTIONS).status == 0
    assert assay("compare", bundle, ".", *OPTIONS[:2]).status == 1


@pytest.mark.slow
def test_three_dots_begin_where_both_parted(assay, untouched):
    untouched.git("checkout", "--quiet", "-b", "side")
    edit(untouched.specs, TEMPLATE, *COMMENT)
    untouched.commit("a comment")
    untouched.git("checkout", "--quiet", "main")
    edit(untouched.specs, TEMPLATE, *STATEMENT)
    untouched.commit("one more")
    assert assay("compare", "main...side", *OPTIONS).status == 0
    assert assay("compare", "main..side", *OPTIONS).status == 1


@pytest.mark.usefixtures("untouched")
def test_a_rule_is_checked_before_anything_is_built(assay, monkeypatch):
    monkeypatch.setattr("assay.qualify.comparing.sides.build", lambda *_: pytest.fail("built"))
    ran = assay("compare", "first", "HEAD", *OPTIONS, "--only", "width=65")
    assert ran.status == 2
    assert "width=65: no such value; allowed: 64" in ran.said


@pytest.mark.slow
def test_a_part_that_one_side_does_not_know_is_new_there(assay, untouched):
    edit(untouched.specs, FAMILY, "values: [64, 96]", "values: [64, 96, 128]")
    untouched.commit("wider")
    ran = assay("compare", "first..HEAD", *OPTIONS[:4], "--part", "x_dtype=f16,width=128,width=64", "--json")
    assert (ran.status, ran.document["counts"]["new"], ran.document["counts"]["pairs"]) == (1, 2, 2)


@pytest.mark.slow
def test_a_target_that_one_side_does_not_know_is_new_there(assay, untouched):
    text = (untouched.specs / "targets" / "gfx1201.yaml").read_text()
    (untouched.specs / "targets" / "gfx1200.yaml").write_text(text.replace("gfx1201", "gfx1200"))
    untouched.commit("gfx1200")
    part = ("--part", "x_dtype=f16,width=64,alignment=16")
    options = (*OPTIONS[:2], "--target", "gfx1200", "--target", "gfx1201", *part)
    ran = assay("compare", "first..HEAD", *options, "--json")
    assert (ran.status, ran.document["counts"]["new"], ran.document["counts"]["pairs"]) == (1, 1, 1)


@pytest.mark.slow
def test_targets_are_those_with_a_committed_lock(assay, untouched):
    (untouched.top / "artifacts" / "gfx1201").mkdir(parents=True)
    (untouched.top / "artifacts" / "gfx1201" / "qualified.core.lock").write_text("any")
    untouched.commit("a lock")
    options = (*OPTIONS[:2], "--part", "x_dtype=f16,width=64,alignment=16", "--json")
    assert [list(side["toolchains"]) for side in assay("compare", "first..HEAD", *options).document["sides"]] == [
        ["gfx1201"],
        ["gfx1201"],
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (TEMPLATE, "tl.program_id(0)", "tl.no_such(0)", "does not build: gfx1201 core (a part: --only): NOT QUALIFIED"),
        (FAMILY, "family: scale", "famly: scale", "did you mean family?"),
    ],
)
def test_a_revision_that_does_not_build_is_bad_input(assay, untouched, file, old, new, said):
    edit(untouched.specs, file, old, new)
    untouched.commit("broken")
    ran = assay("compare", "first..HEAD", *OPTIONS)
    assert ran.status == 2
    assert said in ran.said
    assert "HEAD: " in ran.said


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (["frist", "HEAD"], "frist: is no file, and no revision of"),
        (["frist", "HEAD"], "did you mean first?"),
        (["first..nothing"], "nothing: is no file, and no revision"),
        (["HEAD"], "two sides, or REV..REV"),
        ([".."], "two sides, or REV..REV"),
        (["..."], "two sides, or REV..REV"),
        (["HEAD", "specs"], "specs: is a folder"),
    ],
)
def test_what_is_no_revision_is_bad_input(assay, sides, said):
    ran = assay("compare", *sides, *OPTIONS)
    assert ran.status == 2
    assert said in ran.said


@pytest.mark.usefixtures("untouched")
def test_a_repository_without_specs_is_bad_input(assay):
    ran = assay("compare", "first", "HEAD", "--target", "gfx1201")
    assert ran.status == 2
    assert "first: kernel_specs: holds no specs" in ran.said


@pytest.mark.parametrize("name", ["{specs}", "../repository/specs", "specs/../specs"])
def test_specs_outside_of_the_revision_are_bad_input(assay, untouched, name):
    """One folder for both sides would make any two revisions equal."""
    edit(untouched.specs, TEMPLATE, *STATEMENT)
    untouched.commit("one more")
    specs = name.format(specs=untouched.specs)
    ran = assay("compare", "first", "HEAD", "--specs", specs, *OPTIONS[2:])
    assert ran.status == 2
    assert "leads out of the revision" in ran.said


def test_where_there_is_no_room_for_a_worktree_it_is_the_environment(assay, untouched, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "/somewhere")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", full)
        ran = assay("compare", "first", "HEAD", *OPTIONS)
    assert ran.status == 3
    assert "No space left on device" in ran.said
    assert untouched.worktrees() == 1


def test_a_build_that_fails_for_another_reason_is_the_environments(assay, untouched, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(untouched.top / "specs" / "families" / "scale.yaml"))
    ran = assay("compare", "first", "HEAD", *OPTIONS)
    assert ran.status == 3
    assert "could not be built (status 3)" in ran.said


@pytest.mark.usefixtures("untouched")
def test_an_interrupt_leaves_no_worktree_and_no_build(assay, monkeypatch):
    monkeypatch.setattr(building, "_PROGRESS", _Interrupting())
    assert assay("compare", "first", "HEAD", *OPTIONS).status == 130


class _Interrupting:
    """As if a person pressed ^C at the first line of a build."""

    def match(self, _):
        raise KeyboardInterrupt


def test_a_build_prints_lines_where_ci_asks_for_colours(tmp_path, monkeypatch):
    """With a bar instead, its progress and its last message could not be read."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = building.child_environment(tmp_path)
    assert "FORCE_COLOR" not in environment
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "/elsewhere"]


def test_a_build_that_is_killed_names_the_signal(repository):
    tree = Tree("HEAD", "", repository.top, RECIPE)
    error = building._failure(tree, "gfx1201", -9, [])
    assert isinstance(error, BuildEnvironmentError)
    assert "SIGKILL" in str(error)


@pytest.mark.slow
def test_a_hooks_variables_and_hooks_change_nothing(assay, untouched, monkeypatch, tmp_path):
    """A pre-commit hook is run with GIT_DIR and GIT_INDEX_FILE of its own repository."""
    hook = untouched.top / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert assay("compare", "first", "HEAD", *OPTIONS).status == 0
    assert not (tmp_path / "ran").exists()


def test_a_tree_that_carries_assay_is_built_by_its_own_code(repository):
    """A tree whose command line says who it is: what runs must be it, though another assay is installed."""
    package = repository.top / "qualify"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "entry.py").write_text(
        "import sys\ndef main():\n    print('own code', sys.argv[1], file=sys.stderr)\n    sys.exit(2)\n"
    )
    tree = Tree("HEAD", "", repository.top, RECIPE)
    assert tree.carries_assay
    with pytest.raises(CompareError, match="own code plan"):
        building.planned(tree, ["gfx1201"])


def test_another_assay_on_the_path_is_never_taken_for_the_revision(tmp_path):
    """What the launcher refuses: an `assay` that does not lie in the tree."""
    done = subprocess.run(
        [sys.executable, "-c", building._LAUNCH, str(tmp_path), "doctor"],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "not with what lies in" in done.stderr


@pytest.mark.parametrize("signal_sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_build_leaves_nothing(untouched, compile_cache, signal_sent):
    """The process alone is told, as a CI runner does; what it started must end too, before the folders go."""
    command = [sys.executable, "-c", "from assay.qualify.entry import main; main()", "compare", "first", "HEAD"]
    process = subprocess.Popen(
        [*command, *OPTIONS],
        cwd=untouched.top,
        env={**os.environ, "ASSAY_CACHE_DIR": str(compile_cache)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "ok scale" in process.stderr.readline()
    process.send_signal(signal_sent)
    out, said = process.communicate(timeout=120)
    assert process.returncode == (130 if signal_sent == signal.SIGINT else 128 + signal_sent)
    assert "Traceback" not in said
    assert out == ""


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_a_lock_is_compared_with_what_a_revision_builds(assay, built):
    ran = assay("compare", built("gfx1201").lock, "HEAD", *OPTIONS)
    assert ran.status == 0
    assert "same figures 2" in ran.text
