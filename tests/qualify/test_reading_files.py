"""inspect, verify and explain on good files, damaged ones and no files: a status and a message, never a traceback."""

import json

import pytest

from assay.bundle import Bundle
from assay.objects import find_disassembler
from tests.specs import MISFITS

TARGETS = ["gfx1201", "sm90"]


@pytest.fixture
def code_object(built, tmp_path):
    """The toy's HSACO or CUBIN as a file."""

    def write(target):
        path = tmp_path / f"{target}.object"
        path.write_bytes(built(target).code_object())
        return path

    return write


@pytest.mark.parametrize("target", TARGETS)
def test_inspect_tells_what_the_file_tells_and_null_for_the_rest(assay, code_object, target):
    document = assay("inspect", code_object(target), "--json").document
    assert (document["schema"], document["kind"]) == ("assay.inspect/1", "hsaco" if target == "gfx1201" else "cubin")
    (kernel,) = document["kernels"]
    arch = {"gfx1201": ("gfx1201", "hip"), "sm90": ("sm_90a", "cuda")}[target]
    assert (kernel["name"], kernel["arch"], kernel["backend"]) == ("scale_rows", *arch)
    assert [(a["offset"], a["size"]) for a in kernel["arguments"]] == [
        (0, 8),
        (8, 8),
        (16, 4),
        (24, 8),
        (32, 8),
        (40, 8),
    ]
    resources = kernel["resources"]
    assert resources["lds_dynamic_bytes"] is None, "no file tells what is asked for at launch"
    assert resources["max_threads"] == 64
    if target == "gfx1201":
        assert (resources["vgpr_spill_count"], resources["dynamic_stack"], resources["stack_bytes"]) == (0, False, None)
    else:
        assert (resources["stack_bytes"], resources["vgpr_count"], resources["spill_load_bytes"]) == (0, None, None)
        assert (resources["local_load_count"], resources["local_store_count"]) == (0, 0)
        assert resources["lds_static_bytes"] == 0, "the driver's reserve is not the kernel's"
    assert "scale_rows" in assay("inspect", code_object(target)).out


@pytest.mark.parametrize("target", TARGETS)
def test_inspect_of_a_bundle_has_a_kernel_for_each_row_with_the_figures_of_the_build(assay, built, target):
    document = assay("inspect", built(target).bundle, "--json").document
    assert document["kind"] == "bundle"
    report = json.loads((built(target).folder / "report.json").read_text())
    recorded = {p["chosen"]["id"]: p["chosen"]["resources"] for p in report["problems"]}
    assert {kernel["variant"]: kernel["resources"] for kernel in document["kernels"]} == recorded
    assert all(kernel["resources"]["lds_total_bytes"] == 0 for kernel in document["kernels"])


NO_FILES = ["nothing there", "a folder", "empty", "text", "an ELF of this machine", "YAML"]


@pytest.fixture
def no_file(tmp_path):
    def make(kind):
        path = tmp_path / "file"
        match kind:
            case "a folder":
                path.mkdir()
            case "empty":
                path.write_bytes(b"")
            case "text":
                path.write_text("hello\n" * 100)
            case "an ELF of this machine":
                path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(100))
            case "YAML":
                return MISFITS / "profiles/core.yaml"
        return path

    return make


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_no_file_of_ours_is_refused_with_its_name(assay, no_file, kind, options):
    path = no_file(kind)
    for command, status in [("inspect", 2), ("verify", 1), ("explain", 1)]:
        family = ["scale"] if command == "explain" else []
        ran = assay(command, path, *family, *options)
        assert ran.status == status, command
        assert str(path) in ran.said


def flipped(data, step, first=0):
    """One bit of every `step`th byte flipped, another bit each time."""
    for position in range(first, len(data), step):
        yield position, data[:position] + bytes([data[position] ^ 1 << position // step % 8]) + data[position + 1 :]


@pytest.mark.parametrize("target", TARGETS)
def test_no_bit_of_a_bundle_can_be_flipped_unnoticed(assay, built, tmp_path, target):
    data, path = built(target).bundle.read_bytes(), tmp_path / "flipped.assay"
    for position, changed in flipped(data, 64):
        path.write_bytes(changed)
        ran = assay("verify", path)
        assert (ran.status, bool(ran.said)) == (1, True), position


def test_no_bundle_can_be_cut_off_unnoticed(assay, built, tmp_path):
    data, path = built("gfx1201").bundle.read_bytes(), tmp_path / "cut.assay"
    with Bundle.open(built("gfx1201").bundle) as opened:
        identity_end = opened._header.identity_end
    # Cut exactly there it is the bundle as it was before evidence was attached, and of the same identity.
    for length in sorted(
        {*range(0, len(data), 256), identity_end - 1, identity_end + 1, len(data) - 1} - {identity_end}
    ):
        path.write_bytes(data[:length])
        assert assay("verify", path).status == 1, length
        # Nothing of the evidence is inspected, so a cut in it need not be seen.
        assert assay("inspect", path).status in ((2,) if length < identity_end else (0, 2)), length
    path.write_bytes(data + b"\0")
    assert assay("verify", path).status == 1


def test_a_flipped_bundle_is_inspected_and_explained_without_a_traceback(assay, built, tmp_path):
    data, path = built("gfx1201").bundle.read_bytes(), tmp_path / "flipped.assay"
    request = ("scale", "x_dtype=f32", "width=64", "alignment=16")
    for _, changed in flipped(data, 512):
        path.write_bytes(changed)
        assert assay("inspect", path).status in (0, 2)
        assert assay("explain", path, *request).status in (0, 1)


def test_a_flipped_hsaco_is_inspected_without_a_traceback(assay, code_object):
    path = code_object("gfx1201")
    data = path.read_bytes()
    statuses = set()
    for _, changed in flipped(data, 64):
        path.write_bytes(changed)
        ran = assay("inspect", path)
        assert ran.status == 0 or ran.said
        statuses.add(ran.status)
    assert statuses == {0, 2}, "a flip in the code changes no figure; one in the note or a header is seen"
    for length in range(0, len(data), 64):
        path.write_bytes(data[:length])
        assert assay("inspect", path).status == 2, length


CUBIN_STEPS = [
    pytest.param(1024, id="every 1024th byte"),
    pytest.param(64, id="every 64th byte", marks=pytest.mark.slow),
]


@pytest.mark.skipif(find_disassembler() is None, reason="no nvdisasm: the Triton wheel is not installed")
@pytest.mark.parametrize("step", CUBIN_STEPS)
def test_a_damaged_cubin_is_inspected_without_a_traceback(assay, code_object, step):
    path = code_object("sm90")
    data = path.read_bytes()
    for position, changed in flipped(data, step):
        path.write_bytes(changed)
        ran = assay("inspect", path)
        assert ran.status in (0, 2), position
        assert ran.status == 0 or ran.said
    for length in range(0, len(data), step):
        path.write_bytes(data[:length])
        assert assay("inspect", path).status == 2, length


def test_verify_says_what_it_verified(assay, built):
    ran = assay("verify", built("gfx1201").bundle)
    with Bundle.open(built("gfx1201").bundle) as opened:
        assert f"verified; 6 rows, {len(opened.object_hashes())} code objects, identity {opened.identity}" in ran.text


def explain(assay, built, *request, target="gfx1201"):
    ran = assay("explain", built(target).bundle, "scale", *request, "--json")
    return ran.status, ran.document


def test_explain_chooses_the_preferred_row_and_names_the_one_behind_it(assay, built):
    status, document = explain(assay, built, "x_dtype=f16", "width=96", "alignment=32")
    assert status == 0
    holding = [row for row in document["rows"] if not row["failed"]]
    assert [row["preference"] for row in holding] == [10, 0]
    assert document["chosen"] == holding[0]["variant"]
    status, document = explain(assay, built, "x_dtype=f16", "width=96", "alignment=4")
    assert status == 0
    assert [row["preference"] for row in document["rows"] if row["variant"] == document["chosen"]] == [0]
    said = assay("explain", built("gfx1201").bundle, "scale", "x_dtype=f16", "width=96", "alignment=16").out
    assert "chosen " in said
    assert "behind it " in said


def test_explain_says_for_every_row_what_was_requested_and_what_is_required(assay, built):
    status, document = explain(assay, built, "x_dtype=f32", "width=96", "alignment=4")
    assert (status, document["chosen"]) == (1, None)
    assert len(document["rows"]) == 6
    assert all(row["failed"] for row in document["rows"])
    failed = {(item["field"], item["requested"]) for row in document["rows"] for item in row["failed"]}
    assert ("width", "96") in failed
    assert ("x_dtype", "'f32'") in failed


@pytest.mark.parametrize("request_item", ["width", "=64", "width="])
def test_a_request_that_is_none_is_bad_usage(assay, built, request_item):
    assert assay("explain", built("gfx1201").bundle, "scale", request_item).status == 2
    assert assay("explain", built("gfx1201").bundle, "scale", "width=64", "width=64").status == 2


@pytest.mark.parametrize("value", ["--5", "9" * 5000, "\u0664", "true", "1.5", "-"])
def test_an_odd_value_matches_no_row_and_is_no_crash(assay, built, value):
    assert assay("explain", built("gfx1201").bundle, "scale", "x_dtype=f16", f"width={value}").status == 1


def test_an_unknown_family_is_refused_with_the_families_there_are(assay, built):
    ran = assay("explain", built("gfx1201").bundle, "scal", "width=64")
    assert ran.status == 1
    assert "scale" in ran.said
