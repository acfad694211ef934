"""A compiler's environment holds the compiler that was asked for, nothing of ours, and is made once and whole."""

import importlib.metadata
import json
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import assay.qualify
from assay.qualify.upgrading import environments
from assay.qualify.upgrading.building import why_unusable
from assay.qualify.upgrading.environments import (
    PACKAGES,
    EnvironmentFailed,
    compiler_environment,
    environment_key,
    linked_packages,
    scrubbed,
)
from assay.qualify.upgrading.requirements import pinned_requirements

ROOT = Path(__file__).parents[3]
LOOK = """
import importlib.metadata, json, os, sys, triton, assay.qualify
print(json.dumps({
    "path": sys.path, "variables": sorted(os.environ), "triton": importlib.metadata.version("triton"),
    "from": triton.__file__, "assay": assay.qualify.__file__, "assay_version": importlib.metadata.version("assay"),
    "click": importlib.util.find_spec("click") is not None,
}))
"""


def made(cache, version, said=None):
    return compiler_environment(version, (), cache, (said if said is not None else []).append)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    return linked_packages(tmp_path_factory.mktemp("links"))


@pytest.fixture(scope="module")
def first(wheels, cache):  # noqa: ARG001 - where pip looks
    return made(cache, "1.0")


@pytest.fixture(scope="module")
def seen(first, links):
    """What a process of the environment sees, started from a shell that is full of ours."""
    shell = {"PYTHONPATH": "/ours", "VIRTUAL_ENV": sys.prefix, "TRITON_CACHE_DIR": "/ours", "PIP_NO_INDEX": "1"}
    variables = {**scrubbed({**shell, "PATH": "/usr/bin:/bin"}), "PYTHONPATH": str(links)}
    done = subprocess.run([str(first.python), "-c", LOOK], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_compiler_is_the_one_asked_for(seen, first):
    assert seen["triton"] == "1.0"
    assert Path(seen["from"]).is_relative_to(first.folder)


def test_nothing_of_ours_is_on_its_path_but_the_links(seen, first, links):
    ours = {str(Path(path).resolve()) for path in sys.path if path} - {sys.base_prefix}
    standard = Path(sys.base_prefix).resolve()
    for path in filter(None, seen["path"]):
        known = Path(path).is_relative_to(first.folder) or Path(path) == links
        library = Path(path).resolve().is_relative_to(standard) and "site-packages" not in path
        assert known or library, path
        assert library or known or str(Path(path).resolve()) not in ours
    assert not seen["click"]


def test_the_shell_of_the_caller_does_not_reach_it_but_for_pip(seen):
    assert not {"VIRTUAL_ENV", "TRITON_CACHE_DIR"} & set(seen["variables"])
    assert "PIP_NO_INDEX" in seen["variables"]


def test_it_runs_our_assay(seen):
    assert Path(seen["assay"]).resolve() == Path(assay.qualify.__file__).resolve()
    assert seen["assay_version"] == importlib.metadata.version("assay")


def test_every_package_is_linked():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert {name.split(".")[1] for name in packages} == set(PACKAGES)


def test_an_environment_that_is_there_is_not_made_again(first, cache, monkeypatch):
    monkeypatch.setattr(environments, "_run", None)
    said = []
    assert made(cache, "1.0", said) == first
    assert said == []


@pytest.mark.slow
def test_a_half_made_environment_is_made_again(first, cache):
    junk = first.folder / "junk"
    (first.folder / "ready.json").unlink()
    junk.write_text("")
    again = made(cache, "1.0")
    assert again.python.exists()
    assert not junk.exists()
    assert (again.folder / "ready.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("left", [b"", b"{", b"[]", b"\xff", b'{"warnings": 3}', b'{"warnings": [3]}'])
def test_an_environment_whose_record_is_damaged_is_made_again(tmp_path, monkeypatch, left):
    """A power cut may leave the file that is written last without what was written into it."""
    calls = []

    def make(folder, *_):
        calls.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ready.json").write_text('{"warnings": ["yanked"]}')

    monkeypatch.setattr(environments, "_make", make)
    (made(tmp_path, "1.0").folder / "ready.json").write_bytes(left)
    assert made(tmp_path, "1.0").warnings == ("yanked",)
    assert len(calls) == 2


def test_a_version_that_is_not_served_is_refused_with_pips_reason(wheels, tmp_path):  # noqa: ARG001
    with pytest.raises(EnvironmentFailed) as caught:
        made(tmp_path, "9.9")
    (fault,) = caught.value.faults
    assert str(fault).startswith("triton 9.9: cannot be installed: ERROR: Could not find a version that satisfies")
    assert "1.0, 2.0" in str(fault)
    assert [path.suffix for path in (tmp_path / "compilers").iterdir()] == [".lock"]


def test_a_version_that_cannot_be_imported_says_why(wheels, cache, links):  # noqa: ARG001
    said = why_unusable(made(cache, "2.0"), links)
    assert said == "cannot be imported: ImportError: libtriton.so: undefined symbol"


def test_one_that_can_be_imported_has_nothing_against_it(first, links):
    assert why_unusable(first, links) == ""


def test_of_two_at_once_one_makes_it_and_the_other_waits(tmp_path, monkeypatch):
    makers, said = [], []

    def make(folder, *_):
        makers.append(folder)
        time.sleep(0.5)
        folder.mkdir()
        (folder / "ready.json").write_text('{"warnings": []}')

    monkeypatch.setattr(environments, "_make", make)
    found = []
    threads = [threading.Thread(target=lambda: found.append(made(tmp_path, "1.0", said))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(makers) == 1
    assert found[0] == found[1]
    assert sum("another process makes the environment" in line for line in said) == 1


YANKED = "WARNING: The candidate selected is a yanked version: 'triton'\nReason for being yanked: wrong code\n"


def test_a_yanked_version_is_told_each_time(tmp_path, monkeypatch):
    def run(_version, command):
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
        return YANKED

    monkeypatch.setattr(environments, "_run", run)
    for _ in range(2):
        assert made(tmp_path, "1.0").warnings == tuple(YANKED.splitlines())


def test_a_cache_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "compilers").write_text("")
    with pytest.raises(
        EnvironmentFailed, match="allowed: a folder with room; name another folder with ASSAY_CACHE_DIR"
    ):
        made(tmp_path, "1.0")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken: [Errno 101] Network is unreachable\n" * 3
            + "ERROR: Could not find a version that satisfies the requirement triton==3.9.0 (from versions: none)\n",
            ("[Errno 101] Network is unreachable", "from versions: none"),
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            ("[Errno 28] No space left on device",),
        ),
        ("Error: Command '[...ensurepip]' returned non-zero exit status 1.\n", ("ensurepip",)),
        ("", ("no reason was given",)),
    ],
)
def test_why_it_failed_is_said_in_pips_words(said, expected):
    reason = environments._reason(said)
    assert all(words in reason for words in expected)
    assert reason.count("Retrying") <= 1


def test_each_version_python_and_set_of_packages_has_a_folder_of_its_own(monkeypatch):
    keys = {environment_key(version, packages) for version in ("1.0", "2.0") for packages in ((), ("a==1",), ("a==2",))}
    monkeypatch.setattr(environments, "python_build", lambda: "CPython 3.99")
    assert len({*keys, environment_key("1.0", ())}) == 7
    assert environment_key("1.0", ("a==1", "b==1")) == environment_key("1.0", ("b==1", "a==1"))


def test_packages_have_the_versions_of_this_process_and_the_compiler_is_not_among_them():
    pinned = {Requirement(text).name.lower(): text for text in pinned_requirements()}
    asked = [Requirement(text) for text in importlib.metadata.requires("assay") or ()]
    direct = [item for item in asked if item.marker and item.marker.evaluate({"extra": "build"})]
    assert "triton" not in pinned
    for item in direct:
        if item.name != "triton":
            assert pinned[item.name.lower()] == f"{item.name}=={importlib.metadata.version(item.name)}"
    # What they need in turn is pinned too: another MarkupSafe would be another difference.
    assert pinned["markupsafe"].endswith(f"=={importlib.metadata.version('markupsafe')}")
    assert "pytest" not in pinned
