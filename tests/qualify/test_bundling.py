"""`assay bundle` puts verified bundles together or refuses, with the previous file untouched; targets' size budgets."""

import itertools
import json
import os
import re

import pytest

from assay.bundle import Bundle, write_bundle
from assay.qualify import bundling
from tests.specs import copy_toy, edit

TARGETS = ("gfx1201", "sm90")


@pytest.fixture
def bundles(built):
    return [built(target).bundle for target in TARGETS]


def rewritten(path, out, **changes):
    """The bundle at `path` with parts of its contents or manifest replaced, written to `out`."""
    contents = bundling._read(path).contents
    of_manifest = {name: value for name, value in changes.items() if hasattr(contents.manifest, name)}
    of_contents = {name: value for name, value in changes.items() if name not in of_manifest}
    manifest = contents.manifest._replace(**of_manifest)
    write_bundle(out, contents._replace(manifest=manifest, **of_contents))
    return out


def test_two_targets_become_one_verified_bundle_with_every_row_and_object(assay, bundles, tmp_path):
    out = tmp_path / "all.assay"
    document = assay("bundle", *bundles, "--out", out, "--json").document
    assert document["schema"] == "assay.bundle/1"
    assert [(target["target"], target["rows"]) for target in document["targets"]] == [("gfx1201", 6), ("sm90", 4)]
    assert (document["rows"], document["bytes"]) == (10, out.stat().st_size)
    assert assay("verify", out).status == 0
    with Bundle.open(out) as merged:
        assert merged.identity == document["identity"]
        for path in bundles:
            with Bundle.open(path) as single:
                for row in single.rows("scale"):
                    assert row in tuple(merged.rows("scale"))
                    assert merged.object_bytes(row.object) == single.object_bytes(row.object)
                for id in single.variant_ids():
                    assert merged.variant(id) == single.variant(id)
    assert [path.name for path in tmp_path.iterdir()] == ["all.assay"]


def test_rows_of_each_target_still_answer(assay, bundles, tmp_path):
    assay("bundle", *bundles, "--out", tmp_path / "all.assay")
    request = ("x_dtype=f32", "width=64", "alignment=16")
    for target, bundle in zip(TARGETS, bundles, strict=True):
        chosen = assay("explain", bundle, "scale", *request, "--json").document["chosen"]
        merged = assay("explain", tmp_path / "all.assay", "scale", *request, f"target={target}", "--json").document
        assert merged["chosen"] == chosen


def test_the_order_of_arguments_and_repetition_make_no_difference(assay, bundles, tmp_path):
    written = set()
    for number, order in enumerate([*itertools.permutations(bundles), [*bundles, bundles[0]]]):
        assay("bundle", *order, "--out", tmp_path / f"{number}")
        written.add((tmp_path / f"{number}").read_bytes())
    assert len(written) == 1


def test_a_bundle_alone_is_copied_byte_for_byte(assay, bundles, tmp_path):
    assert assay("bundle", bundles[0], "--out", tmp_path / "copy").status == 0
    assert (tmp_path / "copy").read_bytes() == bundles[0].read_bytes()


def test_a_bundle_may_be_written_over_one_of_its_parts(assay, out, built, tmp_path):
    assert assay("bundle", out.bundle, built("sm90").bundle, "--out", out.bundle).status == 0
    assay("bundle", built("gfx1201").bundle, built("sm90").bundle, "--out", tmp_path / "other")
    assert out.bundle.read_bytes() == (tmp_path / "other").read_bytes()


def test_people_are_told_rows_targets_and_bytes(assay, bundles, tmp_path):
    ran = assay("bundle", *bundles, "--out", tmp_path / "all.assay")
    assert re.search(r"gfx1201: 6 rows, [\d,]+ bytes of code objects", ran.text)
    assert re.search(r"sm90: 4 rows, [\d,]+ bytes of code objects", ran.text)
    assert re.search(rf"10 rows, \d+ code objects, {(tmp_path / 'all.assay').stat().st_size:,} bytes", ran.text)


def documents(path):
    with Bundle.open(path) as bundle:
        return {name: bundle.evidence(name) for name in bundle.evidence_names()}


def test_evidence_is_put_together_by_variant(assay, bundles, tmp_path):
    one, two = [
        rewritten(
            path,
            tmp_path / path.name,
            evidence={
                "static": json.dumps({"level": "static", "variants": {path.name: {"static": "pass"}}}).encode(),
                f"only {path.name}": b"[1.5]",
            },
        )
        for path in bundles
    ]
    assay("bundle", one, two, "--out", tmp_path / "all")
    found = documents(tmp_path / "all")
    assert found["static"]["variants"] == {path.name: {"static": "pass"} for path in bundles}
    assert found[f"only {bundles[0].name}"] == [1.5]


def refused(assay, tmp_path, *bundles):
    """The message of a refusal, which leaves what stood there as it was."""
    out = tmp_path / "kept.assay"
    out.write_bytes(b"previous")
    before = set(os.listdir(tmp_path))
    ran = assay("bundle", *bundles, "--out", out)
    assert (ran.status, ran.out) == (1, "")
    assert out.read_bytes() == b"previous"
    assert set(os.listdir(tmp_path)) == before
    assert assay("bundle", *reversed(bundles), "--out", out).said == ran.said, "the order of arguments changes nothing"
    return ran.said


def test_damaged_bundles_are_refused_all_of_them(assay, bundles, tmp_path):
    paths = []
    for path in bundles:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        paths.append(tmp_path / path.name)
        paths[-1].write_bytes(data)
    said = refused(assay, tmp_path, *paths)
    assert str(paths[0]) in said
    assert str(paths[1]) in said


def test_a_code_object_that_is_not_what_its_row_says_is_refused(assay, bundles, tmp_path):
    contents = bundling._read(bundles[0]).contents
    first, *others = contents.rows
    wrong = rewritten(bundles[0], tmp_path / "wrong", rows=(first._replace(num_warps=8), *others))
    assert "threads of a workgroup" in refused(assay, tmp_path, wrong, bundles[1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"toolchain": {"triton": "9.9"}}, "toolchain: "),
        ({"profile": "full"}, "profile: "),
        ({"assay_version": "0.0.1"}, "assay_version: "),
        ({"sources": {"families/scale.yaml": "0" * 64}}, "source families/scale.yaml: is another one than in"),
        ({"families": {"scale": {"grid": [["columns"]]}}}, "contract of family scale: is another one than in"),
        ({"evidence": {"static": b'{"level": "believed", "variants": {}}'}}, "evidence static: is another one than in"),
    ],
)
def test_bundles_that_were_not_built_alike_are_refused(assay, bundles, tmp_path, changes, said):
    other = rewritten(bundles[1], tmp_path / "other.assay", **changes)
    assert said in refused(assay, tmp_path, bundles[0], other)


def test_one_id_with_different_contents_is_refused(assay, bundles, tmp_path):
    contents = bundling._read(bundles[0]).contents
    first, *others = contents.rows
    other = rewritten(bundles[0], tmp_path / "o", rows=(first._replace(preference=99), *others))
    said = refused(assay, tmp_path, bundles[0], other)
    assert f"row {first.id}: is another one than in" in said


def test_one_target_with_another_meaning_is_refused(assay, bundles, tmp_path):
    (target,) = bundling._read(bundles[0]).contents.manifest.targets
    other = rewritten(bundles[0], tmp_path / "o", targets=(target._replace(lds_limit=1 << 20),))
    assert "target gfx1201: is another one than in" in refused(assay, tmp_path, bundles[0], other)


def test_every_contradiction_is_said_at_once(assay, bundles, tmp_path):
    changes = {"toolchain": {"triton": "9.9"}, "profile": "full"}
    said = refused(assay, tmp_path, bundles[0], rewritten(bundles[1], tmp_path / "o", **changes))
    assert "toolchain: " in said
    assert "profile: " in said


@pytest.mark.parametrize("arguments", [[], ["--out", "x"], ["/no/such.assay", "--out", "x"], ["/", "--out", "x"]])
def test_bad_usage_and_missing_files_are_bad_input(assay, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert assay("bundle", *arguments).status == 2
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_the_environments_fault(assay, bundles, tmp_path):
    ran = assay("bundle", *bundles, "--out", tmp_path / "no/such/all.assay")
    assert ran.status == 3
    assert "cannot be written" in ran.said


def with_budget(folder, size):
    specs = copy_toy(folder)
    edit(specs, "targets/gfx1201.yaml", "  threads: 1024\n", f"  threads: 1024\n  bundle_bytes: {size}\n")
    return specs


def test_a_bundle_within_its_targets_budget_is_written(assay, tmp_path):
    specs = with_budget(tmp_path / "specs", 1_000_000)
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", "--update-lock")
    assert ran.status == 0


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_bundle_over_its_targets_budget_fails_and_the_previous_one_stays(assay, out, snapshot, tmp_path, options):
    specs = with_budget(tmp_path / "specs", 1000)
    before = snapshot(out.out)
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out, *options)
    assert ran.status == 1
    assert re.search(
        r"target gfx1201: [\d,]+ bytes of code objects; allowed: at most 1,000; largest objects: ", ran.text
    )
    assert "gfx1201 core: NOT QUALIFIED" in ran.text
    after = snapshot(out.out)
    for name in ("gfx1201/gfx1201.assay", "gfx1201/qualified.core.lock"):
        assert after[name] == before[name]
    if options:
        assert after == before
    else:
        assert json.loads((out.folder / "report.json").read_text())["verdict"] == "failed"


def test_a_budget_that_is_none_is_bad_input(assay, tmp_path):
    specs = with_budget(tmp_path / "specs", 0)
    assert assay("plan", "--specs", specs).status == 2


def test_the_preferences_of_all_rules_that_match_add_up(assay, tmp_path):
    specs = copy_toy(tmp_path / "specs")
    rules = "preferences:\n  - {when: {x_dtype: f16}, preference: 5}\n  - {when: {width: 96}, preference: 2}\n"
    edit(specs, "families/scale.yaml", "preferences:\n", rules)
    assert (
        assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", "--update-lock").status
        == 0
    )
    with Bundle.open(tmp_path / "out" / "gfx1201" / "gfx1201.assay") as bundle:
        found = {}
        for row in bundle.rows("scale"):
            problem = bundle.variant(row.id).problem
            found[problem["x_dtype"], problem["width"], problem["alignment"]] = row.preference
    assert found == {
        ("f32", 64, 16): 10, ("f32", 64, 4): 0, ("f16", 64, 16): 15, ("f16", 64, 4): 5, ("f16", 96, 16): 17,
        ("f16", 96, 4): 7,
    }  # fmt: skip
