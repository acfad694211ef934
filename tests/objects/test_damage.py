"""Whatever is done to a file, the reader answers with an ObjectError or with a complete read, and soon."""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.objects import ObjectError, identify, read_object

FILES = (
    "four.gfx1201.hsaco",
    "copy.gfx942.hsaco",
    "three.sm_120.cubin",
    "linked.sm_90a.cubin",
    "shared.sm_90a.abi7.cubin",
)
SLOWEST_SECONDS = 1.0


def answer(raw):
    """The read, or None for a proper refusal; anything else escapes and fails the test."""
    start = time.monotonic()
    read, refusal = None, None
    try:
        read = read_object(raw, where="damaged")
    except ObjectError as error:
        refusal = error
    assert time.monotonic() - start < SLOWEST_SECONDS
    assert refusal is None or (refusal.where.startswith("damaged") and "\n" not in str(refusal))
    return read


def assert_complete(read, whole):
    assert read.kind == whole.kind
    assert len(read.kernels) == len(whole.kernels)
    for kernel in read.kernels:
        assert kernel.resources.code_bytes == len(kernel.code) > 0
        assert kernel.arch == read.arch


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_refused(data, name):
    raw = data(name)
    for size in (*range(0, len(raw), 64), len(raw) - 1):
        assert answer(raw[:size]) is None, f"cut at {size}"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_gives_a_refusal_or_a_complete_read(data, name, flip):
    raw = data(name)
    whole = answer(raw)
    for offset in range(0, len(raw), 64):
        damaged = bytearray(raw)
        damaged[offset] ^= flip
        read = answer(bytes(damaged))
        if read is not None:
            assert_complete(read, whole)


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_the_elf_headers_may_be_absurd(data, name):
    raw = data(name)
    table = int.from_bytes(raw[0x28:0x30], "little")
    for offset in (*range(0, 64, 4), *range(table, len(raw) - 3, 4)):
        damaged = raw[:offset] + b"\xff\xff\xff\xff" + raw[offset + 4 :]
        answer(damaged)


@pytest.mark.parametrize("field", [0, 4], ids=["owner", "contents"])
@pytest.mark.parametrize("value", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_note_sizes_that_lie_are_refused(data, field, value):
    raw = data("four.gfx1201.hsaco")
    head = raw.index(b"AMDGPU\0") - 12
    damaged = raw[: head + field] + value.to_bytes(4, "little") + raw[head + field + 4 :]
    assert answer(damaged) is None


@pytest.mark.parametrize("name", FILES)
def test_a_file_padded_at_the_end_reads_the_same(data, name):
    assert answer(data(name) + b"\0" * 100) == answer(data(name))


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"", "empty file"),
        (b"not an object", "not an ELF"),
        (b"\x7fELF", "cut off"),
        (b"\x7fELF" + bytes(60), "machine 0"),
        (b"\x50\xed\x55\xba" + bytes(60), "cuobjdump"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(60), "clang-offload-bundler"),
        (b"\x7fELF\x01\x01\x01" + bytes(11) + b"\xe0\x00" + bytes(44), "class"),
        (b"\x7fELF\x02\x02\x01" + bytes(11) + b"\xbe\x00" + bytes(44), "order"),
    ],
)
def test_what_is_no_code_object_is_refused_with_its_reason(raw, part):
    with pytest.raises(ObjectError, match=part):
        read_object(raw, where="x")


def test_any_bytes_like_value_is_read(data):
    raw = data("copy.gfx942.hsaco")
    assert answer(bytearray(raw)) == answer(memoryview(raw)) == answer(raw)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_never_escape_as_another_exception(raw):
    identify(raw)
    assert answer(raw) is None
    assert answer(b"\x7fELF\x02\x01\x01" + raw) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(FILES),
    seed=st.integers(0, 2**32),
    edits=st.lists(st.tuples(st.floats(0, 0.9999), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6),
)
def test_random_edits_never_escape_as_another_exception(data, name, seed, edits):
    raw = bytearray(data(name))
    for place, patch in edits:
        at = int(place * len(raw)) + seed % 4
        raw[at : at + len(patch)] = patch
    read = answer(bytes(raw))
    assert read is None or read.kernels


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(note=st.binary(max_size=80))
def test_random_notes_never_escape_as_another_exception(synthetic, note):
    assert answer(synthetic.build_hsaco(synthetic.kernel(), note=note)) is None


def test_a_section_that_claims_gigabytes_costs_nothing(synthetic):
    raw = bytearray(synthetic.build_hsaco(synthetic.kernel()))
    table, count = int.from_bytes(raw[0x28:0x30], "little"), int.from_bytes(raw[0x3C:0x3E], "little")
    for index in range(1, count):
        damaged = bytearray(raw)
        damaged[table + 64 * index + 4] = 8  # NOBITS: no bytes in the file, any size allowed
        damaged[table + 64 * index + 32 : table + 64 * index + 40] = (1 << 40).to_bytes(8, "little")
        assert answer(bytes(damaged)) is None


def test_reading_leaves_no_file_behind(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer(data("four.gfx1201.hsaco"))
    assert os.listdir(tmp_path) == []
