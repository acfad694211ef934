"""Whatever is wrong with the file: a BundleError that names it, never another error, never a wrong byte."""

import json
import zlib

import pytest

from assay.bundle import (
    Bundle,
    BundleError,
    attach_evidence,
    canonical,
    format,
    table_codec,
    verify_bundle,
    write_bundle,
)
from assay.bundle import writer as writer_module


@pytest.fixture
def whole(bundle_path):
    attach_evidence(bundle_path, {"device": b'{"error": 0.5}'})
    return bundle_path.read_bytes()


def use_everything(path):
    with Bundle.open(path) as bundle:
        for family in bundle.families():
            bundle.rows(family)
        for key in bundle.object_hashes():
            bundle.object_bytes(key)
        for id in bundle.variant_ids():
            bundle.variant(id)
        for name in bundle.evidence_names():
            bundle.evidence(name)


def test_every_flipped_bit_is_found(whole, bundle_path):
    for offset in range(0, len(whole), 64):
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << (offset // 64 % 8)
        bundle_path.write_bytes(damaged)
        assert verify_bundle(bundle_path), f"a flip at {offset} was not found"


def test_every_byte_of_header_and_directory_is_covered(whole, bundle_path):
    with Bundle.open(bundle_path) as bundle:
        header = bundle._header
    directory = range(header.directory_offset, header.identity_end, 7)
    for offset in (*range(format.HEADER_SIZE), *directory):
        damaged = bytearray(whole)
        damaged[offset] ^= 0x10
        bundle_path.write_bytes(damaged)
        assert verify_bundle(bundle_path), f"a flip at {offset} was not found"


def test_padding_is_checked(whole, bundle_path):
    with Bundle.open(bundle_path) as bundle:
        end = bundle._section("manifest").end
    assert end % 64
    bundle_path.write_bytes(whole[:end] + b"\x01" + whole[end + 1 :])
    assert "padding" in str(verify_bundle(bundle_path)[0])


def test_every_truncation_is_found_and_named(whole, bundle_path):
    with Bundle.open(bundle_path) as bundle:
        identity_end = bundle._header.identity_end
    for size in range(0, len(whole), 64):
        bundle_path.write_bytes(whole[:size])
        faults = verify_bundle(bundle_path)
        # Cut exactly there, it is the same bundle without evidence: nothing of its identity is missing.
        assert bool(faults) == (size != identity_end), size
        assert all(str(bundle_path) in str(fault) for fault in faults)


def test_a_damaged_bundle_is_never_used_as_if_it_were_whole(whole, bundle_path):
    """Reading everything finds each flip too, except in padding, which nothing reads."""
    with Bundle.open(bundle_path) as bundle:
        spans = [(s.offset, s.end) for s in bundle._sections if s.kind not in ("objects", "sources")]
        blobs = [*bundle._blob_index("object").values(), *bundle._blob_index("source").values()]
        spans += [(blob.offset, blob.offset + blob.stored_size) for blob in blobs]
    for start, end in spans:
        for offset in {start, (start + end) // 2, end - 1}:
            damaged = bytearray(whole)
            damaged[offset] ^= 4
            bundle_path.write_bytes(damaged)
            with pytest.raises(BundleError, match=r"small\.assay"):
                use_everything(bundle_path)


def test_something_appended_is_found(whole, bundle_path):
    bundle_path.write_bytes(whole + b"\0")
    assert verify_bundle(bundle_path)


def test_two_code_objects_in_each_others_place_are_refused(factory, tmp_path):
    """The same kernel name for two architectures: each is held to its own hash."""
    path = tmp_path / "x.assay"
    rows = [factory.make_row("amd", symbol="k"), factory.make_row("nvidia", symbol="k", target="sm120")]
    write_bundle(path, factory.make_contents(rows))
    data = bytearray(path.read_bytes())
    with Bundle.open(path) as bundle:
        one, two = (bundle._blob_index("object")[row.object] for row in rows)
    size = min(one.stored_size, two.stored_size)
    first, second = data[one.offset : one.offset + size], data[two.offset : two.offset + size]
    data[one.offset : one.offset + size], data[two.offset : two.offset + size] = second, first
    path.write_bytes(data)
    with Bundle.open(path) as bundle:
        for row in rows:
            with pytest.raises(BundleError, match=f"object {row.object}"):
                bundle.object_bytes(row.object)
    assert len(verify_bundle(path)) >= 2


def test_objects_filed_under_each_others_hash_are_refused_by_the_writer(small, tmp_path):
    one, two, *_ = small.objects
    swapped = small.objects | {one: small.objects[two], two: small.objects[one]}
    with pytest.raises(BundleError, match="its bytes hash to"):
        write_bundle(tmp_path / "x", small._replace(objects=swapped))


@pytest.mark.parametrize(("major", "hint"), [(2, "a newer assay wrote it"), (0, "rebuild it")])
def test_another_format_major_is_refused_with_both_versions(small, tmp_path, monkeypatch, major, hint):
    monkeypatch.setattr(format, "MAJOR", major)
    write_bundle(tmp_path / "x", small)
    monkeypatch.undo()
    with pytest.raises(BundleError, match=rf"format version {major}\.0; allowed: version 1\.x; {hint}"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize("major", [2, 0])
def test_another_schema_major_is_refused_with_both_versions(small, tmp_path, monkeypatch, major):
    rewrite_manifest(monkeypatch, lambda manifest: manifest | {"schema": [major, 3], "targets": "otherwise"})
    write_bundle(tmp_path / "x", small)
    with pytest.raises(BundleError, match=rf"schema version {major}\.3; allowed: version 1\.x"):
        Bundle.open(tmp_path / "x")


def test_a_newer_minor_and_unknown_optional_fields_are_tolerated(small, tmp_path, monkeypatch):
    monkeypatch.setattr(format, "MINOR", 7)

    def newer(manifest):
        targets = [target | {"later": 1} for target in manifest["targets"]]
        return manifest | {"schema": [1, 9], "later": {"x": [1]}, "targets": targets}

    rewrite_manifest(monkeypatch, newer)
    encode = writer_module.encode_table

    def with_column(rows):
        table = canonical.decode(encode(rows), "table")
        table["columns"]["later"] = [0] * len(table["columns"]["id"])
        table["pools"]["later"] = ["x"]
        return canonical.encode(table | {"later": None})

    monkeypatch.setattr(writer_module, "encode_table", with_column)
    add = writer_module._Builder.add_blobs
    monkeypatch.setattr(
        writer_module._Builder, "add_blobs", lambda self, groups: (self.add("later", "x", b"?"), add(self, groups))[1]
    )
    write_bundle(tmp_path / "x", small)
    assert verify_bundle(tmp_path / "x") == []
    with Bundle.open(tmp_path / "x") as bundle:
        assert sorted(bundle.rows("copy"), key=str) == sorted((r for r in small.rows if r.family == "copy"), key=str)


@pytest.mark.parametrize("missing", ["toolchain", "profile", "targets", "schema", "families"])
def test_a_missing_field_is_named(small, tmp_path, monkeypatch, missing):
    rewrite_manifest(monkeypatch, lambda manifest: {k: v for k, v in manifest.items() if k != missing})
    write_bundle(tmp_path / "x", small)
    with pytest.raises(BundleError, match=rf"manifest: (no field )?{missing}"):
        Bundle.open(tmp_path / "x")


def test_an_object_that_inflates_beyond_its_declared_size_is_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "deflate", lambda raw: zlib.compress(raw + bytes(5_000_000), 9))
    write_bundle(tmp_path / "x", small)
    inflated = []
    real = zlib.decompressobj

    class Watched:
        def __init__(self):
            self._real = real()

        def decompress(self, data, limit):
            raw = self._real.decompress(data, limit)
            inflated.append(len(raw))
            return raw

        def __getattr__(self, name):
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with Bundle.open(tmp_path / "x") as bundle:
        for key, raw in small.objects.items():
            with pytest.raises(BundleError, match="does not inflate to its declared size"):
                bundle.object_bytes(key)
            assert inflated[-1] == len(raw) + 1


@pytest.mark.parametrize("claimed", [1 << 20, 1 << 40])
def test_a_declared_size_that_no_stream_can_have_is_refused_before_inflating(small, tmp_path, monkeypatch, claimed):
    pack = writer_module.pack_index
    monkeypatch.setattr(
        writer_module,
        "pack_index",
        lambda blobs: pack([blob._replace(raw_size=claimed) for blob in blobs]),
    )
    write_bundle(tmp_path / "x", small)
    with Bundle.open(tmp_path / "x") as bundle, pytest.raises(BundleError, match=r"at most|ratio"):
        bundle.object_bytes(next(iter(small.objects)))


def test_duplicate_keys_are_refused_though_every_hash_is_right(small, tmp_path, monkeypatch):
    encode = canonical.encode

    def doubled(value, where="value"):
        data = encode(value, where)
        return data.replace(b'"profile":"core"', b'"profile":"core","profile":"full"') if where == "manifest" else data

    monkeypatch.setattr(canonical, "encode", doubled)
    write_bundle(tmp_path / "x", small)
    with pytest.raises(BundleError, match="duplicate key profile"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 192},
        {"offset": 2**63},
        {"offset": -64},
        {"stored_size": 0},
        {"stored_size": 2**40},
        {"raw_size": 2**40},
        {"codec": "exec"},
        {"codec": None},
        {"kind": "manifest", "name": ""},
        {"offset": 1.5},
    ],
)
def test_sections_that_overlap_or_leave_the_file_are_refused_though_every_hash_is_right(
    small, tmp_path, monkeypatch, change
):
    pack = writer_module.pack_directory

    def changed(sections):
        entries = canonical.decode(pack(sections), "directory")["sections"]
        entries[2].update(change)
        text = str(entries).replace("'", '"').replace("None", "null")
        return ('{"sections":' + text + "}").encode()

    monkeypatch.setattr(writer_module, "pack_directory", changed)
    write_bundle(tmp_path / "x", small)
    with pytest.raises(BundleError, match="directory"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize("missing", format.KIND_ORDER[:1] + format.KIND_ORDER[3:])
def test_a_missing_section_is_refused(small, tmp_path, monkeypatch, missing):
    pack = writer_module.pack_directory
    monkeypatch.setattr(writer_module, "pack_directory", lambda s: pack([x for x in s if x.kind != missing]))
    write_bundle(tmp_path / "x", small)
    with pytest.raises(BundleError, match=f"no section {missing}"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize("shift", [-64, 64, 2**40])
def test_blobs_outside_their_area_are_refused_though_every_hash_is_right(small, tmp_path, monkeypatch, shift):
    pack = writer_module.pack_index

    def shifted(blobs):
        *rest, last = blobs
        return pack([*rest, last._replace(offset=max(0, last.offset + shift))])

    monkeypatch.setattr(writer_module, "pack_index", shifted)
    write_bundle(tmp_path / "x", small)
    with Bundle.open(tmp_path / "x") as bundle, pytest.raises(BundleError, match="no overlap, no gap"):
        bundle.object_bytes(next(iter(small.objects)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t["columns"].pop("id"),
        lambda t: t["pools"].pop("grid"),
        lambda t: t["columns"]["object"].__setitem__(0, 99),
        lambda t: t["columns"]["object"].__setitem__(0, -1),
        lambda t: t["columns"]["object"].__setitem__(0, True),
        lambda t: t["columns"]["object"].append(0),
        lambda t: t["columns"]["lds_bytes"].__setitem__(0, -1),
        lambda t: t["columns"]["num_warps"].__setitem__(0, 3),
        lambda t: t["columns"]["id"].__setitem__(0, ["x"]),
        lambda t: t["columns"]["conditions"].__setitem__(0, 5),
        lambda t: t["columns"]["conditions"].__setitem__(0, [[0]]),
        lambda t: t["pools"]["arguments"].__setitem__(0, [["x", 0]]),
        lambda t: t["pools"]["arguments"].__setitem__(0, [["x", 0, 8, "double"]]),
        lambda t: t["pools"]["arguments"].__setitem__(0, 7),
        lambda t: t["pools"]["conditions"].__setitem__(0, ["x", "multiple_of", 0]),
        lambda t: t["pools"]["conditions"].__setitem__(0, ["x", "eq"]),
        lambda t: t["pools"]["conditions"].__setitem__(0, None),
        lambda t: t["pools"]["conditions"].__setitem__(0, ["x", "eq", nested(900)]),
        lambda t: t["pools"]["grid"].__setitem__(0, nested(900)),
        lambda t: t["pools"]["symbol"].__setitem__(0, nested(900)),
        lambda t: t["pools"]["grid"].__setitem__(0, [["x"]] * 4),
        lambda t: t["pools"]["grid"].__setitem__(0, "xyz"),
        lambda t: t["pools"]["launch"].__setitem__(0, []),
        lambda t: t["pools"]["object"].__setitem__(0, "00"),
        lambda t: t.pop("pools"),
    ],
)
def test_a_malformed_table_is_refused_though_every_hash_is_right(factory, spoil):
    table = canonical.decode(table_codec.encode_table(factory.small_rows()[:3]), "table")
    spoil(table)
    with pytest.raises(BundleError, match=r"x\.assay: table"):
        table_codec.decode_table(json.dumps(table).encode(), "copy", "x.assay: table copy")


def test_an_operator_of_a_newer_minor_never_holds(factory):
    table = canonical.decode(table_codec.encode_table([factory.make_row("r", [("n", "eq", 3)])]), "table")
    table["pools"]["conditions"] = [["n", "is_prime", None]]
    (row,) = table_codec.decode_table(canonical.encode(table), "copy", "t")
    assert not row.conditions[0].holds({"n": 3})
    assert "does not know" in row.conditions[0].required()


@pytest.mark.parametrize("data", [b"", b"\x89", b"PK\x03\x04" + bytes(400), b"\x7fELF" + bytes(400)])
def test_a_file_of_another_kind_is_refused(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(BundleError, match="is not an assay bundle"):
        Bundle.open(tmp_path / "x")


@pytest.mark.parametrize("name", ["absent", ".", "a\0b"])
def test_what_cannot_be_opened_is_a_bundle_error_naming_the_path(tmp_path, name):
    with pytest.raises(BundleError, match="cannot be opened"):
        Bundle.open(tmp_path / name)


def test_a_failed_open_leaves_no_file_open(whole, bundle_path, monkeypatch):
    closed = []
    from assay.bundle.store import Store

    close = Store.close
    monkeypatch.setattr(Store, "close", lambda self: (closed.append(1), close(self)))
    bundle_path.write_bytes(whole[:700])
    with pytest.raises(BundleError):
        Bundle.open(bundle_path)
    assert closed == [1]


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def rewrite_manifest(monkeypatch, change):
    real = writer_module._manifest_json
    monkeypatch.setattr(writer_module, "_manifest_json", lambda *parts: change(real(*parts)))
