"""`assay run` launches cases through the runtime and tells how close the outputs came."""

import pytest

from assay import reference
from assay.bundle import write_bundle
from assay.qualify import bundling
from assay.qualify.running import SIZES

DECODE = ("decode_attention", "head_dim=64", "block_m=4")
AXES = {
    "head_dim": 64,
    "rows": 1,
    "block_m": 4,
    "kv_format": "bf16",
    "window": True,
    "soft_cap": False,
    "alignment": 16,
}
SMALL = sorted(reference.cases("decode_attention", AXES), key=lambda case: case.tensors["indices"].view.size)[:2]
QUICK = tuple(word for case in SMALL for word in ("--case", case.name))


@pytest.fixture
def run(assay, shipped):
    return lambda *arguments: assay("run", shipped, *arguments)


def with_tolerance(path, out, absolute, relative):
    """The bundle with another tolerance in its contracts."""
    contents = bundling._read(path).contents
    tolerance = {"absolute": absolute, "relative": relative}
    families = {name: {**contract, "tolerance": tolerance} for name, contract in contents.manifest.families.items()}
    manifest = contents.manifest._replace(families=families)
    write_bundle(out, contents._replace(manifest=manifest))
    return out


def test_every_case_of_a_row_passes_and_the_row_that_answered_is_named(run):
    ran = run("merge_splits", "head_dim=64", "sinks=true", "--json")
    assert ran.status == 0
    document = ran.document
    assert (document["schema"], document["verdict"]) == ("assay.run/1", "pass")
    assert len(document["results"]) >= 9
    (id,) = document["rows"]
    assert "sinks=true" in document["rows"][id]
    for result in document["results"]:
        assert result["rows"] == [id]
        assert result["largest_error"] < 0.02
        assert result["limits"] == {"out": [0.002, 0.02], "lse": [0.002, 0.0001]}


def test_the_table_has_a_line_a_case_with_error_limit_and_verdict(run):
    ran = run(*DECODE, *QUICK)
    assert ran.status == 0
    titles, first, second, *_ = ran.out.splitlines()
    assert titles.split() == ["case", "row", "largest", "error", "limit", "verdict", "seconds"]
    assert [first.startswith(SMALL[0].name), second.startswith(SMALL[1].name)] == [True, True]
    assert "partial_out 0.002 + 0.02 |x|, partial_lse 0.002 + 0.0001 |x|  pass" in first
    assert "2 of 2 within tolerance" in ran.out


def test_the_dispatch_answers_unless_the_row_is_forced(run):
    wide = (*DECODE, "offset_bits=64", *QUICK[:2], "--json")
    (result,) = run(*wide).document["results"]
    assert result["rows"] != [result["meant"]]
    (result,) = run(*wide, "--force").document["results"]
    assert result["rows"] == [result["meant"]]
    results = run(*DECODE, *QUICK[:2], "--all-rows", "--json").document["results"]
    assert len({result["meant"] for result in results}) == 2
    assert all(result["rows"] == [result["meant"]] for result in results)


def test_a_row_for_up_to_eight_queries_runs_its_cases_of_fewer(assay, tmp_path):
    axes = {**AXES, "rows": 8, "block_m": 16, "kv_format": "int8_per_token_head", "window": False, "offset_bits": 64}
    only = "family=decode_attention," + ",".join(f"{name}={str(value).lower()}" for name, value in axes.items())
    arguments = ("--target", "gfx1201", "--profile", "full", "--evidence", "static", "--update-lock")
    assert assay("qualify", *arguments, "--only", only, "--out", tmp_path).status == 0
    cases = sorted(reference.cases("decode_attention", axes), key=lambda case: case.tensors["indices"].view.size)[:3]
    assert len({case.dims["rows"] for case in cases}) > 1
    words = [word for case in cases for word in ("--case", case.name)]
    ran = assay("run", tmp_path / "gfx1201" / "gfx1201.full.only.assay", "decode_attention", *words, "--json")
    assert ran.status == 0
    assert [result["verdict"] for result in ran.document["results"]] == ["pass"] * 3


def test_sizes_make_one_call_of_both_stages(run):
    sizes = ("batch=2", "keys=40", "kv_heads=2", "splits=3", "window_length=13", "sinks=true", "seed=5")
    ran = run(*DECODE, *sizes, "--json")
    assert ran.status == 0
    (result,) = ran.document["results"]
    assert result["case"] == "batch 2, keys 40, KV heads 2, window 13, sinks, splits 3"
    assert 0 < result["largest_error"] < 0.02
    answered = ran.document["rows"].values()
    assert sorted("reader" in label for label in answered) == [False, True]


def test_a_call_without_keys_gives_zeros(run):
    (result,) = run(*DECODE, "keys=0", "batch=3", "--json").document["results"]
    assert (result["verdict"], result["largest_error"]) == ("pass", 0.0)


@pytest.mark.parametrize("facts", [("keys=33", "splits=2"), ()], ids=["call", "case"])
def test_an_output_beyond_the_bundles_tolerance_is_1(assay, shipped, tmp_path, facts):
    path = with_tolerance(shipped, tmp_path / "strict.assay", "0.0", "1e-09")
    ran = assay("run", path, *DECODE, *facts, *(() if facts else QUICK))
    assert ran.status == 1
    assert "elements wrong, first at" in ran.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("decode_attention", "head_dim=96"), "head_dim=96; allowed: head_dim: 64"),
        (("decode_attention", "blokc_m=4"), "blokc_m is no axis of these rows; allowed: family, alignment, block_m"),
        (("decode_attention", "window=false"), "window=false; allowed: window: true"),
        (("decode_attention", "head_dim"), "'head_dim' is not KEY=VALUE"),
        (("decode_atention",), "did you mean decode_attention?"),
        (("merge_splits", "keys=3"), "keys is no axis"),
        (("merge_splits", "--case", "one splt"), "did you mean one split?"),
        (("merge_splits", "--device", "tpu"), "allowed: cuda:N, hip:N, emulator or emulator:ARCH"),
        (("decode_attention", "batch=0", "sinks=3", "splits=129"), "batch=0: allowed: 1 to 4,096"),
        (("decode_attention", "batch=0", "sinks=3", "splits=129"), "sinks=3: allowed: true or false"),
        (("decode_attention", "batch=0", "sinks=3", "splits=129"), "splits=129: allowed: 1 to 128"),
        (("decode_attention", "batch=4096", "keys=100000"), "batch x keys x kv_heads: 409,600,000"),
    ],
)
def test_bad_input_is_2_and_says_what_there_is(run, arguments, said):
    ran = run(*arguments)
    assert ran.status == 2
    assert said in ran.said
    assert ran.out == ""


def test_a_missing_or_damaged_bundle_is_2(assay, shipped, tmp_path):
    assert assay("run", tmp_path / "absent", "merge_splits").status == 2
    (tmp_path / "cut").write_bytes(shipped.read_bytes()[:5000])
    assert assay("run", tmp_path / "cut", "merge_splits").status == 2
    assert assay("run", tmp_path, "merge_splits").status == 2


@pytest.mark.parametrize("call", [("merge_splits",), (*DECODE, "keys=9")], ids=["cases", "one call"])
@pytest.mark.parametrize("kind", ["variants", "sources", "objects"])
def test_damage_in_what_is_read_late_is_2_and_named(assay, shipped, damaged, kind, call):
    path, parts = damaged(shipped, kind)
    ran = assay("run", path, *call)
    assert (ran.status, ran.out) == (2, "")
    assert [part for part in parts if f"{path}: {part}: " not in ran.said] == []


def test_the_help_says_what_one_call_launches(assay):
    said = assay("run", "--help").text
    assert "stage 1 and merge or, where nothing is split, one kernel of decode_attention_unsplit" in said
    assert all(f"{name}=" in said for name in SIZES)


@pytest.mark.parametrize("device", ["cuda:99", "hip:99", "emulator:gfx1200"])
def test_a_device_that_is_not_there_is_4_with_the_reason(run, device):
    ran = run("merge_splits", "--device", device)
    assert ran.status == 4
    assert device.split(":")[1] in ran.said or device in ran.said


def test_without_numpy_it_is_4_with_what_to_install(run, monkeypatch):
    from assay.qualify.commands import run_command

    monkeypatch.setattr(run_command.importlib.util, "find_spec", lambda _: None)
    ran = run("merge_splits")
    assert ran.status == 4
    assert "numpy is not installed" in ran.said


def test_a_window_that_is_refused_has_no_length(run):
    ran = run(*DECODE, "keys=9", "window=false", "window_length=3")
    assert ran.status == 2
    assert "window_length: 3 with window=false" in ran.said
