"""`load("gfx1201")` finds a bundle that was installed, and nothing else; a path is never anything but a path."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runtime import ArchitectureError, BundleLoadError, load
from assay.runtime.installed import installed_path
from tests.test_wheel import build_wheel

DEVICE = ("hip", "gfx1201")


@pytest.fixture
def install(tmp_path, path, monkeypatch):
    """Installs a package that offers the factory's bundle, which must not be imported; returns the bundle's path."""

    def put(name="gfx1201", distribution="assay_kernels_gfx1201", version="1.0", site="site", package=""):
        package = package or distribution
        folder = tmp_path / site / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("raise ImportError('nothing of the package may run')\n")
        shutil.copy(path, folder / "bundle.assay")
        info = tmp_path / site / f"{distribution}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[assay.bundles]\n{name} = {package}\n")
        if str(tmp_path / site) not in sys.path:
            monkeypatch.syspath_prepend(tmp_path / site)
        return folder / "bundle.assay"

    monkeypatch.chdir(tmp_path)
    return put


def refusal(*arguments, **options):
    with pytest.raises(BundleLoadError) as caught:
        load(*arguments, **options)
    return str(caught.value)


def test_a_bare_name_is_the_installed_bundle_and_nothing_of_its_package_runs(install):
    expected = install()
    assert installed_path("gfx1201") == expected
    with load("gfx1201", device=DEVICE) as kernels:
        assert kernels.families() == ("copy", "merge_splits")
    assert "assay_kernels_gfx1201" not in sys.modules


def test_a_module_on_the_import_path_does_not_shadow_an_installed_bundle(install, tmp_path, monkeypatch):
    expected = install()
    (tmp_path / "first" / "assay_kernels_gfx1201").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert installed_path("gfx1201") == expected


def test_an_existing_file_of_that_name_wins_even_where_it_is_damaged(install, path):
    install()
    shutil.copy(path, "gfx1201")
    installed_path("gfx1201").write_bytes(b"the installed one is not looked at")
    load("gfx1201", device=DEVICE).close()
    Path("gfx1201").write_bytes(b"no bundle")
    assert refusal("gfx1201") == "gfx1201: is not an assay bundle; it does not start with the bundle's magic"


@pytest.mark.parametrize("wrong", ["./gfx1201", "sub/gfx1201", Path("gfx1201"), os.path.abspath("/gfx1201")])
def test_a_wrong_path_is_an_error_whatever_is_installed(install, wrong):
    install()
    assert "cannot be opened: No such file" in refusal(wrong, device=DEVICE)


def test_a_broken_link_of_that_name_is_a_wrong_path(install):
    install()
    os.symlink("nowhere", "gfx1201")
    assert "cannot be opened: No such file" in refusal("gfx1201", device=DEVICE)


def test_a_folder_of_that_name_does_not_hide_it(install):
    """artifacts/ has a folder for each target."""
    install()
    os.mkdir("gfx1201")
    load("gfx1201", device=DEVICE).close()


def test_an_unknown_name_lists_what_is_installed_and_the_nearest(install):
    install()
    install(name="sm90", distribution="assay_kernels_sm90")
    for wrong in ("gfx1210", "gfx1201.assay"):
        assert refusal(wrong, device=DEVICE) == (
            f"'{wrong}': no such file in the current folder, and no installed bundle of that name; "
            "allowed: a path, or an installed bundle: gfx1201, sm90; did you mean gfx1201?"
        )


def test_where_nothing_is_installed_an_unknown_name_says_so(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: importlib.metadata.EntryPoints())
    for wrong in ("gfx1201", "", "a\0b"):
        assert "allowed: a path; no bundle is installed" in refusal(wrong)


def test_two_distributions_of_one_name_are_refused_naming_both(install):
    first = install()
    second = install(distribution="acme_kernels", version="2.5")
    assert refusal("gfx1201", device=DEVICE) == (
        f"'gfx1201': is offered by several distributions: acme_kernels 2.5 ({second}), "
        f"assay_kernels_gfx1201 1.0 ({first}); allowed: one; uninstall all but one, or load one by its path"
    )
    load(second, device=DEVICE).close()


def test_two_profiles_of_a_target_stand_side_by_side(install):
    core = install()
    full = install(name="gfx1201.full", distribution="assay_kernels_gfx1201_full")
    assert (installed_path("gfx1201"), installed_path("gfx1201.full")) == (core, full)


def test_of_one_distribution_in_two_places_the_first_on_the_path_counts(install):
    install(version="1.0", site="system")
    first = install(version="0.9", site="user")
    assert installed_path("gfx1201") == first


def test_what_an_interrupted_uninstall_leaves_behind_is_not_another_distribution(install):
    expected = install()
    install(distribution="~ssay_kernels_gfx1201", version="1.1", package="assay_kernels_gfx1201")
    assert installed_path("gfx1201") == expected


def test_an_installed_bundle_that_is_damaged_gone_or_for_another_device_is_named_by_its_path(install):
    expected = install()
    with pytest.raises(ArchitectureError) as caught:
        load("gfx1201", device=("hip", "gfx1100"))
    assert str(expected) in str(caught.value)
    expected.write_bytes(expected.read_bytes()[:-100])
    assert str(expected) in refusal("gfx1201", device=DEVICE)
    expected.unlink()
    assert f"{expected}: cannot be opened: No such file" in refusal("gfx1201", device=DEVICE)


def test_a_path_costs_no_search_among_what_is_installed(path):
    load_path = "import sys, assay.runtime; assay.runtime.load(sys.argv[1], ('hip', 'gfx1201'))"
    code = f"{load_path}; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# What a serving process does, where it may write nothing (field cases E6, E12). It prints how many rows answered.
SERVE = """
import hashlib, importlib.util, os, resource, sys

def refuse_writing(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise AssertionError(f"{arguments[0]} was opened for writing")
    if event in ("os.mkdir", "os.rename", "os.remove", "subprocess.Popen"):
        raise AssertionError(f"{event} {arguments}")

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.addaudithook(refuse_writing)
for build_time in ("triton", "jinja2", "yaml", "pydantic", "click", "numpy", "torch", "packaging", "setuptools"):
    assert importlib.util.find_spec(build_time) is None, build_time
assert "HOME" not in os.environ

before = set(sys.modules)
import assay.runtime
with assay.runtime.load("gfx1201.only", device=("hip", "gfx1201")) as kernels:
    answered = 0
    for family in kernels.families():
        for verdict in kernels.explain(family):
            row = verdict.row
            call = {c.field: c.value[0] if c.op == "one_of" else c.value for c in row.conditions}
            assert kernels.require(family, force_row=row.id, **call).row == row
            assert kernels.supports(family, **call)
            code = kernels.code(kernels.select(family, force_row=row.id, **call).row)
            assert hashlib.sha256(code).hexdigest() == row.object and code.startswith(b"\\x7fELF")
            answered += 1
    try:
        kernels.select("decode_attention", **call | {"head_dim": 96})
    except assay.runtime.AssayRuntimeError as error:
        assert "head_dim" in str(error), error
    else:
        raise AssertionError("a head_dim that no row has was answered")
for name in ("gfx1202", "sm90"):
    try:
        assay.runtime.load(name)
    except assay.runtime.BundleLoadError as error:
        assert "installed bundle: gfx1201.only" in str(error), error
    else:
        raise AssertionError(name)
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
assert loaded <= {"assay", *sys.stdlib_module_names}, loaded
print(answered, sorted(kernels.families()))
"""
"""Rows of every family of the shipped specs, few of each."""
PARTS = ("family=merge_splits", "family=decode_attention,head_dim=64,block_m=1,window=false,reader=generic")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory, compile_cache):  # noqa: ARG001
    """The wheels of the runtime and of a part of the shipped gfx1201 kernels."""
    work = tmp_path_factory.mktemp("build")
    from assay.qualify import entry

    bundles = []
    for number, part in enumerate(PARTS):
        out = work / str(number)
        arguments = ["qualify", "--target", "gfx1201", "--only", part, "--out", str(out), "--update-lock"]
        assert entry.run([*arguments, "--evidence", "static"]) == 0
        bundles += [str(found) for found in out.rglob("*.assay")]
    assert entry.run(["bundle", *bundles, "--out", str(work / "part.assay")]) == 0
    assert entry.run(["wheel", str(work / "part.assay"), "--out", str(work / "wheels")]) == 0
    (kernels,) = (work / "wheels").iterdir()
    return build_wheel(work / "tree", work / "runtime"), kernels


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheels):
    """A new environment with these two wheels and nothing else in it; made read-only."""
    root = tmp_path_factory.mktemp("environment") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    # Dependencies count: the kernels' wheel must ask for a runtime that the runtime's wheel is.
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(root / "bin" / "python"), "install", "--no-index"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [*pip, *(f"--find-links={wheel.parent}" for wheel in wheels), "assay-kernels-gfx1201-only"]
    done = subprocess.run(command, env=plain | {"PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = [folder for folder in (root, *root.rglob("*")) if folder.is_dir() and not folder.is_symlink()]
    for folder in folders:
        folder.chmod(0o555)
    yield root
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.slow
def test_an_empty_environment_serves_every_row_from_two_wheels_and_writes_nothing(environment, tmp_path):
    (site,) = environment.glob("lib/python*/site-packages")
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"assay", "assay_kernels_gfx1201_only"}
    nowhere = {"PATH": "/nonexistent", "TMPDIR": "/nonexistent"}
    command = [environment / "bin" / "python", "-I", "-B", "-c", SERVE]
    done = subprocess.run(command, env=nowhere, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answered, families = done.stdout.split(maxsplit=1)
    assert int(answered) >= 4
    assert families == "['decode_attention', 'merge_splits']\n"
    assert not list(tmp_path.iterdir())
