import logging
import os
import pickle
import threading

import pytest

from assay.bundle import Bundle, write_bundle
from assay.runtime import (
    ArchitectureError,
    AssayRuntimeError,
    BundleLoadError,
    NoMatchError,
    ObjectError,
    UnknownFamilyError,
    UnknownFieldError,
    UnknownRowError,
    load,
)

DEVICE = ("hip", "gfx1201")
FULL = {"head_dim": 128, "gqa": 4, "q_align": 16}


def spoil_object(path, sha256):
    """Flip one bit inside that stored code object."""
    with Bundle.open(path) as bundle:
        blob = bundle._blob_index("object")[sha256]
    data = bytearray(path.read_bytes())
    data[blob.offset + blob.stored_size // 2] ^= 1
    path.write_bytes(data)


def test_the_most_specific_row_of_the_devices_own_target_serves_a_request(path):
    with load(path, device=DEVICE) as kernels:
        assert kernels.families() == ("copy", "merge_splits")
        assert kernels.select("copy", **FULL).row.id == "aligned"
        assert kernels.select("copy", **FULL | {"q_align": 2}).row.id == "generic"
    with load(path, device=("cuda", "sm_120a")) as kernels:
        assert kernels.select("copy", **FULL).row.id == "other-chip"
        assert [verdict.row.target for verdict in kernels.explain("copy", **FULL)] == ["sm120"]


@pytest.mark.parametrize("device", [("hip", "gfx1200"), ("cuda", "gfx1201"), ("cuda", "sm_121a"), ("hip", "sm_120a")])
def test_a_foreign_architecture_is_refused_at_load_before_any_table_is_parsed(path, device, monkeypatch):
    monkeypatch.setattr("assay.bundle.reader.decode_table", lambda *_: pytest.fail("a table was parsed"))
    with pytest.raises(ArchitectureError) as caught:
        load(path, device=device)
    assert f"({device[0]}, {device[1]})" in str(caught.value)
    assert "(hip, gfx1201)" in str(caught.value)


def test_without_a_device_a_bundle_of_several_architectures_is_refused(path):
    with pytest.raises(ArchitectureError, match=r"several architectures.*name one as device="):
        load(path)


def test_without_a_device_a_bundle_of_one_architecture_is_that_one(factory, tmp_path):

    contents = factory.make_contents([row for row in factory.small_rows() if row.target == "gfx1201"])
    manifest = contents.manifest._replace(targets=factory.TARGETS[:1])
    write_bundle(tmp_path / "x", contents._replace(manifest=manifest))
    with load(tmp_path / "x") as kernels:
        assert kernels.supports("copy", **FULL)
        assert [target.arch for target in kernels.targets] == ["gfx1201"]


def test_a_family_without_rows_for_the_device_is_refused_by_name(path):
    with load(path, device=("cuda", "sm_120a")) as kernels:
        with pytest.raises(UnknownFamilyError, match="merge_splits has no row for sm120"):
            kernels.select("merge_splits", splits=1, sinks=False)
        assert not kernels.supports("merge_splits", splits=1, sinks=False)


def test_an_unknown_family_names_the_nearest(path):
    with load(path, device=DEVICE) as kernels, pytest.raises(UnknownFamilyError, match="did you mean merge_splits"):
        kernels.select("merge_split")
    with load(path, device=DEVICE) as kernels, pytest.raises(UnknownFamilyError, match="did you mean merge_splits"):
        kernels.supports("merge_split")


@pytest.mark.parametrize("ask", ["select", "explain", "require", "supports"])
def test_a_field_that_no_row_asks_for_is_refused_with_the_fields_there_are(path, ask):
    with load(path, device=DEVICE) as kernels, pytest.raises(UnknownFieldError) as caught:
        getattr(kernels, ask)("copy", head_dim=128, gqa=4, q_aling=16)
    assert str(caught.value) == (
        "'q_aling' is a condition of no row of copy: allowed: gqa, head_dim, kv_bytes, q_align; did you mean q_align?"
    )
    assert (caught.value.unknown, caught.value.known) == (("q_aling",), ("gqa", "head_dim", "kv_bytes", "q_align"))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_fields_of_a_family_are_those_of_all_targets(path):
    for device in (DEVICE, ("cuda", "sm_120a")):
        with load(path, device=device) as kernels:
            assert kernels.fields("copy") == ("gqa", "head_dim", "kv_bytes", "q_align")


def test_a_row_leads_to_what_was_built_and_to_its_code(path, factory):
    with load(path, device=DEVICE) as kernels:
        row = kernels.select("copy", **FULL).row
        assert kernels.variant(row.id).problem == {"head_dim": 128, "kv_format": "bf16"}
        assert kernels.code(row) == factory.code("aligned")
        with pytest.raises(UnknownRowError, match="did you mean aligned"):
            kernels.variant("alinged")
    spoil_object(path, row.object)
    with load(path, device=DEVICE) as kernels, pytest.raises(ObjectError, match=row.symbol):
        kernels.code(row)


def test_no_match_explains_every_row(path):
    with load(path, device=DEVICE) as kernels, pytest.raises(NoMatchError) as caught:
        kernels.select("copy", head_dim=96, gqa=4)
    assert [verdict.row.id for verdict in caught.value.verdicts] == ["generic", "wide", "aligned"]
    assert "generic (gfx1201): 1 of 2 conditions failed: head_dim: requested 96, required 128" in str(caught.value)
    assert "the bundle covers head_dim: 128, 256" in str(caught.value)


def test_the_same_handle_answers_one_and_five_alike_in_either_order(factory, tmp_path):
    rows = [factory.make_row("one", [("batch", "eq", 1)]), factory.make_row("any", [])]
    write_bundle(tmp_path / "x", factory.make_contents(rows))
    for order in ([1, 5], [5, 1]):
        with load(tmp_path / "x", device=DEVICE) as kernels:
            assert [kernels.select("copy", batch=n).row.id for n in order] == [{1: "one", 5: "any"}[n] for n in order]


def test_rows_can_be_forced_and_forbidden_but_not_misspelt(path):
    with load(path, device=DEVICE) as kernels:
        assert kernels.select("copy", force_row="generic", **FULL).row.id == "generic"
        assert kernels.select("copy", forbid_rows=["aligned", "merge"], **FULL).row.id == "generic"
        assert not kernels.supports("copy", force_row="wide", **FULL)
        with pytest.raises(UnknownRowError, match="did you mean aligned"):
            kernels.select("copy", forbid_rows=["alinged"], **FULL)
        with pytest.raises(UnknownRowError, match="did you mean generic"):
            kernels.supports("copy", force_row="generik", **FULL)


def test_a_damaged_object_is_a_no_that_is_logged_and_no_other_row_takes_its_place(path, factory, caplog):
    row = next(row for row in factory.small_rows() if row.id == "aligned")
    spoil_object(path, row.object)
    with load(path, device=DEVICE) as kernels:
        with pytest.raises(ObjectError) as caught:
            kernels.require("copy", **FULL)
        for part in ("both.assay", "gfx1201", row.symbol, row.object):
            assert part in str(caught.value)
        with caplog.at_level(logging.ERROR, logger="assay.runtime"):
            assert not kernels.supports("copy", **FULL)
        assert row.object in caplog.text
        assert kernels.supports("copy", **FULL | {"q_align": 1})


def test_a_damaged_file_is_refused_at_load_naming_it(path):
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(BundleLoadError, match=r"both\.assay: manifest: its SHA-256 does not match"):
        load(path, device=DEVICE)


def test_a_missing_file_is_refused_and_nothing_else_is_tried(tmp_path):
    with pytest.raises(BundleLoadError, match=r"absent\.assay: cannot be opened"):
        load(tmp_path / "absent.assay")


def test_a_failed_load_leaves_an_earlier_one_at_work(path, tmp_path):
    bad = tmp_path / "bad.assay"
    bad.write_bytes(path.read_bytes()[:-100])
    with load(path, device=DEVICE) as kernels:
        with pytest.raises(BundleLoadError):
            load(bad, device=DEVICE)
        assert kernels.require("copy", **FULL).row.id == "aligned"


def test_a_closed_bundle_cannot_answer_what_it_has_not_read(path):
    kernels = load(path, device=DEVICE)
    kernels.close()
    with pytest.raises(AssayRuntimeError, match="closed"):
        kernels.supports("copy", **FULL)


def test_loading_writes_nothing_and_needs_no_home(path, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda p, flags, *a, **k: pytest.fail(str(p)) if flags & 3 else real(p, flags, *a, **k)
    )
    with load(path, device=DEVICE) as kernels:
        assert kernels.supports("copy", **FULL)


def test_32_threads_ask_at_once_and_all_are_answered_right(path):
    answers = []
    for _ in range(10):
        with load(path, device=DEVICE) as kernels:
            barrier = threading.Barrier(32)

            def ask(kernels=kernels, barrier=barrier):
                barrier.wait()
                answers.append((kernels.select("copy", **FULL).row.id, kernels.supports("copy", **FULL)))

            threads = [threading.Thread(target=ask) for _ in range(32)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert answers == [("aligned", True)] * 320


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_bundle_loaded_before_a_fork_answers_in_the_child(path):
    with load(path, device=DEVICE) as kernels:
        child = os.fork()
        if child == 0:
            os._exit(0 if kernels.require("copy", **FULL).row.id == "aligned" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert kernels.require("copy", **FULL).row.id == "aligned"
