"""A companion is a bundle of another GPU's code: nothing opens it unless it asks for one."""

import pytest

from assay.bundle import Bundle, BundleError, verify_bundle, write_bundle
from assay.bundle import reader as reader_module
from assay.bundle.records import COMPANION_SCHEMA, SCHEMA
from assay.runtime import BundleLoadError, load

OF = "ab" * 32


@pytest.fixture
def contents(small):
    """The small bundle's contents as a companion's."""
    variants = {row.id: {"code_sha256": OF, "rewritten": {"add.f32x2": 3}} for row in small.rows}
    said = {"of": OF, "target": "sm90", "arch": "sm_90a", "variants": variants}
    return small._replace(manifest=small.manifest._replace(companion=said, schema=COMPANION_SCHEMA))


@pytest.fixture
def companion(contents, tmp_path):
    write_bundle(tmp_path / "x.companion", contents)
    return tmp_path / "x.companion"


def changed(contents, change):
    said = {**contents.manifest.companion, "variants": dict(contents.manifest.companion["variants"])}
    change(said)
    return contents._replace(manifest=contents.manifest._replace(companion=said))


def test_it_is_refused_by_name_unless_it_is_asked_for(companion):
    with pytest.raises(BundleError, match=r"re-assembled for sm_90a\) of bundle abababab.*a qualified bundle"):
        Bundle.open(companion)
    (fault,) = verify_bundle(companion)
    assert "is a companion" in fault.given
    with Bundle.open(companion, companion=True) as opened:
        assert opened.manifest.companion["of"] == OF
    assert verify_bundle(companion, companion=True) == []


def test_the_runtime_refuses_it_unless_it_is_asked_for(companion):
    with pytest.raises(BundleLoadError, match="is a companion"):
        load(companion, ("hip", "gfx1201"))
    load(companion, ("hip", "gfx1201"), companion=True).close()


def test_a_bundle_opens_either_way_and_has_no_word_of_it(bundle_path):
    for asked in (False, True):
        with Bundle.open(bundle_path, companion=asked) as opened:
            assert opened.manifest.companion is None
    assert b"companion" not in bundle_path.read_bytes()


def test_a_reader_that_knows_no_companions_refuses_its_schema(companion, monkeypatch):
    monkeypatch.setattr(reader_module, "COMPANION_SCHEMA", SCHEMA)
    with pytest.raises(BundleError, match=r"schema version 2\.0; allowed: version 1\.x; a newer assay wrote it"):
        Bundle.open(companion, companion=True)


def test_a_companion_with_a_bundles_schema_is_not_written(contents, tmp_path):
    wrong = contents._replace(manifest=contents.manifest._replace(schema=SCHEMA))
    with pytest.raises(BundleError, match="schema version 1"):
        write_bundle(tmp_path / "x", wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(of="x"), "companion: of: 'x'"),
        (lambda d: d.pop("arch"), "companion: arch: is missing"),
        (lambda d: d["variants"].popitem(), "is missing; allowed: one for each row"),
        (lambda d: d["variants"].update(more={"code_sha256": OF, "rewritten": {}}), "variant more: no row has this id"),
        (lambda d: d["variants"].update(more=3), "variant more: int; allowed: a map"),
        (lambda d: d["variants"].update(more={"code_sha256": OF, "rewritten": {"a": -1}}), "variant more: rewritten"),
        (lambda d: d["variants"].update(more={"rewritten": {}}), "variant more: code_sha256: is missing"),
    ],
)
def test_what_it_says_of_itself_must_hold_together(contents, tmp_path, change, said):
    with pytest.raises(BundleError) as raised:
        write_bundle(tmp_path / "x", changed(contents, change))
    assert said in str(raised.value)
    assert not (tmp_path / "x").exists()
