"""Compilations in worker processes: whatever a kernel does to its worker, it ends in an outcome, warm and cold."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay import objects
from assay.codegen.builder import Builder
from assay.codegen.cache import CacheError, CompileCache
from assay.codegen.toolchain import find_toolchain
from tests.codegen.test_environment import OVERRIDES
from tests.specs import copy_misfits


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def builder(cache_folder, compile_cache):  # noqa: ARG001 - a shell without overrides
    with Builder(CompileCache(cache_folder), find_toolchain(), jobs=2) as made:
        yield made


@pytest.fixture
def warm(cache_folder, monkeypatch):
    """A builder that can answer from the cache alone."""
    made = Builder(CompileCache(cache_folder), find_toolchain(), jobs=1)
    monkeypatch.setattr(made, "_start", None)
    return made


def fresh_builder(folder, **options):
    return Builder(CompileCache(folder), find_toolchain(), **({"jobs": 1} | options))


@pytest.fixture(scope="module")
def plain(make_variants):
    """The compile request of a kernel that is in order, by target."""
    return {target: make_variants(target)[0].request for target in ("gfx1201", "sm90")}


def doing(request, statement):
    """The same kernel, whose module does something while it is loaded."""
    return dataclasses.replace(request, source=f"import ctypes, os, sys, time\n{statement}\n{request.source}")


@pytest.mark.parametrize("target", ["gfx1201", "sm90"])
def test_a_good_kernel_gives_an_object_and_all_that_no_file_tells(builder, warm, plain, target):
    outcome = builder.submit(plain[target]).result()
    assert outcome.status == "compiled"
    assert not outcome.cached
    (kernel,) = objects.read_object(outcome.code, where=target).kernels
    assert (kernel.name, outcome.symbol) == ("scale_rows", "scale_rows")
    assert outcome.num_warps == plain[target].num_warps
    assert (outcome.shared_bytes, outcome.global_scratch_bytes, outcome.profile_scratch_bytes) == (0, 0, 0)
    assert sum(outcome.instructions.values()) > 10
    if target == "sm90":
        assert (outcome.sass_local, outcome.assembler_spills) == ((0, 0), (0, 0))
    again = warm.submit(plain[target]).result()
    assert again == outcome
    assert again.cached


def test_equal_requests_are_compiled_once(builder, plain):
    assert builder.submit(plain["gfx1201"]) is builder.submit(dataclasses.replace(plain["gfx1201"]))


FAILING = {
    "a compiler that prints an error and goes on": (
        "os.write(2, b'note: x\\nkernel.s:7:1: error: dropped it\\nnote: y\\n')",
        "compiler_complaint",
        "kernel.s:7:1: error: dropped it",
    ),
    "an error printed from C without a newline or a flush": (
        "ctypes.CDLL(None).printf(b'LLVM ERROR: out of registers')",
        "compiler_complaint",
        "LLVM ERROR: out of registers",
    ),
    "an exception": ("raise RuntimeError('of its own')", "compile_error", "RuntimeError: of its own"),
    "an exit": ("sys.exit(0)", "compile_error", "SystemExit: 0"),
    "closed output": ("sys.stdout.close(); raise RuntimeError('closed')", "compile_error", "RuntimeError: closed"),
    "a syntax error": ("def (:", "compile_error", "SyntaxError: invalid syntax"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_has_its_words_and_reads_the_same_warm(builder, warm, plain, name):
    statement, status, expected = FAILING[name]
    request = doing(plain["gfx1201"], statement)
    outcome = builder.submit(request).result()
    assert outcome.status == status
    assert expected in outcome.messages
    assert outcome.code == b""
    assert warm.submit(request).result() == outcome


def test_a_kernel_that_does_not_compile_says_why_and_where(builder, plain):
    source = plain["gfx1201"].source.replace("tl.load(", "tl.laod(")
    outcome = builder.submit(dataclasses.replace(plain["gfx1201"], source=source)).result()
    assert outcome.status == "compile_error"
    assert "laod" in outcome.messages
    assert "values = tl.laod(x + row * x_stride_row" in outcome.messages


def test_a_kernel_with_other_parameters_than_the_spec_is_refused_with_both(builder, plain):
    signature = tuple(item for item in plain["gfx1201"].signature if item[0] != "factor")
    outcome = builder.submit(dataclasses.replace(plain["gfx1201"], signature=signature)).result()
    assert outcome.status == "compile_error"
    assert "the kernel takes (x, out, factor, x_stride_row, WIDTH, BLOCK, UNROLL), the spec says (x, out, x_st" in (
        outcome.messages
    )


def test_source_without_the_kernel_is_refused(builder, plain):
    outcome = builder.submit(dataclasses.replace(plain["gfx1201"], kernel="scale_columns")).result()
    assert (outcome.status, outcome.messages) == (
        "compile_error",
        "ValueError: the rendered source defines no scale_columns",
    )


@pytest.mark.parametrize("backend", ["hip", "cuda"])
def test_an_unknown_architecture_is_a_failure_and_no_crash(builder, plain, backend):
    request = plain["gfx1201" if backend == "hip" else "sm90"]
    for arch in ("gfx9999", "gfx1201:xnack-", "gfx12-generic", "7"):
        outcome = builder.submit(dataclasses.replace(request, compiler_arch=arch)).result()
        assert outcome.status in ("compile_error", "crashed", "compiler_complaint"), arch
        assert outcome.messages


def test_what_a_kernel_prints_reaches_nobody_else(builder, plain, capfd):
    noise = "print('from python'); os.write(1, b'from the descriptor\\n'); ctypes.CDLL(None).printf(b'from C')"
    outcome = builder.submit(doing(plain["gfx1201"], noise)).result()
    assert outcome.status == "compiled"
    assert outcome.messages == ""
    assert capfd.readouterr() == ("", "")


def test_warnings_are_kept_with_the_object(builder, plain):
    outcome = builder.submit(doing(plain["gfx1201"], "print('ptxas Warning: slow'); print('other')")).result()
    assert (outcome.status, outcome.messages) == ("compiled", "ptxas Warning: slow")


def test_a_kernel_that_prints_a_lot_ends_in_a_short_message(builder, plain):
    flood = "line = 'x' * 1000 + chr(10)\nfor _ in range(20_000): sys.stdout.write('some warning ' + line)"
    outcome = builder.submit(doing(plain["gfx1201"], flood)).result()
    assert outcome.status == "compiled"
    assert len(outcome.messages) < 21_000
    assert outcome.messages.endswith("(cut)")


def test_inline_assembly_that_llvm_drops_is_a_failure_although_triton_returns_an_object(
    builder, warm, make_variants, tmp_path
):
    (variant,) = make_variants("gfx1201", specs=copy_misfits(tmp_path / "misfits"), family=("dropped_assembly",))
    outcome = builder.submit(variant.request).result()
    assert outcome.status == "compiler_complaint"
    assert "could not allocate input reg for constraint 'v'" in outcome.messages
    assert outcome.code == b""
    again = warm.submit(variant.request).result()
    assert (again, again.cached) == (outcome, True)


KILLED = {
    "os.kill(os.getpid(), 9)": "was killed by SIGKILL",
    "print('Assertion x', flush=True); os.abort()": "was killed by SIGABRT; it printed last: Assertion x",
    "os._exit(3)": "ended with status 3",
    "print('bye', flush=True); os._exit(0)": "ended with status 0; it printed last: bye",
}


def test_a_worker_that_dies_is_one_crashed_candidate_and_the_others_go_on(tmp_path, plain):
    request = plain["gfx1201"]
    with fresh_builder(tmp_path) as builder:
        futures = [builder.submit(doing(request, statement)) for statement in KILLED]
        good = builder.submit(request)
        scratch = Path(builder.workers._scratch.name)
        outcomes = [future.result() for future in futures]
        assert good.result().status == "compiled"
    assert [outcome.status for outcome in outcomes] == ["crashed"] * len(KILLED)
    assert [outcome.messages for outcome in outcomes] == [f"the compiler process {how}" for how in KILLED.values()]
    assert not scratch.exists()
    # Only the good one is kept: the next run tries the others again.
    assert len(list(tmp_path.rglob("*.outcome"))) == 1
    assert not list(tmp_path.rglob(".new-*"))


def test_a_kernel_that_hangs_is_stopped_at_the_time_limit(tmp_path, plain):
    with fresh_builder(tmp_path, time_limit=2.0) as builder:
        future = builder.submit(doing(plain["gfx1201"], "print('pass 7', flush=True); time.sleep(600)"))
        outcome = future.result(timeout=60)
    assert outcome.status == "timed_out"
    assert outcome.messages == "not finished after 2 s; it printed last: pass 7"
    assert not list(tmp_path.rglob("*.outcome"))


def test_an_outcome_that_cannot_be_kept_is_an_error_and_no_hang(tmp_path, plain, monkeypatch):
    with fresh_builder(tmp_path) as builder:
        monkeypatch.setattr(builder._cache._store, "_path", lambda _: tmp_path / "outcomes")
        monkeypatch.setattr(builder._cache, "get", lambda _: None)
        with pytest.raises(CacheError):
            builder.submit(doing(plain["gfx1201"], "raise RuntimeError")).result(timeout=60)


def test_the_shell_does_not_change_objects(builder, plain, monkeypatch, tmp_path):
    for name, value in OVERRIDES.items():
        monkeypatch.setenv(name, value)
    with fresh_builder(tmp_path, jobs=2) as overridden:
        for target, request in plain.items():
            outcome = overridden.submit(request).result()
            assert outcome.status == "compiled", outcome.messages
            assert outcome.code == builder.submit(request).result().code, target


COMPILE_WITH_TRITONS_CACHE = """
import json, os, sys
from assay.codegen.worker import _compile
request = json.load(open(sys.argv[1]))
print(len(_compile(request).asm["hsaco"]))
"""


def test_tritons_own_cache_is_never_read(builder, plain, monkeypatch, tmp_path):
    """Triton trusts a zero-length object in its cache and hands it out as a success."""
    poisoned = tmp_path / "poisoned"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(poisoned))
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    (tmp_path / "request.json").write_text(json.dumps(plain["gfx1201"].to_dict()))
    command = [sys.executable, "-c", COMPILE_WITH_TRITONS_CACHE, str(tmp_path / "request.json")]
    environment = {**os.environ, "TRITON_DISABLE_LINE_INFO": "1", "TRITON_DUMP_PTXAS_LOG": "1"}

    def by_triton():
        return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert by_triton() > 1000
    for path in poisoned.rglob("*.hsaco"):
        path.write_bytes(b"")
    assert by_triton() == 0, "the poison works"
    before = sorted(poisoned.rglob("*"))
    with fresh_builder(tmp_path / "cache") as ours:
        outcome = ours.submit(plain["gfx1201"]).result()
    assert outcome.code == builder.submit(plain["gfx1201"]).result().code
    assert sorted(poisoned.rglob("*")) == before


@pytest.mark.parametrize("target", ["gfx1201", "sm90"])
def test_a_line_table_build_has_the_machine_code_of_the_shipped_one(builder, make_variants, target):
    request = make_variants(target)[0].request
    with_lines = dataclasses.replace(request, line_info=True)
    codes = [builder.submit(item).result().code for item in (request, with_lines)]
    shipped, debug = (objects.read_object(code, where=target).kernels[0] for code in codes)
    assert b"rendered" in codes[1]
    assert b"rendered" not in codes[0]
    assert shipped.code == debug.code
    assert len(shipped.code) > 100
    assert shipped.resources == debug.resources
