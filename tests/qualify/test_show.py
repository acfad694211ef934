"""`assay show`: a variant is found by its id and shown in full, whatever became of it."""

import json
import re
import time

import pytest

from assay import objects
from assay.bundle import Bundle
from assay.codegen.specs import load_specs
from assay.qualify import finding, showing
from assay.qualify.source_lines import with_source_lines
from tests.specs import FAMILY, MISFITS, SHIPPED, TEMPLATE, TOY, copy_misfits, copy_toy, edit, run

HIP_TEXTS = ["source", "ttir", "ttgir", "llir", "isa"]
CUDA_TEXTS = ["source", "ttir", "ttgir", "llir", "ptx", "isa"]
without_disassembler = pytest.mark.skipif(objects.find_disassembler() is None, reason="no nvdisasm: no Triton wheel")


@pytest.fixture(scope="module")
def ids(built):
    """Ids of the toy bundles' variants by target."""

    def of(target):
        with Bundle.open(built(target).bundle) as opened:
            return opened.variant_ids()

    return of


def show(assay, *arguments, specs=TOY):
    return assay("show", *arguments, "--specs", specs)


def test_a_shipped_amd_variant_is_shown_from_its_source_to_its_isa(assay, built, ids):
    id = ids("gfx1201")[0]
    document = show(assay, id, "--json").document
    assert (document["schema"], document["id"], document["target"]) == ("assay.show/1", id, "gfx1201")
    assert (document["verdict"], document["reasons"]) == ("qualified", [])
    assert list(document["texts"]) == HIP_TEXTS
    with Bundle.open(built("gfx1201").bundle) as opened:
        record = opened.variant(id)
    assert document["code_sha256"] == record.code_sha256
    assert document["texts"]["source"] == record.source
    assert document["problem"] == record.problem
    assert {name: value for name, value in document["resources"].items() if value is not None} == {
        name: value for name, value in record.resources.items() if value is not None
    }
    assert "s_endpgm" in document["texts"]["isa"]
    assert "tt.func" in document["texts"]["ttir"]
    assert "#ttg" in document["texts"]["ttgir"]
    assert "define" in document["texts"]["llir"]


def test_people_are_told_which_profile_a_variant_is_of(assay, ids):
    out = show(assay, ids("gfx1201")[0]).out
    assert re.search(r"^profile +core$", out, re.MULTILINE)


@without_disassembler
def test_a_shipped_nvidia_variant_has_ptx_and_sass(assay, ids):
    document = show(assay, ids("sm90")[0], "--json").document
    assert list(document["texts"]) == CUDA_TEXTS
    assert ".visible .entry scale_rows" in document["texts"]["ptx"]
    assert "EXIT" in document["texts"]["isa"]


def test_one_section_is_the_text_alone_and_several_have_headers(assay, ids):
    id = ids("gfx1201")[0]
    alone = show(assay, id, "--what", "source").out
    assert alone.startswith('"""Rows of')
    usual = show(assay, id).out
    headers = [line.split()[1] for line in usual.splitlines() if line.startswith("== ")]
    assert headers == ["variant", "resources", "source"]
    assert "verdict   qualified (static: pass)" in usual
    everything = show(assay, id, "--what", "all").out
    headers = [line.split()[1] for line in everything.splitlines() if line.startswith("== ")]
    assert headers == ["variant", *HIP_TEXTS, "resources"]
    assert f"id        {id}" in everything
    assert "verdict   qualified (static: pass)" in everything
    assert "scratch_bytes                 0  (limit 0)" in everything


def test_a_unique_prefix_in_any_case_is_enough(assay, ids):
    id = ids("gfx1201")[0]
    assert id[:8] in show(assay, id[:8].upper(), "--what", "resources").out


def test_an_ambiguous_prefix_lists_every_match(monkeypatch, assay):
    monkeypatch.setattr(finding, "MIN_DIGITS", 0)
    ran = show(assay, "", "--target", "sm90")
    assert (ran.status, ran.out) == (2, "")
    assert "begins 8 ids; allowed: one variant; give more digits" in ran.said
    assert ran.said.count("sm90 scale x_dtype=") == 8


def test_an_unknown_id_says_how_many_there_are_and_where_they_stand(assay, ids):
    id = ids("gfx1201")[0]
    wrong = id[:-1] + ("0" if id[-1] != "0" else "1")
    ran = show(assay, wrong)
    assert (ran.status, ran.out) == (2, "")
    assert "no variant among " in ran.said
    assert "report.json and `assay inspect BUNDLE` list them" in ran.said
    assert "did you mean" not in ran.said
    assert show(assay, id, "--target", "sm90").status == 2


@pytest.mark.parametrize("id", ["zz", "abc", "0123456789abcdef0", "../etc", "\u0664\u0664\u0664\u0664"])
def test_what_is_no_id_is_bad_input(assay, id):
    ran = show(assay, id)
    assert ran.status == 2
    assert "4 to 16 hexadecimal digits" in ran.said


@pytest.mark.parametrize("options", [["--target", "sm9"], ["--profile", "cor"], ["--what", "sass"], ["--specs", "/no"]])
def test_bad_options_are_bad_input(assay, options):
    assert assay("show", "0123", "--specs", TOY, *options).status == 2


def test_an_amd_variant_has_no_ptx_and_says_so(assay, ids):
    ran = show(assay, ids("gfx1201")[0], "--what", "ptx")
    assert (ran.status, ran.out) == (2, "")
    assert "gfx1201 is an AMD target; allowed: source, ttir, ttgir, llir, isa" in ran.said


def variants_of(specs, target):
    return list(finding._variants(load_specs(specs), [target], ["core"]))


@pytest.mark.parametrize("target", ["gfx1201", "sm90"])
def test_a_rejected_candidate_is_shown_with_its_reasons(assay, target, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {code_bytes: 100}\n\ntolerance:\n")
    found = variants_of(specs, target)[1]
    assert (found.number, found.of) == (2, 2)
    document = show(assay, found.variant.id, "--json", specs=specs).document
    assert document["verdict"] == "rejected"
    (reason,) = document["reasons"]
    assert (reason["budget"], reason["limit"]) == ("code_bytes", 100)
    assert document["candidate"] == {"number": 2, "of": 2}
    said = show(assay, found.variant.id, "--what", "resources", specs=specs).out
    assert "verdict   rejected" in said
    assert "code_bytes" in said.split("rejected")[1]


def test_a_waived_variant_is_qualified_and_names_its_waiver(assay, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {code_bytes: 100}\n\ntolerance:\n")
    id = variants_of(specs, "gfx1201")[0].variant.id
    fields = {"name": "small", "target": "gfx1201", "profile": "core", "variant": id, "budget": "code_bytes"}
    waiver = {**fields, "ceiling": 100_000, "reason": "for a test", "expires": "2999-12-31"}
    (specs / "waivers").mkdir()
    (specs / "waivers/all.yaml").write_text(json.dumps({"schema": "assay.waivers/1", "waivers": [waiver]}))
    document = show(assay, id, "--json", specs=specs).document
    assert (document["verdict"], document["reasons"]) == ("qualified", [])
    assert document["waived"] == [{"waiver": "small", "budget": "code_bytes", "expires": "2999-12-31"}]
    said = show(assay, id, "--what", "resources", specs=specs).out
    assert "qualified (static: waived(small))" in said
    assert "waived by small" in said


def test_a_candidate_that_does_not_compile_shows_how_far_it_came(assay, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", "import triton\nraise SystemExit('no kernel')\n")
    id = variants_of(specs, "gfx1201")[0].variant.id
    document = show(assay, id, "--json", specs=specs).document
    assert document["verdict"] == "rejected"
    assert document["resources"] is None
    assert document["code_sha256"] is None
    assert list(document["texts"]) == ["source"]
    ran = show(assay, id, specs=specs)
    assert ran.status == 0
    assert "verdict   rejected" in ran.out
    ran = show(assay, id, "--what", "isa", specs=specs)
    assert (ran.status, ran.out) == (2, "")
    assert "no isa, as its compilation failed (compile error: SystemExit: no kernel)" in ran.said


def test_a_worker_that_dies_shows_how_it_died(assay, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", "import os, triton\nos.abort()\n")
    document = show(assay, variants_of(specs, "gfx1201")[0].variant.id, "--json", specs=specs).document
    assert document["reasons"][0]["actual"] == "crashed"
    assert "SIGABRT" in document["compiler_messages"]


@pytest.mark.skipif(not MISFITS.is_dir(), reason="no misfits")
def test_what_a_build_abandons_is_compiled_to_its_end(assay, tmp_path):
    specs = copy_misfits(tmp_path / "misfits")
    for found in variants_of(specs, "gfx1201"):
        document = show(assay, found.variant.id, "--json", specs=specs).document
        if any(reason["budget"] == "lds_total_bytes" for reason in document["reasons"]):
            assert document["resources"]["lds_total_bytes"] > 65_536
            assert "isa" in document["texts"]
            return
    pytest.fail("no misfit needs too much shared memory")


@pytest.mark.parametrize(
    ("target", "mark"),
    [("gfx1201", ";   13: "), pytest.param("sm90", "//   13: ", marks=without_disassembler)],
)
def test_line_info_leaves_the_machine_code_alone_and_names_source_lines(assay, ids, target, mark):
    id = ids(target)[0]
    document = show(assay, id, "--line-info", "--json").document
    assert document["line_info"] == {"same_code": True}
    plain = show(assay, id, "--json").document
    assert plain["line_info"] is None
    assert plain["code_sha256"] == document["code_sha256"], "what is hashed is what ships, without line tables"
    thirteenth = document["texts"]["source"].splitlines()[12]
    assert f"{mark}{thirteenth}" in document["texts"]["isa"]
    assert mark not in plain["texts"]["isa"]


def test_other_machine_code_with_line_tables_is_said_loudly(monkeypatch, assay, ids):
    codes = iter([b"one", b"another"])
    monkeypatch.setattr(showing, "_machine_code", lambda _: next(codes))
    ran = show(assay, ids("gfx1201")[0], "--line-info", "--json")
    assert ran.status == 0
    assert ran.document["line_info"] == {"same_code": False}
    assert "other machine code than the one that ships" in ran.said


def test_a_mark_of_inlined_code_stands_for_the_line_it_was_inlined_at():
    source = "first\nsecond\n"
    assembly = (
        "\t.loc\t2 43 12   ; standard.py:43:12 @[ <rendered 0a>:2:26 ]\n\tv_mov\n\t.loc 1 2 1 ; <rendered 0a>:2:1\n"
    )
    assert with_source_lines(assembly, source, ";").splitlines()[1] == ";    2: second"
    assert with_source_lines(assembly, source, ";").count("second") == 1
    assert with_source_lines("\t.loc 1 9 1 ; <rendered 0a>:9:1\n", source, ";").count("\n") == 1


def test_an_id_is_found_quickly_over_all_shipped_targets(capsys):
    specs = load_specs(SHIPPED)
    started = time.perf_counter()
    with pytest.raises(finding.NotFound):
        finding.find_variant(specs, "0" * 16, tuple(specs.targets), ["core"])
    assert time.perf_counter() - started < 10.0, "some nine thousand candidates are rendered"
    first = next(finding._variants(specs, tuple(specs.targets), ["core"])).variant.id
    started = time.perf_counter()
    finding.find_variant(specs, first, tuple(specs.targets), ["core"])
    assert time.perf_counter() - started < 0.5, "a whole id ends the search"
    assert run(capsys, "show", "0" * 16).status == 2


def test_json_is_alone_on_standard_output(assay, ids):
    ran = show(assay, ids("gfx1201")[0], "--json")
    assert json.loads(ran.out)["schema"] == "assay.show/1"
