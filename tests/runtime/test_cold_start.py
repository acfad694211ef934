"""What a fresh process does before its first launch, counted: times differ from machine to machine, counts do not."""

import json
import subprocess
import sys

import pytest

from assay.bundle import canonical, store
from assay.runtime import load

# Everything that a first decode call imports on a CUDA device, torch or not.
IMPORTS = "import assay.runtime, assay.runtime.calls.decode_attention, assay.runtime.drivers.cuda"
# And what calls of the other families import besides.
OTHER_CALLS = "import assay.runtime.calls.extend_attention, assay.runtime.calls.kv_rows, assay.runtime.kv_memory"
# Classes whose making compiles code: counted where they are asked for.
COUNT = f"""
import collections, dataclasses, json, sys, typing
made = {{"dataclass": [], "namedtuple": []}}
process, namedtuple = dataclasses._process_class, collections.namedtuple

def count_dataclass(cls, *arguments, **options):
    made["dataclass"].append(cls.__qualname__)
    return process(cls, *arguments, **options)

def count_namedtuple(name, *arguments, **options):
    made["namedtuple"].append(name)
    return namedtuple(name, *arguments, **options)

dataclasses._process_class, collections.namedtuple = count_dataclass, count_namedtuple
import contextlib, ctypes, hashlib, inspect, json, pathlib, struct, threading, zlib
made["dataclass"].clear(), made["namedtuple"].clear()
before = set(sys.modules)
{IMPORTS}
made["modules"] = sorted(name for name in set(sys.modules) - before if name.startswith("assay."))
print(json.dumps(made))
"""


# What a first call that succeeds has no use for.
UNUSED = {
    "bundle": ("atomic", "attaching", "contents", "evidence", "validate", "verdicts", "verify", "writer"),
    "runtime": ("_fast", "dlpack", "fast", "installed", "switches", "torch_ops"),
    "runtime.calls": ("decode_fast", "splits"),
    "runtime.drivers": ("emulator", "hip"),
}


def made_by(imports):
    code = COUNT.replace(IMPORTS, imports)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made():
    return made_by(IMPORTS)


@pytest.mark.parametrize("imports", [IMPORTS, OTHER_CALLS])
def test_no_class_is_made_by_generating_code(imports):
    """A dataclass takes up to a millisecond to make, a named tuple a tenth of one, a `Record` a fiftieth."""
    made = made_by(imports)
    assert made["dataclass"] == []
    assert made["namedtuple"] == []


def test_few_modules_are_imported_and_none_that_a_first_call_has_no_use_for(made):
    assert "assay.bundle.reader" in made["modules"]
    assert len(made["modules"]) <= 41
    unused = {f"assay.{folder}.{name}" for folder, names in UNUSED.items() for name in names}
    assert not unused & set(made["modules"])


def test_importing_the_runtime_alone_imports_neither_drivers_nor_calls():
    code = "import sys, assay.runtime; print(*(name for name in sys.modules if name.startswith('assay.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "assay.runtime.kernels" in modules
    assert len(modules) <= 20
    later = ("calls", "contract", "drivers", "executing", "launching", "tensors")
    assert not {name for name in modules if name.startswith(tuple(f"assay.runtime.{part}" for part in later))}


@pytest.fixture
def read(monkeypatch):
    """Sizes of all reads from bundles."""
    sizes = []
    pread = store._pread
    monkeypatch.setattr(store, "_pread", lambda file, offset, size: sizes.append(size) or pread(file, offset, size))
    return sizes


def test_load_and_the_first_launch_read_one_code_object_of_many(bench, read):
    path = bench.bundle(*(f"row{number}" for number in range(40)))
    tensors = bench.tensors()
    with load(path, device=bench.device()) as kernels:
        before = len(read)
        bench.launch(kernels, "row7", tensors)
        first = len(read)
        bench.launch(kernels, "row7", tensors)
        (row,) = (row for row in kernels.rows("copy") if row.id == "row7")
        stored = kernels._bundle.sizes()
    assert read[before:first] == [stored["table"], stored[f"object:{row.object}"]]
    assert len(read) == first


def test_load_and_the_first_launch_parse_each_document_once(bench, monkeypatch):
    parsed = []
    decode = canonical.decode
    monkeypatch.setattr(canonical, "decode", lambda data, where: parsed.append(where) or decode(data, where))
    path, tensors = bench.bundle("a", "b"), bench.tensors()
    with load(path, device=bench.device()) as kernels:
        for id in "aab":
            bench.launch(kernels, id, tensors)
    assert [where.removeprefix(f"{path}: ") for where in parsed] == ["directory", "manifest", "table copy"]
