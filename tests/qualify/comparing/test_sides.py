"""What a side may be, and what is said of one that is none."""

import os
import shutil

import pytest

from assay.bundle import Bundle, write_bundle
from assay.bundle.records import COMPANION_SCHEMA
from tests.qualify.comparing.changed_bundles import contents_of


def refused(assay, *arguments, status=2):
    ran = assay("compare", *arguments)
    assert ran.status == status, ran.text
    assert ran.out == ""
    return ran.said


def test_a_lock_and_the_bundle_of_its_run_say_the_same_and_code_is_not_claimed(assay, built):
    toy = built("gfx1201")
    ran = assay("compare", toy.lock, toy.bundle)
    assert ran.status == 0
    assert "same figures 6 (a lock has no code to compare)" in ran.text
    assert assay("compare", toy.lock, toy.lock).status == 0


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [("vgpr_count=", "vgpr_count=1", "vgpr_count"), ("unroll=1", "unroll=3", "unroll"), ("=pass", "=fail", "static")],
)
def test_a_lock_of_other_figures_launch_or_verdicts_differs(assay, built, tmp_path, old, new, name):
    toy, changed = built("gfx1201"), tmp_path / "changed.lock"
    changed.write_text(toy.lock.read_text().replace(old, new, 1))
    ran = assay("compare", toy.bundle, changed, "--json")
    assert ran.status == 1
    (pair,) = [pair for pair in ran.document["pairs"] if pair["differences"]]
    assert [item["name"] for item in pair["differences"]] == [name]
    assert pair["level"] == "not_compared"


def test_sides_without_a_kernel_are_no_equality(assay, built, tmp_path):
    toy, empty = built("gfx1201"), tmp_path / "empty.lock"
    lines = toy.lock.read_text().splitlines(keepends=True)
    empty.write_text("".join(line for line in lines if " | " not in line))
    said = refused(assay, empty, empty)
    assert f"{empty} and {empty}: hold no kernel; allowed: at least one on either side" in said


def test_a_proof_by_locks_is_one_of_figures(assay, built, tmp_path):
    toy, changed = built("gfx1201"), tmp_path / "changed.lock"
    text = toy.lock.read_text()
    line = next(line for line in text.splitlines() if "x_dtype=f32" in line)
    changed.write_text(text.replace(line, line.replace("unroll=1", "unroll=3")))
    ran = assay("compare", toy.lock, changed, "--only", "x_dtype=f32")
    assert ran.status == 0
    assert "none differs in its figures; code was not compared" in ran.text


def test_targets_of_one_side_alone_are_new_or_gone_and_none_in_common_is_an_error(assay, built, tmp_path):
    amd, nvidia = built("gfx1201").bundle, built("sm90").bundle
    said = refused(assay, amd, nvidia)
    assert "at least one target on both sides" in said
    both = tmp_path / "both.assay"
    assert assay("bundle", amd, nvidia, "--out", both).status == 0
    ran = assay("compare", amd, both, "--json")
    assert (ran.status, ran.document["counts"]["new"], ran.document["counts"]["pairs"]) == (1, 4, 6)
    assert assay("compare", amd, both, "--target", "gfx1201").status == 0
    assert assay("compare", amd, both, "--allow", "new,target=sm90").status == 0
    assert "did you mean gfx1201?" in refused(assay, amd, both, "--target", "gfx1202")


def test_a_part_is_compared_alone_and_one_that_is_not_there_is_an_error(assay, toy):
    ran = assay("compare", toy, toy, "--part", "x_dtype=f16,width=64", "--json")
    assert ran.document["counts"]["pairs"] == 2
    assert "no such value" in refused(assay, toy, toy, "--part", "width=65")


def test_a_bundle_of_another_schema_is_refused(assay, toy, tmp_path, monkeypatch):
    contents = contents_of(toy)
    newer = tmp_path / "newer.assay"
    with monkeypatch.context() as patch:
        patch.setattr("assay.bundle.validate.SCHEMA", (9, 0), raising=False)
        patch.setattr("assay.bundle.writer.contents_faults", lambda _: [])
        write_bundle(newer, contents._replace(manifest=contents.manifest._replace(schema=(9, 0))))
    said = refused(assay, toy, newer)
    assert "newer.assay" in said
    assert "9.0" in said


def test_a_companion_is_refused(assay, toy, tmp_path, monkeypatch):
    contents = contents_of(toy)
    variants = {row.id: {"code_sha256": row.object, "rewritten": {}} for row in contents.rows}
    companion = {"of": "0" * 64, "target": "sm90", "arch": "sm_90a", "variants": variants}
    manifest = contents.manifest._replace(schema=COMPANION_SCHEMA, companion=companion)
    path = tmp_path / "companion.assay"
    monkeypatch.setattr("assay.bundle.writer.contents_faults", lambda _: [])
    write_bundle(path, contents._replace(manifest=manifest))
    assert "is a companion" in refused(assay, toy, path)


def test_a_bundle_without_variant_records_is_refused(assay, toy, tmp_path, monkeypatch):
    path = tmp_path / "bare.assay"
    with monkeypatch.context() as patch:
        patch.setattr("assay.bundle.writer.contents_faults", lambda _: [])
        write_bundle(path, contents_of(toy)._replace(variants=()))
    said = refused(assay, toy, path)
    assert said.count("bare.assay: row scale/") == 6
    assert "its variant record is missing" in said


def test_damage_anywhere_is_no_equality(assay, toy, tmp_path):
    path = tmp_path / "damaged.assay"
    data = bytearray(toy.read_bytes())
    with Bundle.open(toy) as bundle:
        section = next(section for section in bundle._sections if section.kind == "objects")
    data[section.offset + section.stored_size // 2] ^= 1
    path.write_bytes(data)
    assert "SHA-256" in refused(assay, toy, path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x7fELF", b"\x89ASSAY", b"schema assay.lock/9\n", b"\xff\xfe"])
def test_a_file_that_is_neither_is_refused(assay, toy, tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(assay, toy, path)
    refused(assay, path, toy)


def test_what_cannot_be_read_is_refused(assay, toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "is a folder" in refused(assay, toy, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe" in refused(assay, toy, tmp_path / "pipe")
    assert "is no file, and no revision" in refused(assay, toy, "nothing")
    assert "not a git repository" in refused(assay, toy, ".")
    assert "two sides, or REV..REV" in refused(assay, toy)
    assert "not a git repository" in refused(assay, "a..b")


def test_files_are_compared_without_git(assay, toy, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("git") is None
    assert assay("compare", toy, toy).status == 0
    assert "git: cannot be run" in refused(assay, toy, "HEAD", status=3)


def test_two_variants_of_one_problem_are_refused(assay, toy, tmp_path):
    """Paired by problem, one of them would silently stand for both."""
    contents = contents_of(toy)
    first, second = (next(item for item in contents.variants if item.id == row.id) for row in contents.rows[:2])
    variants = [item._replace(problem=first.problem) if item is second else item for item in contents.variants]
    path = tmp_path / "twice.assay"
    write_bundle(path, contents._replace(variants=tuple(variants)))
    assert "two variants of one problem" in refused(assay, toy, path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\nb", "--", "~", "@{-1}", "HEAD^{tree}"])
def test_a_name_that_is_nothing_is_refused(assay, toy, name):
    refused(assay, "--", toy, name)
