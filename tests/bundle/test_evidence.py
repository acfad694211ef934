import pytest

from assay.bundle import Bundle, BundleError, attach_evidence, verify_bundle


def test_evidence_never_changes_the_identity_nor_the_part_that_bears_it(bundle_path):
    before = bundle_path.read_bytes()
    with Bundle.open(bundle_path) as bundle:
        identity = bundle.identity
        assert bundle.evidence_names() == ()
    attach_evidence(bundle_path, {"gfx1201 emulated": b'{"largest error": 1.5e-3}', "b": b"[]"})
    with Bundle.open(bundle_path) as bundle:
        assert bundle.identity == identity
        assert bundle.evidence_names() == ("b", "gfx1201 emulated")
        assert bundle.evidence("gfx1201 emulated") == {"largest error": 1.5e-3}
    assert bundle_path.read_bytes()[: len(before)] == before
    assert verify_bundle(bundle_path) == []


def test_evidence_is_added_replaced_and_removed_by_name(bundle_path):
    before = bundle_path.read_bytes()
    attach_evidence(bundle_path, {"a": b"1", "b": b"2"})
    attach_evidence(bundle_path, {"b": b"3", "c": b"4", "absent": None})
    with Bundle.open(bundle_path) as bundle:
        assert {name: bundle.evidence(name) for name in bundle.evidence_names()} == {"a": 1, "b": 3, "c": 4}
    attach_evidence(bundle_path, dict.fromkeys("abc"))
    assert bundle_path.read_bytes() == before


def test_the_order_of_attaching_makes_no_difference(bundle_path):
    attach_evidence(bundle_path, {"a": b"1"})
    attach_evidence(bundle_path, {"b": b"2"})
    one = bundle_path.read_bytes()
    attach_evidence(bundle_path, {"a": None, "b": None})
    attach_evidence(bundle_path, {"b": b"2", "a": b"1"})
    assert bundle_path.read_bytes() == one


@pytest.mark.parametrize("bad", [b"", b"{", b"NaN", b'{"x": Infinity}', b"\xff", None.__class__])
def test_what_is_not_json_is_refused_and_nothing_changes(bundle_path, bad):
    before = bundle_path.read_bytes()
    with pytest.raises(BundleError, match="evidence x: is not JSON"):
        attach_evidence(bundle_path, {"x": bad})
    assert bundle_path.read_bytes() == before


def test_evidence_of_another_bundle_is_refused(bundle_path, factory, tmp_path):
    from assay.bundle import write_bundle

    other = tmp_path / "other.assay"
    write_bundle(other, factory.make_contents(factory.small_rows()[:2]))
    size = len(bundle_path.read_bytes())
    attach_evidence(bundle_path, {"a": b"1"})
    other.write_bytes(other.read_bytes() + bundle_path.read_bytes()[size:])
    assert "belongs to another bundle" in str(verify_bundle(other)[0])


def test_damaged_evidence_is_an_error_for_its_reader_and_not_for_the_kernels(bundle_path):
    attach_evidence(bundle_path, {"a": b"1"})
    data = bytearray(bundle_path.read_bytes())
    data[-1] ^= 1
    bundle_path.write_bytes(data)
    with Bundle.open(bundle_path) as bundle:
        bundle.object_bytes(bundle.rows("copy")[0].object)
        with pytest.raises(BundleError, match="evidence a: its SHA-256 does not match"):
            bundle.evidence("a")
    assert verify_bundle(bundle_path)
    with pytest.raises(BundleError):
        attach_evidence(bundle_path, {"b": b"2"})
    assert bundle_path.read_bytes() == data


def test_attaching_to_a_damaged_bundle_is_refused(bundle_path):
    bundle_path.write_bytes(bundle_path.read_bytes()[:-64])
    with pytest.raises(BundleError):
        attach_evidence(bundle_path, {"a": b"1"})
