"""Folders import only from those above them in docs' list, by their installed names; the runtime needs no package."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What each folder may import of assay; design.md has the same table in words.
MAY_IMPORT = {
    "kernel_specs": set(),
    "objects": set(),
    "bundle": set(),
    "reference": set(),
    "codegen": {"kernel_specs", "objects", "bundle.faults", "bundle.records"},
    "emulator": {"objects"},
    "runtime": {"bundle"},
    "qualify": {"kernel_specs", "objects", "bundle", "reference", "codegen", "emulator", "runtime"},
}
# A driver may import what only its own device needs, inside its functions.
MAY_IMPORT_LAZILY = {"runtime/drivers/emulator.py": {"emulator"}}
STANDARD_LIBRARY_ONLY = ("bundle", "runtime")
# Imported by its user, who has that framework.
NEEDS_MORE = {"runtime/torch_ops.py": {"torch"}}
FOLDERS = [name for name in MAY_IMPORT if (ROOT / name).is_dir()]


def modules_of(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imports_of(path, *, top_level=False):
    """Full names of what a module imports; `from a import b` gives a.b."""
    tree = ast.parse(path.read_text())
    package = ("assay", *path.relative_to(ROOT).parent.parts)
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            yield from (".".join((*base, alias.name)) for alias in node.names)


def test_every_folder_of_python_is_in_the_table():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests", "benchmarks"} == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_from_those_above_it(folder):
    for path in modules_of(folder):
        lazily = MAY_IMPORT_LAZILY.get(str(path.relative_to(ROOT)), set())
        assert not lazily & {
            name.split(".")[1] for name in imports_of(path, top_level=True) if name.startswith("assay.")
        }
        allowed = MAY_IMPORT[folder] | {folder} | lazily
        for name in imports_of(path):
            if name.split(".")[0] == "assay":
                inside = name.removeprefix("assay.")
                assert any(inside == item or inside.startswith(f"{item}.") for item in allowed), f"{path}: {name}"


def test_no_folder_is_imported_by_its_bare_name():
    """`import bundle` works from the checkout by accident and nowhere else."""
    ours = {".venv", "build", ".git"}
    for path in ROOT.rglob("*.py"):
        if ours.isdisjoint(path.relative_to(ROOT).parts):
            bare = {name for name in imports_of(path) if name.split(".")[0] in MAY_IMPORT}
            assert not bare, f"{path}: {bare}"


@pytest.mark.parametrize("folder", STANDARD_LIBRARY_ONLY)
def test_what_runs_on_a_serving_machine_imports_no_package_when_imported(folder):
    for path in modules_of(folder):
        roots = {name.split(".")[0] for name in imports_of(path, top_level=True)}
        more = NEEDS_MORE.get(str(path.relative_to(ROOT)), set())
        assert roots <= {"assay", "__future__", *sys.stdlib_module_names, *more}, path


@pytest.mark.parametrize("folder", STANDARD_LIBRARY_ONLY)
def test_importing_it_loads_the_standard_library_alone(folder):
    code = f"import sys; before = set(sys.modules); import assay.{folder}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name.split(".")[0] for name in loaded} <= {"assay", *sys.stdlib_module_names}


def test_every_package_is_listed_for_the_wheel():
    """An editable install finds a sub-package that the wheel then lacks."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {path.parent.relative_to(ROOT) for folder in FOLDERS for path in modules_of(folder)}
    assert set(listed["packages"]) == {".".join(("assay", *package.parts)) for package in packages}
    for name, folder in listed["package-dir"].items():
        assert name == ".".join(("assay", *Path(folder).parts))
