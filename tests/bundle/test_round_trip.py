import json
import os
import random
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from assay.bundle import Bundle, BundleError, UnknownName, format, verify_bundle, write_bundle


def test_what_was_written_is_read_back_equal(small, bundle_path):
    with Bundle.open(bundle_path) as bundle:
        rows = [row for family in bundle.families() for row in bundle.rows(family)]
        assert sorted(rows, key=lambda row: row.id) == sorted(small.rows, key=lambda row: row.id)
        assert [bundle.variant(variant.id) for variant in small.variants] == list(small.variants)
        assert {key: bundle.object_bytes(key) for key in bundle.object_hashes()} == small.objects
        assert bundle.families() == ("copy", "merge_splits")
        manifest = bundle.manifest._replace(counts={}, bytes={})
        assert manifest == small.manifest
        assert manifest.sources == small.manifest.sources
        assert manifest.toolchain == small.manifest.toolchain
        assert bundle.manifest.counts["rows:sm120"] == 1
    assert verify_bundle(bundle_path) == []


def test_equal_contents_in_any_order_give_equal_bytes(small, tmp_path):
    written = set()
    for seed in range(4):
        shuffle = random.Random(seed).sample
        contents = small._replace(
            rows=tuple(shuffle(small.rows, len(small.rows))),
            variants=tuple(shuffle(small.variants, len(small.variants))),
            objects=dict(shuffle(list(small.objects.items()), len(small.objects))),
            manifest=small.manifest._replace(targets=small.manifest.targets[:: 1 - 2 * (seed % 2)]),
            evidence=dict(shuffle([("a", b"1"), ("b", b"2")], 2)),
        )
        path = tmp_path / str(seed) / "x.assay"
        path.parent.mkdir()
        write_bundle(path, contents)
        written.add(path.read_bytes())
    assert len(written) == 1


def test_the_hash_seed_makes_no_difference(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import factory; from assay.bundle import write_bundle;"
        "print(write_bundle(sys.argv[2], factory.make_contents(factory.small_rows())))"
    )
    seen = set()
    for seed in ("0", "1", "77"):
        path = tmp_path / f"{seed}.assay"
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, str(Path(__file__).parent), str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seen.add((done.stdout, path.read_bytes()))
    assert len(seen) == 1


def test_another_zlib_gives_other_bytes_but_the_same_identity(small, tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    identity = write_bundle(one, small)
    monkeypatch.setattr("assay.bundle.writer.deflate", lambda raw: zlib.compress(raw, 0))
    assert write_bundle(two, small) == identity
    assert one.read_bytes() != two.read_bytes()
    assert verify_bundle(two) == []


def test_whatever_decides_a_launch_changes_the_identity(small, tmp_path):
    identity = write_bundle(tmp_path / "x", small)
    row = small.rows[0]
    other_row = small._replace(rows=(row._replace(lds_bytes=row.lds_bytes + 16), *small.rows[1:]))
    other_version = small._replace(manifest=small.manifest._replace(bundle_version="1.2.1"))
    assert write_bundle(tmp_path / "x", other_row) != identity
    assert write_bundle(tmp_path / "x", other_version) != identity


def test_equal_code_objects_are_stored_once(factory, tmp_path):
    raw = factory.code("shared")
    rows = [factory.make_row(f"r{i}", [("n", "eq", i)], object_=factory.sha(raw)) for i in range(5)]
    write_bundle(tmp_path / "x", factory.make_contents(rows, {factory.sha(raw): raw}))
    with Bundle.open(tmp_path / "x") as bundle:
        assert bundle.manifest.counts["objects"] == 1
        assert {bundle.object_bytes(row.object) for row in bundle.rows("copy")} == {raw}


def test_every_code_object_begins_at_a_multiple_of_64(bundle_path):
    with Bundle.open(bundle_path) as bundle:
        assert all(blob.offset % 64 == 0 for blob in bundle._blob_index("object").values())


def test_the_file_names_no_path_of_the_machine_that_wrote_it(small, tmp_path):
    path = tmp_path / "x.assay"
    write_bundle(path, small)
    assert str(tmp_path).encode() not in path.read_bytes()


def test_opening_reads_no_code_object_and_asking_for_one_reads_no_other(bundle_path, monkeypatch):
    with Bundle.open(bundle_path) as bundle:
        blobs = bundle._blob_index("object")
        read = []
        monkeypatch.setattr("os.pread", _noting(os.pread, read))
        rows = bundle.rows("copy")
        wanted = blobs[rows[0].object]
        bundle.object_bytes(rows[0].object)
        area = min(blob.offset for blob in blobs.values())
        assert [(offset, size) for offset, size in read if offset >= area] == [(wanted.offset, wanted.stored_size)]
        assert len(read) == 2  # The family's table, and the object.


def test_opening_touches_nothing_behind_the_indexes_but_the_directory(bundle_path, monkeypatch):
    read = []
    monkeypatch.setattr("os.pread", _noting(os.pread, read))
    with Bundle.open(bundle_path) as bundle:
        area = bundle._section("objects").offset
        assert {offset for offset, size in read if offset >= area and size} >= {bundle._header.directory_offset}
        assert all(offset >= bundle._header.directory_offset for offset, _ in read if offset >= area)


def test_many_threads_read_one_bundle(small, bundle_path):
    problems = []
    for _ in range(5):
        with Bundle.open(bundle_path) as bundle:
            barrier = threading.Barrier(16)

            def work(bundle=bundle, barrier=barrier):
                barrier.wait()
                try:
                    assert len(bundle.rows("copy")) == 4
                    assert all(bundle.object_bytes(key) == raw for key, raw in small.objects.items())
                    assert bundle.variant("merge").family == "merge_splits"
                except BaseException as error:
                    problems.append(error)

            threads = [threading.Thread(target=work) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not problems


def test_reading_works_without_pread(small, bundle_path, monkeypatch):
    monkeypatch.delattr(os, "pread")
    with Bundle.open(bundle_path) as bundle:
        assert {key: bundle.object_bytes(key) for key in bundle.object_hashes()} == small.objects


def test_unknown_names_are_refused_with_the_nearest(bundle_path):
    with Bundle.open(bundle_path) as bundle:
        for ask, name, hint in (
            (bundle.rows, "merge_split", "merge_splits"),
            (bundle.variant, "alinged", "aligned"),
            (bundle.object_bytes, "00", "one of 5|allowed"),
            (bundle.evidence, "x", "none"),
        ):
            with pytest.raises(UnknownName, match=hint):
                ask(name)


def test_a_closed_bundle_says_so_and_what_was_read_stays_valid(bundle_path):
    bundle = Bundle.open(bundle_path)
    rows = bundle.rows("copy")
    bundle.close()
    bundle.close()
    assert bundle.rows("copy") is rows
    with pytest.raises(BundleError, match=r"small\.assay.*closed"):
        bundle.object_bytes(rows[0].object)


def test_the_manifest_is_plain_json_in_one_piece(bundle_path):
    with Bundle.open(bundle_path) as bundle:
        section = bundle._section("manifest")
        data = bundle_path.read_bytes()[section.offset : section.end]
    assert json.loads(data)["bundle_version"] == "1.2.0"
    assert format.sha256(data) == section.raw_sha256


def test_sizes_are_reported_for_each_object(bundle_path, small):
    with Bundle.open(bundle_path) as bundle:
        sizes = bundle.sizes()
        assert all(0 < sizes[f"object:{key}"] < len(raw) for key, raw in small.objects.items())
        assert bundle.manifest.bytes["objects"] == sum(map(len, small.objects.values()))


def _noting(pread, read):
    def noted(descriptor, size, offset):
        read.append((offset, size))
        return pread(descriptor, size, offset)

    return noted
