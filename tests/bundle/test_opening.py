"""The short way into a bundle and to a row: what it gives is what the long way gives, and it gives nothing else.

That it opens nothing that is refused otherwise is asked of every bundle that tests of this folder open: conftest.py.
"""

import hashlib
import itertools
import json
import os
import random

import pytest

from assay.bundle import Bundle, BundleError, canonical, format, opening, records, rules, table_codec, write_bundle
from assay.bundle import writer as writer_module
from assay.bundle.opening import Doubt, open_whole
from assay.bundle.picking import PickedRow, fields_asked, picked
from assay.bundle.table import known_fields, select
from assay.bundle.verdicts import NoMatch

FIELDS = {
    "dtype": ("bf16", "fp8", 1, True, None),
    "size": (1, 64, 96, 128, 2**31, "64"),
    "rows": (1, 2, 8, 9),
    "flag": (True, False, 1),
}
CONDITIONS = (
    ("dtype", "eq", "bf16"), ("dtype", "one_of", ("fp8", 1)), ("size", "multiple_of", 32), ("size", "at_most", 128),
    ("rows", "at_least", 2), ("rows", "at_most", 8), ("flag", "eq", True), ("flag", "eq", False),
)  # fmt: skip


def test_the_numbers_of_the_format_are_those_of_the_long_way():
    assert (opening.HEADER_SIZE, opening._BEGINNING) == (format.HEADER_SIZE, (format.MAGIC, format.MAJOR))
    assert opening._HEADER.format == format._HEADER.format
    assert records.SCHEMA[0] == opening._SCHEMA_MAJOR
    limits = (opening._ALIGNMENT, opening._MAX_RATIO, opening._MAX_RAW_BYTES)
    assert limits == (format.ALIGNMENT, format.MAX_RATIO, format.MAX_RAW_BYTES)
    assert dict(opening._ENTRY) == format._ENTRY_TYPES


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (opening.is_name, rules.NAME[0]), (opening.is_hash, rules.HASH[0]), (opening.is_count, rules.COUNT[0]),
        (lambda value: opening.is_count(value, 1), rules.POSITIVE[0]),
    ],
)  # fmt: skip
def test_the_short_way_judges_values_as_the_long_way_does(short, long):
    hexadecimal = "0123456789abcdef" * 4
    texts = ["", "a", "_a", ".a", "a.b+c-d", "a b", "ä", "a" * 128, "a" * 129, hexadecimal, hexadecimal.upper(), "a\n"]
    values = [*texts, hexadecimal[1:], None, True, False, 0, 1, -1, 2**63 - 1, 2**63, 1.0, [], {}]
    assert [bool(short(value)) for value in values] == [bool(long(value)) for value in values]


def test_a_whole_bundle_is_opened_and_all_of_it_is_read(small, bundle_path):
    opened = open_whole(bundle_path)
    assert {key: opened.object_bytes(key) for key in small.objects} == small.objects
    with Bundle.open(bundle_path) as bundle:
        for family in bundle.families():
            assert fields_asked(opened.table(family)) == known_fields(bundle.rows(family))
    opened.close()
    with pytest.raises(Doubt):
        opened.object_bytes(next(iter(small.objects)))


def test_what_is_no_path_is_left_to_the_long_way_and_a_descriptor_stays_open(bundle_path):
    with open(bundle_path, "rb") as file:
        for path in (os.fsencode(bundle_path), file.fileno(), None):
            assert open_whole(path) is None
            with pytest.raises(TypeError):
                Bundle.open(path)
        assert os.fstat(file.fileno()).st_size == bundle_path.stat().st_size


def test_a_hash_that_is_none_is_not_spelled_into_the_identity(small, tmp_path, monkeypatch):
    """Two spellings of it, one with an escape, would be two identities: the long way refuses the other."""

    def spoilt(sections):
        spoil = next(section for section in sections if section.kind == "variants")
        sections = [s._replace(raw_sha256='"') if s is spoil else s for s in sections]
        bearing = [s for s in sections if s.kind in ("manifest", "table", "variants")]
        bearing.sort(key=lambda s: (format.KIND_ORDER.index(s.kind), s.name))
        return sections, bearing

    pack, identity = writer_module.pack_directory, writer_module.identity_of
    monkeypatch.setattr(writer_module, "pack_directory", lambda sections: pack(spoilt(sections)[0]))

    def unescaped(sections, halves):
        digest = hashlib.sha256(b"assay bundle identity 1\n")
        for s in spoilt(sections)[1]:
            digest.update(f'["{s.kind}","{s.name}",{s.raw_size},"{s.raw_sha256}"]'.encode())
        for half in halves:
            digest.update(len(half).to_bytes(8, "little") + half)
        return digest.digest()

    assert identity is format.identity_of
    monkeypatch.setattr(writer_module, "identity_of", unescaped)
    write_bundle(tmp_path / "x", small)
    assert open_whole(tmp_path / "x") is None
    with pytest.raises(BundleError, match="identity"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize("key", ["00" * 32, "xy", ""])
def test_an_object_that_is_not_there_is_not_found(bundle_path, key):
    with pytest.raises(Doubt):
        open_whole(bundle_path).object_bytes(key)


def test_damaged_objects_are_not_read(bundle_path):
    whole = bundle_path.read_bytes()
    with Bundle.open(bundle_path) as bundle:
        blobs = dict(bundle._blob_index("object"))
    for key, blob in blobs.items():
        for offset in (blob.offset, blob.offset + blob.stored_size - 1):
            damaged = bytearray(whole)
            damaged[offset] ^= 4
            bundle_path.write_bytes(damaged)
            with pytest.raises(Doubt):
                open_whole(bundle_path).object_bytes(key)


@pytest.mark.parametrize("shift", [-64, 64, 2**40])
def test_a_blob_outside_its_area_is_not_read_though_every_hash_is_right(small, tmp_path, monkeypatch, shift):
    pack = writer_module.pack_index
    monkeypatch.setattr(
        writer_module, "pack_index", lambda blobs: pack([b._replace(offset=max(0, b.offset + shift)) for b in blobs])
    )
    write_bundle(tmp_path / "x", small)
    for key in small.objects:
        with pytest.raises(Doubt):
            open_whole(tmp_path / "x").object_bytes(key)


def made_table(factory, seed):
    draw = random.Random(seed)
    rows = {}
    for number in range(draw.randrange(1, 12)):
        conditions = draw.sample(CONDITIONS, draw.randrange(len(CONDITIONS)))
        changes = {"target": draw.choice(("gfx1201", "sm120")), "preference": draw.randrange(3)}
        rows[f"r{number}"] = factory.make_row(f"r{number}", conditions, **changes)
    return table_codec.encode_table(rows.values())


@pytest.mark.parametrize("seed", range(40))
def test_the_row_that_is_picked_is_the_one_that_is_selected(factory, seed):
    data = made_table(factory, seed)
    document, rows = canonical.decode(data, "t"), table_codec.decode_table(data, "copy", "t")
    for values in itertools.product(*FIELDS.values()):
        request = dict(zip(FIELDS, values, strict=True))
        for targets in ({"gfx1201"}, {"sm120"}, {"gfx1201", "sm120"}, set()):
            found = picked(document, "copy", request, targets)
            try:
                row = select([row for row in rows if row.target in targets], request).row
            except NoMatch:
                assert found is None
                continue
            same = [name for name in PickedRow.__slots__ if name not in ("arguments", "grid")]
            assert [getattr(found, name) for name in same] == [getattr(row, name) for name in same]
            assert tuple(map(tuple, found.grid)) == row.grid
            arguments = [(a.name, a.offset, a.size, a.kind) for a in found.arguments]
            assert arguments == [tuple(argument) for argument in row.arguments]


@pytest.mark.parametrize("request_", [{"n": 0}, {"n": -3, "dtype": "bf16"}, {}])
def test_what_no_call_can_have_is_left_to_the_long_way(factory, request_):
    document = canonical.decode(table_codec.encode_table([factory.make_row("r", [("n", "at_most", 3)])]), "t")
    assert picked(document, "copy", request_, {"gfx1201"}) is None


SPOILT = {
    "hidden_arguments": (-1, "1", True), "id": ("", 5, "a b"), "lds_bytes": (-1, 1.5, None), "num_warps": (3, 64, True),
    "preference": ("1", None), "wavefront_size": (16, "32"), "conditions": ([9], [-1], [True], "0", 5),
    "arguments": (7, -1, True), "object": (1, None), "target": (True,),
}  # fmt: skip
SPOILT_POOLS = {
    "arguments": ([["x", 0]], [["x", 0, 8, "double"]], [["x", -1, 8, "i64"]], 7, [7]), "grid": ([], [["x"]] * 4, "xyz"),
    "launch": ([], None), "object": ("00", None), "symbol": ("", None), "specialisation": ([],), "target": (["x"], 5),
    "conditions": (["x", "eq"], None, ["n", "is_prime", 3]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        *(("columns", name, value) for name, values in SPOILT.items() for value in values),
        *(("pools", name, value) for name, values in SPOILT_POOLS.items() for value in values),
    ],
)
def test_a_malformed_row_is_never_picked(factory, part, name, value):
    document = json.loads(table_codec.encode_table([factory.make_row("r", [("n", "eq", 3)])]))
    assert picked(document, "copy", {"n": 3}, {"gfx1201"}).id == "r"
    document[part][name][0] = value
    assert picked(document, "copy", {"n": 3}, {"gfx1201"}) is None


@pytest.mark.parametrize("part", ["columns", "pools"])
def test_a_table_that_lacks_something_gives_no_row(factory, part):
    whole = table_codec.encode_table([factory.make_row("r", [("n", "eq", 3)])])
    for name in json.loads(whole)[part]:
        for spoil in (lambda names, name: names.pop(name), lambda names, name: names.update({name: {}})):
            document = json.loads(whole)
            spoil(document[part], name)
            assert picked(document, "copy", {"n": 3}, {"gfx1201"}) is None
            with pytest.raises(BundleError):
                table_codec.decode_table(canonical.encode(document), "copy", "t")
