"""`assay wheel`: equal bundles give equal bytes that installers accept; what may not ship gives no wheel."""

import base64
import csv
import dataclasses
import hashlib
import importlib.metadata
import io
import json
import os
import shutil
import time
import zipfile

import pytest
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from assay.bundle import Bundle, attach_evidence, write_bundle
from assay.qualify import bundling, wheel_building
from assay.qualify.wheel_archive import WheelContents, wheel_bytes
from tests.specs import TOY


@pytest.fixture
def bundle(out):
    """gfx1201's toy bundle, to be changed."""
    return out.bundle


@pytest.fixture
def make(assay, tmp_path):
    """Makes the wheel of one bundle; returns its path."""

    def run(*arguments, folder="wheels"):
        ran = assay("wheel", *arguments, "--out", tmp_path / folder, "--json")
        assert ran.status == 0, ran.err
        (wheel,) = ran.document["wheels"]
        return tmp_path / folder / os.path.basename(wheel["wheel"])

    return run


def rewrite(path, **changes):
    """Write the bundle anew with these fields of its manifest."""
    contents = bundling._read(path).contents
    write_bundle(path, contents._replace(manifest=contents.manifest._replace(**changes)))
    return path


def read(wheel, ending):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name)


def metadata_of(wheel):
    return Metadata.from_email(read(wheel, ".dist-info/METADATA"), validate=True)


def entry_points_of(wheel):
    lines = read(wheel, ".dist-info/entry_points.txt").decode().splitlines()
    return [line for line in lines if line]


def test_the_wheel_holds_the_bundle_byte_for_byte_and_every_file_is_in_its_record(make, bundle):
    wheel = make(bundle)
    assert read(wheel, "assay_kernels_gfx1201/bundle.assay") == bundle.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        for path, digest, size in csv.reader(io.StringIO(read(wheel, "/RECORD").decode())):
            if path.endswith("/RECORD"):
                assert (digest, size) == ("", "")
                continue
            data = archive.read(path)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={found}", str(len(data)))
        recorded = [row[0] for row in csv.reader(io.StringIO(read(wheel, "/RECORD").decode()))]
        assert recorded == archive.namelist()


def test_its_name_version_and_metadata_are_what_the_standards_ask_for(make, bundle):
    wheel = make(bundle)
    name, version, build, tags = parse_wheel_filename(wheel.name)
    with Bundle.open(bundle) as opened:
        identity = opened.identity
    file_sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    made_by = importlib.metadata.version("assay")
    assert (name, build, [str(tag) for tag in tags]) == ("assay-kernels-gfx1201", (), ["py3-none-any"])
    assert version == Version(f"{made_by}+b{identity[:16]}.f{file_sha256[:8]}")
    metadata = metadata_of(wheel)
    assert (metadata.name, metadata.version) == (name, version)
    assert [str(item) for item in metadata.requires_dist] == [f"assay>={made_by}"]
    assert metadata.summary == "6 GPU kernels for gfx1201 (hip gfx1201); Triton 3.8.0; evidence: static"
    assert entry_points_of(wheel) == ["[assay.bundles]", "gfx1201 = assay_kernels_gfx1201"]


def test_equal_bundles_give_equal_wheels_wherever_and_whenever(make, bundle, tmp_path, monkeypatch):
    first = make(bundle)
    other = tmp_path / "elsewhere" / "another name"
    other.parent.mkdir()
    shutil.copy(bundle, other)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    monkeypatch.chdir(other.parent)
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    umask = os.umask(0o077)
    try:
        second = make("another name", folder="second")
    finally:
        os.umask(umask)
        monkeypatch.undo()
        time.tzset()
    assert second.name == first.name
    assert second.read_bytes() == first.read_bytes()


def test_the_bytes_of_a_wheel_follow_from_its_contents_alone():
    contents = WheelContents("a", "1", "Name: a\n", {"g": {"n": "a", "m": "b"}}, {"a/b": b"2", "a/a": b"1" * 1000})
    made = wheel_bytes(contents)
    # Pinned: another Python, zipfile or zlib must not make another file.
    assert hashlib.sha256(made).hexdigest() == "152546294a0f299680d7dc9086b9b66a3be2ba2c4408fb06c96151237fadfde8"
    reordered = dataclasses.replace(contents, files=dict(reversed(contents.files.items())))
    assert wheel_bytes(reordered) == made
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert {(item.date_time[0], item.external_attr >> 16, item.compress_type) for item in archive.infolist()} == {
            (1980, 0o100644, zipfile.ZIP_STORED)
        }


def test_what_differs_in_evidence_alone_has_another_file_name(make, bundle):
    first = make(bundle)
    document = {"level": "device", "variants": {}}
    attach_evidence(bundle, {"device": json.dumps(document).encode()})
    assert make(bundle).name != first.name


def test_names_of_two_builds_differ_and_stay_short(make, built, assay, tmp_path):
    """Parameters are not spelled into names: the last one counts as much as the first (field case E7)."""
    where = ("--specs", TOY, "--target", "gfx1201", "--out", tmp_path / "part", "--update-lock")
    assert assay("qualify", *where, "--only", "alignment=16").status == 0
    part = make(tmp_path / "part/gfx1201/gfx1201.only.assay")
    whole = make(built("gfx1201").bundle)
    assert (metadata_of(part).name, metadata_of(whole).name) == ("assay-kernels-gfx1201-only", "assay-kernels-gfx1201")
    assert entry_points_of(part)[1:] == ["gfx1201.only = assay_kernels_gfx1201_only"]
    assert entry_points_of(whole)[1:] == ["gfx1201 = assay_kernels_gfx1201"]
    merged = assay(
        "bundle", tmp_path / "part/gfx1201/gfx1201.only.assay", built("sm90").bundle, "--out", tmp_path / "x"
    )
    assert merged.status == 1
    assert "profile: core; allowed: core.only" in merged.said or "profile: core.only; allowed: core" in merged.said
    for wheel in (part, whole):
        with zipfile.ZipFile(wheel) as archive:
            names = {part for path in archive.namelist() for part in path.split("/")}
        assert max(len(name.encode()) for name in {wheel.name, *names}) <= 128


def test_several_bundles_make_a_wheel_each(assay, built, tmp_path):
    paths = [built(target).bundle for target in ("gfx1201", "sm90")]
    document = assay("wheel", *paths, paths[0], "--out", tmp_path, "--version", "2.0", "--json").document
    assert document["schema"] == "assay.wheel/1"
    assert [(wheel["name"], wheel["loads_as"], wheel["bundle"]) for wheel in document["wheels"]] == [
        ("assay-kernels-gfx1201", ["gfx1201"], str(paths[0])),
        ("assay-kernels-sm90", ["sm90"], str(paths[1])),
    ]
    for wheel in document["wheels"]:
        data = (tmp_path / os.path.basename(wheel["wheel"])).read_bytes()
        assert (wheel["sha256"], wheel["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert sorted(os.listdir(tmp_path)) == [
        "assay_kernels_gfx1201-2.0-py3-none-any.whl",
        "assay_kernels_sm90-2.0-py3-none-any.whl",
    ]


def test_a_bundle_of_two_targets_is_one_wheel_with_a_name_each(assay, make, built, tmp_path):
    assay("bundle", *[built(target).bundle for target in ("gfx1201", "sm90")], "--out", tmp_path / "all.assay")
    wheel = make(tmp_path / "all.assay")
    assert metadata_of(wheel).name == "assay-kernels-gfx1201-sm90"
    package = "assay_kernels_gfx1201_sm90"
    assert entry_points_of(wheel)[1:] == [f"gfx1201 = {package}", f"sm90 = {package}"]


def test_another_profile_is_another_distribution_with_another_name_to_load(make, bundle):
    wheel = make(rewrite(bundle, profile="full"))
    assert metadata_of(wheel).name == "assay-kernels-gfx1201-full"
    assert entry_points_of(wheel)[1] == "gfx1201.full = assay_kernels_gfx1201_full"


def test_name_and_version_can_be_given_and_are_normalised(make, bundle):
    wheel = make(bundle, "--name", "Acme.Kernels", "--version", "v1.04-rc1")
    assert wheel.name == "acme_kernels-1.4rc1-py3-none-any.whl"
    assert entry_points_of(wheel)[1] == "gfx1201 = acme_kernels"


def test_people_are_told_the_file_and_what_to_load_it_by(assay, bundle, tmp_path):
    ran = assay("wheel", bundle, "--out", tmp_path / "wheels")
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert f"wrote {wheel}: 6 rows, {wheel.stat().st_size:,} bytes" in ran.text
    assert 'load("gfx1201")' in ran.text


def test_evidence_that_ran_for_a_part_is_counted(make, bundle):
    with Bundle.open(bundle) as opened:
        one, two, *_ = opened.variant_ids()
    verdicts = {one: {"emulated": "pass"}, two: {"emulated": "not_interpretable"}}
    attach_evidence(bundle, {"emulated": json.dumps({"level": "emulated", "variants": verdicts}).encode()})
    assert metadata_of(make(bundle)).summary.endswith("evidence: static, emulated (1 of 6)")


def test_a_bundle_cannot_write_metadata_fields(make, bundle):
    wheel = make(rewrite(bundle, toolchain={"triton": "3.8\nRequires-Dist: evil"}))
    assert [item.name for item in metadata_of(wheel).requires_dist] == ["assay"]


def refused(assay, tmp_path, status, *arguments):
    """The message of a refusal, which writes nothing: a good bundle before a bad one gets no wheel either."""
    ran = assay("wheel", *arguments, "--out", tmp_path / "none")
    assert (ran.status, ran.out) == (status, "")
    assert not (tmp_path / "none").exists()
    return ran.said


def test_a_damaged_bundle_gets_no_wheel(assay, built, bundle, tmp_path):
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    assert "SHA-256 does not match" in refused(assay, tmp_path, 1, built("sm90").bundle, bundle)


def test_a_bundle_without_evidence_gets_no_wheel(assay, bundle, tmp_path):
    attach_evidence(bundle, {"static": None})
    assert "evidence: no static pass for 6 of 6 variants" in refused(assay, tmp_path, 1, bundle)


def test_evidence_for_a_part_or_against_a_variant_gives_no_wheel(assay, bundle, tmp_path):
    with Bundle.open(bundle) as opened:
        document = opened.evidence("static")
    lost, failed, waived, *_ = document["variants"]
    del document["variants"][lost]
    document["variants"][waived]["static"] = "waived(known)"
    device = {"level": "device", "variants": {failed: {"device": "fail"}}}
    attach_evidence(bundle, {"static": json.dumps(document).encode(), "device": json.dumps(device).encode()})
    said = refused(assay, tmp_path, 1, bundle)
    assert f"no static pass for 1 of 6 variants: {lost};" in said
    assert f"evidence device: variant {failed}: fail" in said


def test_a_bundle_of_no_versioned_assay_gets_no_wheel(assay, bundle, tmp_path):
    rewrite(bundle, assay_version="mine")
    assert "assay_version: 'mine'; allowed: a version" in refused(assay, tmp_path, 1, bundle, "--version", "1.0")


def test_a_file_replaced_while_it_is_read_gets_no_wheel(assay, bundle, built, tmp_path, monkeypatch):
    verify = wheel_building.bundle_faults

    def replace_then_verify(path):
        shutil.copy(built("sm90").bundle, path)
        return verify(path)

    monkeypatch.setattr(wheel_building, "bundle_faults", replace_then_verify)
    assert "changed while it was read" in refused(assay, tmp_path, 1, bundle)


@pytest.mark.parametrize("name", ["", "-", "a b", "../a", "ä", "a\nb", "assay", "Assay"])
def test_a_name_that_no_distribution_can_have_is_bad_usage(assay, bundle, tmp_path, name):
    assert "--name: " in refused(assay, tmp_path, 2, bundle, f"--name={name}")


@pytest.mark.parametrize("version", ["", "1..2", "latest", "../1", "1.0\n2"])
def test_a_version_that_no_distribution_can_have_is_bad_usage(assay, bundle, tmp_path, version):
    assert "--version: " in refused(assay, tmp_path, 2, bundle, f"--version={version}")


def test_everything_wrong_with_the_options_is_said_at_once(assay, bundle, tmp_path):
    said = refused(assay, tmp_path, 2, bundle, "--name", "a b", "--version", "x y")
    assert "--name: 'a b'" in said
    assert "--version: 'x y'" in said


def test_a_name_too_long_for_a_file_system_is_bad_usage_with_the_way_out(assay, bundle, tmp_path):
    said = refused(assay, tmp_path, 2, bundle, "--name", "a" * 110, "--version", "1")
    assert "129 bytes; allowed: at most 128; give a shorter --name" in said


def test_one_name_for_several_bundles_is_bad_usage(assay, built, tmp_path):
    paths = [built(target).bundle for target in ("gfx1201", "sm90")]
    assert "--name: 2 bundles; allowed: one" in refused(assay, tmp_path, 2, *paths, "--name", "acme")


def test_two_bundles_that_would_be_one_file_are_bad_usage(assay, built, bundle, tmp_path):
    said = refused(assay, tmp_path, 2, built("gfx1201").bundle, bundle, "--version", "1")
    assert "would be the wheel of" in said


@pytest.mark.parametrize("arguments", [[], ["/no/such.assay"], ["/"], ["/dev/null"]])
def test_bad_usage_and_files_that_are_none(assay, tmp_path, arguments):
    refused(assay, tmp_path, 2, *arguments)


def test_a_folder_that_cannot_be_made_is_the_environments_fault(assay, bundle, tmp_path):
    (tmp_path / "file").write_text("")
    ran = assay("wheel", bundle, "--out", tmp_path / "file" / "wheels")
    assert ran.status == 3
    assert "cannot be made: Not a directory" in ran.said


def test_a_wheel_that_cannot_take_its_place_leaves_nothing(assay, make, bundle):
    wheel = make(bundle)
    wheel.unlink()
    wheel.mkdir()
    ran = assay("wheel", bundle, "--out", wheel.parent)
    assert ran.status == 3
    assert os.listdir(wheel.parent) == [wheel.name]
