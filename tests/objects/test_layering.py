import ast
import subprocess
import sys
from pathlib import Path

import assay.objects

FOLDER = Path(assay.objects.__file__).parent
ALLOWED = {"assay.objects", "elftools", "msgpack", *sys.stdlib_module_names}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def test_nothing_but_the_two_parsers_and_the_standard_library_is_imported():
    for path in FOLDER.glob("*.py"):
        for name in imported(path):
            root = "assay.objects" if name.startswith("assay.objects") else name.split(".")[0]
            assert root in ALLOWED, f"{path.name} imports {name}"


def test_importing_the_reader_imports_no_compiler():
    script = "import sys, assay.objects; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"triton", "torch", "numpy", "jinja2", "assay.codegen", "assay.qualify"}


def test_every_public_name_is_documented():
    for name in assay.objects.__all__:
        assert getattr(assay.objects, name).__doc__, name
