"""What used to end as an internal error, a traceback or never: odd files, places, caches, output and signals."""

import dataclasses
import errno
import hashlib
import os
import pwd
import signal
import subprocess
import sys

import msgpack
import pytest
from rich.console import Console

from assay.bundle import write_bundle
from assay.codegen.cache import CompileCache
from assay.codegen.records import Outcome
from assay.codegen.render import Renderer, TemplateError
from assay.codegen.specs import display_path
from assay.codegen.store import CacheError, Store, default_cache_directory
from assay.qualify import bundling, entry, inspection
from assay.qualify.verification import file_fault
from tests.specs import TOY

COMMAND = [sys.executable, "-c", "from assay.qualify.entry import main; main()"]
KEY = "ab" * 32
OUTCOME = Outcome("compiled", b"code", "said", "kernel", 4, sass_local=(1, 2), instructions={"add": 1})


def test_no_home_directory_is_a_fault_of_the_environment(assay, monkeypatch, tmp_path):
    for name in ("HOME", "XDG_CACHE_HOME", "ASSAY_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(CacheError, match=r"no home directory.*set ASSAY_CACHE_DIR"):
        default_cache_directory()
    ran = assay("qualify", "--target", "gfx1201", "--specs", TOY, "--out", tmp_path)
    assert ran.status == 3
    assert "no home directory" in ran.said
    assert "set ASSAY_CACHE_DIR" in ran.said


@pytest.mark.parametrize("place", [".", "/", "", ".."])
def test_a_bundle_cannot_be_written_over_a_folder(assay, built, place, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ran = assay("bundle", built("gfx1201").bundle, "--out", place)
    assert ran.status == 3
    assert "is a folder; allowed: the name of a file" in ran.said
    assert not list(tmp_path.iterdir())


def test_names_with_markup_are_printed_as_they_are(capsys):
    kernel = {"name": "[/bold]x", "arch": "[/red]", "backend": "hip", "resources": {}, "arguments": []}
    row = {**kernel, "variant": "[/v]", "problem": {"axis": "[/p]"}}
    for kind, kernels, families, names in (
        ("hsaco", [kernel], (), ("[/bold]x", "[/red]")),
        ("bundle", [row], ("[/family]",), ("[/v]", "axis=[/p]", "[/red]", "[/family]")),
    ):
        shown = inspection.Inspected({"kind": kind, "kernels": kernels}, families)
        inspection.print_inspected(Console(width=200), shown)
        printed = capsys.readouterr().out
        assert [name for name in names if name not in printed] == []


def test_a_row_whose_kernel_is_not_in_its_object_is_named(assay, built, tmp_path):
    contents = bundling._read(built("gfx1201").bundle).contents
    rows = tuple(row._replace(symbol="absent") for row in contents.rows)
    write_bundle(tmp_path / "odd", contents._replace(rows=rows))
    ran = assay("inspect", tmp_path / "odd")
    assert ran.status == 2
    assert "no kernel 'absent' in its code object" in ran.said


@pytest.fixture(params=["pipe", "device", "folder", "huge"])
def odd_file(request, tmp_path):
    path = tmp_path / "odd"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    elif request.param == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, (1 << 30) + 1)
    said = {"folder": "a folder", "huge": "1,073,741,825 bytes"}.get(request.param, "a pipe, device or socket")
    return path, said


def test_what_is_no_file_of_a_sane_size_is_not_read(assay, odd_file):
    path, said = odd_file
    ran = assay("inspect", path)
    assert ran.status == 2
    assert f"{path}: {said}; allowed: " in ran.said
    ran = assay("bundle", path, "--out", path.with_name("out"))
    assert ran.status == 2
    assert f"{path}: {said}; allowed: " in ran.said


def test_a_file_exactly_as_large_as_allowed_is_read(tmp_path):
    (tmp_path / "file").touch()
    os.truncate(tmp_path / "file", 1 << 30)
    assert file_fault(tmp_path / "file") is None


def test_a_deleted_working_directory_does_not_matter(assay, monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert display_path(TOY) == str(TOY)
    assert display_path(TOY.relative_to("/")) == str(TOY.relative_to("/"))
    assert assay("plan", "--specs", TOY).status == 0
    assert assay("plan", "--specs", TOY / "absent").status == 2


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("plan", "--specs", str(TOY)), ("plan", "--specs", str(TOY), "--json"), ("schema", "target")],
)
def test_output_without_room_is_said(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "assay: cannot write the output: No space left on device\n"


def test_no_room_for_a_named_file_is_not_said_of_the_output(monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device", "some file")

    monkeypatch.setattr(entry, "_run", full)
    assert entry.run([]) == 3
    assert "some file" in capsys.readouterr().err


def keep(store, payload, key=KEY):
    """An entry with a right digest, whatever it holds."""
    path = store._path(key)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"ASSAY-RESULT-1\n" + hashlib.sha256(payload).digest() + payload)


ODD = [
    b"",
    b"\xc1",
    b"\xa1\xff",
    b"\x91" * 3000,
    msgpack.packb([1]),
    msgpack.packb(None),
    msgpack.packb({1: 2}),
    msgpack.packb({}),
    msgpack.packb({"key": KEY, "kind": "outcome"}),
    msgpack.packb({"kind": "outcome", "result": {}}),
    *(msgpack.packb({"key": KEY, "kind": "outcome", "result": odd}) for odd in (None, 1, "text", [], [["a", 1]])),
]


@pytest.mark.parametrize("payload", ODD)
def test_an_odd_entry_with_a_right_digest_is_damaged(tmp_path, payload):
    store = Store(tmp_path, "outcome")
    keep(store, payload)
    assert store.get(KEY) is None
    assert store.damaged == [f"{KEY}.outcome"]


@pytest.mark.parametrize(
    "odd",
    [
        {"status": 1},
        {"status": ["compiled"]},
        {"status": "crashed"},
        {"code": "text"},
        {"messages": b"bytes"},
        {"messages": None},
        {"symbol": 3},
        {"num_warps": "4"},
        {"num_warps": True},
        {"seconds": None},
        {"cpu_seconds": "1"},
        {"ir_sha256": 3},
        {"instructions": [1]},
        {"instructions": {"add": "1"}},
        {"sass_local": 3},
        {"sass_local": [1]},
        {"assembler_spills": ["a", "b"]},
        {"another": 1},
    ],
)
def test_an_outcome_of_other_types_is_damaged(tmp_path, odd):
    cache = CompileCache(tmp_path)
    cache.put(KEY, OUTCOME)
    fields = cache._store.get(KEY)
    assert cache.get(KEY) == OUTCOME
    cache._store.put(KEY, fields | odd)
    assert cache.get(KEY) is None
    assert cache.damaged == [f"{KEY}.outcome"]


def test_messages_that_are_no_text_are_kept(tmp_path):
    cache = CompileCache(tmp_path)
    odd = dataclasses.replace(OUTCOME, messages="\udcff said")
    cache.put(KEY, odd)
    assert cache.get(KEY) == odd


WHILE_IMPORTING = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "assay.qualify.cli":
            os.kill(os.getpid(), signal.{signal})
# A run in the background ignores the interrupt, and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from assay.qualify.entry import main
main()
"""


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_signals_while_importing_end_without_a_traceback(command):
    for name, status, said in (("SIGINT", 130, "assay: interrupted"), ("SIGTERM", 143, ""), ("SIGHUP", 129, "")):
        script = [sys.executable, "-c", WHILE_IMPORTING.replace("{signal}", name), command]
        done = subprocess.run(script, capture_output=True, text=True)
        assert done.returncode == status
        assert said in done.stderr
        assert "Traceback" not in done.stderr


TERMINATED = """
import contextlib, os, signal
from assay.qualify import cli, entry

@contextlib.contextmanager
def opened():
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.{signal})
        print("closed", flush=True)

def work(arguments):
    with opened():
        os.kill(os.getpid(), signal.{signal})
        signal.pause()

cli.assay.main = lambda *_, **__: work(())
entry.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_terminated_run_closes_what_is_open(name):
    """By a CI runner, or with the terminal that it ran in."""
    script = [sys.executable, "-c", TERMINATED.replace("{signal}", name)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.Signals[name], "closed\n", "")


def test_a_run_that_ignores_hangups_goes_on_after_one():
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + TERMINATED.replace("{signal}", "SIGHUP")
    script = script.replace("signal.pause()", "raise SystemExit(7)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "closed\n")


@pytest.mark.parametrize("name", ["sub/x.txt", "x.txt", "sub/x.j2", "../x.j2"])
@pytest.mark.parametrize("how", ["", " ignore missing"])
def test_templates_include_only_what_is_hashed(tmp_path, name, how):
    templates = tmp_path / "templates"
    (templates / "sub").mkdir(parents=True)
    (templates / name).write_text("unseen")
    (templates / "part.j2").write_text("seen")
    (templates / "main.j2").write_text(f'{{% include "part.j2" %}}{{% include "{name}"{how} %}}')
    with pytest.raises(TemplateError, match=r"only \*\.j2 directly in this folder are templates") as raised:
        Renderer(templates).render("main.j2", {})
    assert f"no template {name!r}; allowed: main.j2, part.j2" in str(raised.value)


@pytest.mark.parametrize("command", [("verify",), ("explain",)])
def test_a_pipe_is_refused_and_not_waited_for(assay, tmp_path, command):
    os.mkfifo(tmp_path / "pipe")
    more = ("scale",) if command == ("explain",) else ()
    ran = assay(*command, tmp_path / "pipe", *more)
    assert ran.status == 1
    assert "a pipe, device or socket" in ran.said


@pytest.mark.parametrize("command", [("schema", "models"), ("plan", "--target", "gfx1201"), ("schema",)])
def test_a_closed_standard_output_is_one_that_nobody_reads(command):
    script = "from assay.qualify.entry import main; main()"
    argv = [sys.executable, "-c", script, *command]

    def ended(closing: str) -> tuple[int, str]:
        done = subprocess.run(["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *argv], stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stderr

    assert ended(">&-") == ended(">/dev/null")


@pytest.mark.parametrize("columns", ["0", "-5", "\N{SUPERSCRIPT TWO}", "wide", "9" * 5000, ""])
def test_columns_that_are_no_width_leave_no_output_empty(monkeypatch, columns):
    from assay.qualify import terminal

    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.console().width >= 80


def test_columns_that_are_a_width_are_taken(monkeypatch):
    from assay.qualify import terminal

    monkeypatch.setenv("COLUMNS", "37")
    assert terminal.console().width == 37
