"""inspect, verify and explain on good files, damaged ones and no files: a status and a message, never a traceback."""

import importlib.util
import json
from pathlib import Path

import pytest

from assay.bundle import Bundle, write_bundle
from assay.bundle import explain as verdicts
from assay.objects import find_disassembler
from tests.specs import MISFITS

TARGETS = ["gfx1201", "sm90"]


@pytest.fixture(scope="module")
def factory():
    """The bundle tests' factory: test files are imported on their own, so it is loaded by its path."""
    path = Path(__file__).parents[1] / "bundle" / "factory.py"
    spec = importlib.util.spec_from_file_location("bundle_factory", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    said = assay("inspect", code_object(target)).out
    assert "scale_rows" in said
    assert ", 1 kernel\n" in said
    assert "known only at launch" in said
    assert ("vgpr_count" in said, "register_count" in said) == ((True, False) if target == "gfx1201" else (False, True))


@pytest.mark.parametrize("target", TARGETS)
def test_inspect_of_a_bundle_has_a_kernel_for_each_row_with_the_figures_of_the_build(assay, built, target):
    document = assay("inspect", built(target).bundle, "--json").document
    assert document["kind"] == "bundle"
    report = json.loads((built(target).folder / "report.json").read_text())
    recorded = {p["chosen"]["id"]: p["chosen"]["resources"] for p in report["problems"]}
    assert {kernel["variant"]: kernel["resources"] for kernel in document["kernels"]} == recorded
    assert all(kernel["resources"]["lds_total_bytes"] == 0 for kernel in document["kernels"])
    problems = {p["chosen"]["id"]: p["problem"] for p in report["problems"]}
    assert {kernel["variant"]: kernel["problem"] for kernel in document["kernels"]} == problems
    said = assay("inspect", built(target).bundle).out
    assert f"bundle, {len(recorded)} kernels" in said
    assert all(sum(id in line for line in said.splitlines()) == 1 for id in recorded)


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


def test_explain_prints_the_answer_first_then_why_others_come_after_it_then_the_nearest(assay, built):
    bundle = built("gfx1201").bundle
    with Bundle.open(bundle) as opened:
        rows = opened.rows("scale")
        request = {"x_dtype": "f16", "width": 96, "alignment": 32}
        first, second = [verdict.row for verdict in verdicts(rows, request) if verdict.holds]
    ran = assay("explain", bundle, "scale", "x_dtype=f16", "width=96", "alignment=32")
    lines = ran.out.splitlines()
    launch = " ".join(f"{name}={value}" for name, value in first.launch.items())
    assert (
        lines[0] == f"chosen    {first.id} (gfx1201) alignment=16 width=96 x_dtype=f16 | {launch}; evidence static pass"
    )
    assert lines[1] == f"behind it {second.id} (gfx1201): lower preference 0 < 10"
    assert [line.split()[0] for line in lines[2:]] == ["no"] * 4
    counts = [line.count("required") for line in lines[2:]]
    assert counts == sorted(counts)
    assert ran.said == ""


def test_explain_tells_of_the_8_nearest_rows_unless_asked_for_all(assay, tmp_path, factory):
    rows = [factory.make_row(f"r{i:02}", [("head_dim", "eq", i), ("window", "eq", False)]) for i in range(12)]
    rows += [factory.make_row("b", [("head_dim", "eq", 3)]), factory.make_row("c", [("gqa", "eq", 8)])]
    write_bundle(tmp_path / "x.assay", factory.make_contents(rows))
    request = ("explain", tmp_path / "x.assay", "copy", "head_dim=3", "gqa=8")
    lines = assay(*request, "window=false").out.splitlines()
    assert lines[0] == "chosen    r03 (gfx1201) head_dim=128 kv_format=bf16 | BLOCK_N=32 num_stages=2"
    assert lines[1:3] == [f"behind it {id} (gfx1201): fewer conditions 1 < 2" for id in "bc"]
    assert lines[3] == "no        r00 (gfx1201): head_dim: requested 3, required 0"
    assert lines[11:] == ["… 3 others fail 1 condition (--all shows them)"]
    ran = assay(*request, "window=true")
    lines = ran.out.splitlines()
    assert lines[1] == "behind it c (gfx1201): later id c > b"
    assert lines[2] == "no        r03 (gfx1201): window: requested true, required false"
    assert lines[10:] == ["… 4 others fail 2 conditions (--all shows them)"]
    assert len(assay(*request, "window=true", "--all").out.splitlines()) == 14
    document = assay(*request, "window=true", "--json").document
    assert len(document["rows"]) == 14
    assert {row["reason"] for row in document["rows"]} == {
        "chosen",
        "later id c > b",
        "fails 1 of 2 conditions",
        "fails 2 of 2 conditions",
    }
    assert all(row["problem"] == {"head_dim": 128, "kv_format": "bf16"} for row in document["rows"])
    failed = [item for row in document["rows"] for item in row["failed"] if item["field"] == "window"]
    assert failed[0] == {"field": "window", "requested": "true", "required": "false"}


def test_explain_takes_the_dimensions_of_a_product_for_it(assay, tmp_path, factory):
    rows = [factory.make_row(f"upto{n}", [("query_rows", "at_most", n)], preference=-n) for n in (4, 8)]
    contents = factory.make_contents(rows)
    families = {"copy": {"arguments": [], "products": {"query_rows": ["rows", "gqa"]}}}
    write_bundle(tmp_path / "x.assay", contents._replace(manifest=contents.manifest._replace(families=families)))
    for facts, chosen in ((("rows=1", "gqa=4"), "upto4"), (("rows=2", "gqa=3"), "upto8"), (("query_rows=5",), "upto8")):
        ran = assay("explain", tmp_path / "x.assay", "copy", *facts)
        assert (ran.status, ran.said) == (0, "")
        assert ran.out.startswith(f"chosen    {chosen} ")
    ran = assay("explain", tmp_path / "x.assay", "copy", "rows=3", "gqa=3")
    assert ran.status == 1
    assert "query_rows: requested 9, required at most 8" in ran.out


def test_explain_writes_a_row_on_one_line_however_narrow(assay, built, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    ran = assay("explain", built("gfx1201").bundle, "scale", "x_dtype=f16", "width=96", "alignment=32")
    assert len(ran.out.splitlines()) == 6


def test_explain_tells_of_fields_that_no_row_asks_for_and_of_those_left_out(assay, built):
    ran = assay("explain", built("gfx1201").bundle, "scale", "x_dtype=f16", "width=96", "aligment=16", "reader=generic")
    assert ran.status == 1
    for said in (
        "'aligment' is a condition of no row of scale; did you mean alignment?",
        "'reader' is a condition of no row of scale",
        "alignment was not given: 6 rows that need it were passed over",
    ):
        assert said in ran.said


@pytest.mark.parametrize("value", ["no", "0", "True"])
def test_what_is_neither_true_nor_false_is_bad_usage_for_a_boolean(assay, tmp_path, factory, value):
    write_bundle(tmp_path / "x.assay", factory.make_contents(factory.small_rows()))
    ran = assay("explain", tmp_path / "x.assay", "merge_splits", "splits=1", f"sinks={value}")
    assert ran.status == 2
    assert f"sinks={value}: true or false" in ran.said


@pytest.mark.parametrize("item", ["q_align=0", "q_align=-16", "kv_bytes=-5"])
def test_a_size_that_no_call_can_have_is_bad_usage(assay, tmp_path, factory, item):
    write_bundle(tmp_path / "x.assay", factory.make_contents(factory.small_rows()))
    ran = assay("explain", tmp_path / "x.assay", "copy", "head_dim=128", "gqa=4", item)
    assert ran.status == 2
    assert f"{item}: must be at least" in ran.said


@pytest.mark.parametrize(
    ("item", "least"), [("splits=0", 1), ("splits=-1", 1), ("batch=0", 1), ("batch=-2", 1), ("kv_bytes=-1", 0)]
)
def test_a_size_of_the_contract_that_no_call_can_have_is_bad_usage(assay, tmp_path, factory, item, least):
    rows = [factory.make_row("merge", [("splits", "at_most", 128), ("kv_bytes", "at_most", 64)], family="merge_splits")]
    shape = ["batch_plus_1", "splits"]
    partial = {"name": "partial", "kind": "pointer", "role": "input", "dtype": "f32", "shape": shape}
    families = {"merge_splits": {"arguments": [partial], "extents": {"kv_bytes": ["partial"]}}}
    contents = factory.make_contents(rows)
    write_bundle(tmp_path / "x.assay", contents._replace(manifest=contents.manifest._replace(families=families)))
    ran = assay("explain", tmp_path / "x.assay", "merge_splits", item)
    assert ran.status == 2
    assert f"{item}: must be at least {least}" in ran.said
    assert assay("explain", tmp_path / "x.assay", "merge_splits", "splits=1", "kv_bytes=0").status == 0


def test_rows_of_several_targets_are_not_compared(assay, tmp_path, factory):
    write_bundle(tmp_path / "x.assay", factory.make_contents(factory.small_rows()))
    request = ("explain", tmp_path / "x.assay", "copy", "head_dim=128", "gqa=4", "q_align=16", "kv_bytes=5")
    lines = assay(*request).out.splitlines()
    assert [line.split(")")[0] for line in lines] == [
        "chosen    aligned (gfx1201",
        "chosen    other-chip (sm120",
        "behind it generic (gfx1201",
        "no        wide (gfx1201",
    ]
    document = assay(*request, "--json").document
    assert document["chosen"] is None
    assert document["chosen_by_target"] == {"gfx1201": "aligned", "sm120": "other-chip"}
    assert assay(*request, "target=sm120", "--json").document["chosen"] == "other-chip"
    ran = assay(*request, "target=sm12")
    assert ran.status == 1
    assert "target=sm12: no row of copy; allowed: gfx1201, sm120; did you mean sm120?" in ran.said


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
