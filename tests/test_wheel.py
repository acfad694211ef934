"""The wheel holds what the tree holds, under assay.*, and its runtime imports with nothing else installed."""

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_layering import FOLDERS, ROOT

pytestmark = pytest.mark.slow
EXTENSION = "assay/runtime/_fast.abi3.so"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel"))


def build_wheel(tree, out):
    """A wheel built in the empty `out` from a copy of this tree in `tree`: setuptools writes beside its sources."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", str(tree), "--no-deps", "--wheel-dir", str(out)]
    if int(importlib.metadata.version("setuptools").split(".")[0]) >= 77:
        command.append("--no-build-isolation")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_every_module_spec_and_template_and_nothing_else(wheel):
    expected = {
        Path("assay", path.relative_to(ROOT)).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".j2", ".json", ".c")
    }
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    # Built where a compiler is, and left out where none is.
    assert names - {EXTENSION} == expected
    if shutil.which("cc") or shutil.which("gcc"):
        assert EXTENSION in names


def test_the_plain_install_asks_for_no_package(wheel):
    metadata = next(name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    requires = [
        line for line in zipfile.ZipFile(wheel).read(metadata).decode().splitlines() if line.startswith("Requires-Dist")
    ]
    assert requires
    assert all("extra ==" in line for line in requires)


def test_the_runtime_imports_from_the_wheel_with_nothing_else_installed(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import assay.bundle, assay.runtime; print(assay.runtime.__file__)"
    )
    # -I and -S: no site-packages, so neither the editable install nor any package is there.
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(str(tmp_path))


def test_the_command_without_its_packages_says_how_to_get_them(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from assay.qualify.entry import main; main()"
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path), "plan"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "pip install '.[build]'" in done.stderr
    assert "Traceback" not in done.stderr
