"""What a fresh process does before its first launch, counted: times differ from machine to machine, counts do not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.bundle import Bundle, canonical, opening
from assay.runtime import load

ROOT = Path(__file__).parents[2]

# Everything that a first decode call imports on a CUDA device, torch or not.
IMPORTS = "import assay.runtime, assay.runtime.calls.short_planning, assay.runtime.drivers.cuda"
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


def made_by(imports):
    code = COUNT.replace(IMPORTS, imports)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("imports", [IMPORTS, OTHER_CALLS])
def test_no_class_is_made_by_generating_code(imports):
    """A dataclass takes up to a millisecond to make, a named tuple a tenth of one, a `Record` a fiftieth."""
    made = made_by(imports)
    assert made["dataclass"] == []
    assert made["namedtuple"] == []


# A process in which torch has started: what a first decode call imports, and the bytes of its byte code.
FIRST_CALL = """
import ctypes, json, marshal, sys
import torch
from tests.runtime.standin.library import Standin
from tests.runtime.decode_inputs import Engine

library, bundle, objects = sys.argv[1:]
standin = Standin("hip", library)
standin.reset("gfx1201")
for path, symbol, arguments in json.loads(objects):
    standin.announce(open(path, "rb").read(), symbol, "gfx1201", arguments)
engine = Engine()
before = set(sys.modules)
import assay.runtime
import assay.runtime.drivers.hip
assay.runtime.drivers.hip.LIBRARY_NAMES = (library,)
kernels = assay.runtime.load(bundle, device="hip:0")
kernels._driver.tensor_device = ("cpu", 0)
kernels.decode_attention(*engine.arguments, **engine.scales, num_splits=4)
assert len(standin.launches) == 2, standin.calls
modules = {name: sys.modules[name].__spec__.loader for name in set(sys.modules) - before}
print(json.dumps({
    name: len(marshal.dumps(loader.get_code(name))) for name, loader in modules.items() if hasattr(loader, "get_code")
}))
"""


@pytest.fixture(scope="module")
def first_call(decode_bundle, standins, tmp_path_factory):
    """Bytes of byte code by the module that a first call imports."""
    folder, objects = tmp_path_factory.mktemp("objects"), []
    with Bundle.open(decode_bundle) as bundle:
        for row in (row for family in bundle.families() for row in bundle.rows(family)):
            (folder / row.id).write_bytes(bundle.object_bytes(row.object))
            objects.append((str(folder / row.id), row.symbol, [(a.offset, a.size) for a in row.arguments]))
    command = [sys.executable, "-c", FIRST_CALL, str(standins["hip"].path), str(decode_bundle), json.dumps(objects)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# What a first call that is served needs of this product, by folder.
NEEDED = {
    "bundle": ("opening", "picking", "record"),
    "runtime": ("frameworks", "kernels", "later", "limits", "overlaps", "prepared", "steering", "terms"),
    "runtime.calls": (
        "decode_attention", "decode_call", "short_planning"
    ),
    "runtime.drivers": ("driver_errors", "function", "hip", "mapped", "native", "native_driver"),
}  # fmt: skip
# hip.py takes back errors of other calls, and so knows those that are raised; cuda.py does without.
OF_HIP = ("assay.bundle.faults", "assay.runtime.errors")


def test_a_first_call_that_is_served_imports_what_it_needs_and_no_more(first_call):
    needed = {f"assay.{folder}.{name}" for folder, names in NEEDED.items() for name in names}
    needed |= {f"assay.{folder}" for folder in NEEDED} | set(OF_HIP)
    assert {name for name in first_call if name.startswith("assay.")} <= needed


def test_a_first_call_that_is_served_loads_little_byte_code(first_call):
    """Unmarshalling takes 5 us a kilobyte, finding a module 50 us."""
    assert sum(size for name, size in first_call.items() if name.startswith("assay.")) < 240_000


def test_importing_the_runtime_alone_imports_neither_drivers_nor_calls():
    code = "import sys, assay.runtime; print(*(name for name in sys.modules if name.startswith('assay.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "assay.runtime.kernels" in modules
    assert len(modules) <= 5
    later = ("calls", "contract", "drivers", "executing", "launching", "tensors")
    assert not {name for name in modules if name.startswith(tuple(f"assay.runtime.{part}" for part in later))}


@pytest.fixture
def read(monkeypatch):
    """Sizes of all reads from bundles."""
    sizes = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, offset: sizes.append(size) or pread(file, size, offset))
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
    parsed, opened = [], []
    decode, decode_short = canonical.decode, opening.decode
    monkeypatch.setattr(canonical, "decode", lambda data, where: parsed.append(where) or decode(data, where))
    monkeypatch.setattr(opening, "decode", lambda data: opened.append(len(data)) or decode_short(data))
    path, tensors = bench.bundle("a", "b"), bench.tensors()
    with load(path, device=bench.device()) as kernels:
        for id in "aab":
            bench.launch(kernels, id, tensors)
    # The directory and the manifest.
    assert len(opened) == 2
    assert [where.removeprefix(f"{path}: ") for where in parsed] == ["table copy"]
