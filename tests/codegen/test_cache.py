"""A cached outcome is the outcome of exactly this request, or it is not used."""

import dataclasses
import itertools
import os
import shutil

import pytest

from assay.codegen import cache as cache_module
from assay.codegen import store as store_module
from assay.codegen.cache import CacheError, CompileCache, cache_key, default_cache_directory
from assay.codegen.records import CompileRequest, Outcome, canonical_json
from assay.codegen.toolchain import Toolchain

TOOLCHAIN = Toolchain("3.8.0", "ab" * 32)
KEY, OTHER = "12" * 32, "34" * 32
OUTCOME = Outcome(
    "compiled",
    code=bytes(range(256)),
    messages="a warning",
    symbol="kernel",
    num_warps=4,
    shared_bytes=1024,
    global_scratch_bytes=0,
    profile_scratch_bytes=0,
    instructions={"v_add_f32": 3},
    sass_local=(1, 2),
    assembler_spills=(0, 4),
    ir_sha256="cd" * 32,
    seconds=0.5,
    cpu_seconds=0.75,
)


def a_request(**changes):
    fields = {
        "source": "def kernel(): pass",
        "kernel": "kernel",
        "backend": "hip",
        "compiler_arch": "gfx1201",
        "wavefront_size": 32,
        "signature": (("x", "*fp32"), ("n", "i32")),
        "constants": (("BLOCK", 64),),
        "divisibility": (("x", 16),),
        "within_2gib": ("x",),
        "num_warps": 4,
        "num_stages": 1,
    }
    return CompileRequest(**(fields | changes))


CHANGES = [
    {"source": "def kernel(): return"},
    {"kernel": "other"},
    {"backend": "cuda"},
    {"compiler_arch": "gfx1200"},
    {"wavefront_size": 64},
    {"signature": (("x", "*fp16"), ("n", "i32"))},
    {"signature": (("n", "i32"), ("x", "*fp32"))},
    {"constants": (("BLOCK", 128),)},
    {"constants": (("BLOCK", 64), ("MORE", 0))},
    {"divisibility": ()},
    {"divisibility": (("x", 4),)},
    {"divisibility": (("x", 16), ("n", 16))},
    {"within_2gib": ()},
    {"num_warps": 8},
    {"num_stages": 2},
    {"options": (("waves_per_eu", 2),)},
    {"options": (("waves_per_eu", 3),)},
    {"shared_limit_bytes": 65_536},
    {"shared_limit_bytes": 101_376},
    {"enable_fp_fusion": False},
    {"line_info": True},
]


def test_everything_that_decides_the_object_is_in_the_key():
    requests = [a_request(), *(a_request(**change) for change in CHANGES)]
    keys = [cache_key(request, TOOLCHAIN) for request in requests]
    keys += [
        cache_key(a_request(), Toolchain("3.8.1", "ab" * 32)),
        cache_key(a_request(), Toolchain("3.8.0", "cd" * 32)),
    ]
    assert len(set(keys)) == len(keys)
    assert {name for change in CHANGES for name in change} == {f.name for f in dataclasses.fields(CompileRequest)}
    assert cache_key(a_request(), TOOLCHAIN) == keys[0]


def test_a_worker_that_measures_differently_does_not_find_old_outcomes(monkeypatch):
    before = cache_key(a_request(), TOOLCHAIN)
    monkeypatch.setattr(cache_module, "_WORKER_VERSION", cache_module._WORKER_VERSION + 1)
    assert cache_key(a_request(), TOOLCHAIN) != before


def test_joining_parts_differently_gives_another_key():
    """('a|b', 'c') and ('a', 'b|c') are two requests, and so are a text and the number that it spells."""
    pieces = ["a|b", "c", "a", "b|c", 'a","b', "1"]
    lists = [list(part) for size in (1, 2, 3) for part in itertools.product(pieces, repeat=size)]
    spelled = [canonical_json(part) for part in lists]
    assert len(set(spelled)) == len(lists)
    assert canonical_json(["1"]) != canonical_json([1])
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})
    split = [a_request(signature=parts) for parts in [(("a", "b,c"),), (("a,b", "c"),), (("a", "b"), ("c", ""))]]
    assert len({cache_key(request, TOOLCHAIN) for request in split}) == 3


@pytest.fixture
def cache(tmp_path):
    return CompileCache(tmp_path / "cache")


def entry(cache, key=KEY):
    return cache._store._path(key)


def test_what_was_kept_comes_back_whole_and_is_marked_as_cached(cache):
    cache.put(KEY, OUTCOME)
    found = cache.get(KEY)
    assert found == OUTCOME
    assert found.cached
    assert cache.get(OTHER) is None
    assert cache.damaged == []


@pytest.mark.parametrize("status", ["compile_error", "compiler_complaint"])
def test_a_failure_of_the_compiler_reads_the_same_warm(cache, status):
    failure = Outcome(status, messages="error: could not allocate input reg\nsecond line \N{SNOWMAN}")
    cache.put(KEY, failure)
    assert cache.get(KEY) == failure


@pytest.mark.parametrize("status", ["crashed", "timed_out"])
def test_what_may_be_the_machines_fault_is_not_kept(cache, status):
    cache.put(KEY, Outcome(status, messages="killed"))
    assert cache.get(KEY) is None
    assert not list(cache._store._directory.rglob("*.outcome"))


def test_no_damaged_entry_is_trusted(cache):
    cache.put(KEY, OUTCOME)
    path = entry(cache)
    good = path.read_bytes()
    damaged = [b"", bytes(len(good)), good + b"\0", good[:-1]]
    damaged += [good[:length] for length in range(0, len(good), 16)]
    for position in range(len(good)):
        damaged.append(good[:position] + bytes([good[position] ^ 1 << position % 8]) + good[position + 1 :])
    for number, data in enumerate(damaged, 1):
        path.write_bytes(data)
        assert cache.get(KEY) is None
        assert cache.damaged == [path.name] * number
    path.write_bytes(good)
    assert cache.get(KEY) == OUTCOME


def test_an_entry_under_another_name_is_not_trusted(cache):
    cache.put(KEY, OUTCOME)
    entry(cache, OTHER).parent.mkdir()
    shutil.copy(entry(cache), entry(cache, OTHER))
    assert cache.get(OTHER) is None
    assert cache.damaged == [f"{OTHER}.outcome"]


def test_a_folder_in_the_place_of_an_entry_is_damage_and_no_crash(cache):
    entry(cache).mkdir(parents=True)
    assert cache.get(KEY) is None
    assert cache.damaged == [f"{KEY}.outcome"]


def test_a_cache_may_be_moved(cache, tmp_path):
    cache.put(KEY, OUTCOME)
    shutil.copytree(tmp_path / "cache", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "cache")
    assert CompileCache(tmp_path / "elsewhere").get(KEY) == OUTCOME


@pytest.mark.parametrize("step", ["replace", "write"])
def test_an_entry_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(cache, monkeypatch, step):
    cache.put(KEY, OUTCOME)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if step == "replace":
            patch.setattr(os, "replace", full)
        else:
            original = store_module.tempfile.NamedTemporaryFile

            def broken(*arguments, **options):
                file = original(*arguments, **options)
                file.write = full
                return file

            patch.setattr(store_module.tempfile, "NamedTemporaryFile", broken)
        with pytest.raises(CacheError, match=r"No space left on device.*ASSAY_CACHE_DIR"):
            cache.put(KEY, dataclasses.replace(OUTCOME, code=b"new"))
    assert cache.get(KEY) == OUTCOME
    assert [path.name for path in entry(cache).parent.iterdir()] == [entry(cache).name]


def test_a_file_in_the_place_of_the_cache_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(CacheError, match="name another with ASSAY_CACHE_DIR"):
        CompileCache(tmp_path / "cache")


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("ASSAY_CACHE_DIR", raising=False)
    assert default_cache_directory() == tmp_path / "xdg/assay"
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "mine"))
    assert default_cache_directory() == tmp_path / "mine"
