from assay.bundle import Fault, FaultsError, verify_bundle, write_bundle
from assay.bundle import writer as writer_module


def test_each_row_is_shown_to_the_reader_of_code_objects_with_its_target(bundle_path, small):
    seen = []

    def read_object(code, row, target):
        assert code == small.objects[row.object]
        seen.append((row.id, target.arch))
        return []

    assert verify_bundle(bundle_path, read_object) == []
    assert sorted(seen) == sorted((row.id, {"sm120": "sm_120a"}.get(row.target, row.target)) for row in small.rows)


def test_what_the_reader_of_code_objects_finds_is_among_the_faults(bundle_path):
    def refuse(code, row, target):
        if row.id == "wide":
            raise FaultsError(Fault(row.id, "gfx1200 in its ELF flags", target.arch))
        if row.id == "merge":
            return [Fault(row.id, "no such symbol")]
        if row.id == "aligned":
            return code[10**9]
        return []

    text = "\n".join(map(str, verify_bundle(bundle_path, refuse)))
    assert "wide: gfx1200 in its ELF flags; allowed: gfx1201" in text
    assert "merge: no such symbol" in text
    assert "row copy/aligned" in text
    assert "IndexError" in text


def test_a_bundle_that_a_careless_writer_made_is_refused(small, tmp_path, monkeypatch):
    """verify asks what the writer asks, of a file whose every hash is right."""
    monkeypatch.setattr(writer_module, "contents_faults", lambda _: [])
    rows = (small.rows[0]._replace(lds_bytes=70_000), small.rows[1]._replace(object="0" * 64), *small.rows[2:])
    write_bundle(tmp_path / "x", small._replace(rows=rows, variants=small.variants[:-1]))
    text = "\n".join(map(str, verify_bundle(tmp_path / "x")))
    assert "launch-time shared memory" in text
    assert "is missing" in text
    assert "variant record is missing" in text


def test_counts_that_are_not_so_are_found(small, tmp_path, monkeypatch):
    real = writer_module._manifest_json
    monkeypatch.setattr(writer_module, "_manifest_json", lambda *p: real(*p) | {"counts": {"rows": 7}})
    write_bundle(tmp_path / "x", small)
    assert any("7 rows; allowed: 5" in str(fault) for fault in verify_bundle(tmp_path / "x"))
