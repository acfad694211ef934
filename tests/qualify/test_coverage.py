"""`assay coverage`: calls are asked of the runtime's dispatch, and what no kernel knows is never passed over."""

import importlib.util
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.bundle import Bundle, write_bundle
from assay.bundle.table import in_order
from assay.qualify.coverage.shadowing import accepts_all_of, shadowed
from assay.runtime import load

_spec = importlib.util.spec_from_file_location("bundle_factory", Path(__file__).parents[1] / "bundle" / "factory.py")
factory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(factory)

LIST = "schema: assay.models/1\nmodels:\n"
SMALL = "  - {name: small, config: x/small, q_heads: 32, kv_heads: 8, head_dim: 128, layers: [{count: 2}]}\n"
SLIDING = (
    "  - {name: sliding, config: x/s, q_heads: 32, kv_heads: 8, head_dim: 128, layers: [{count: 2, window: 64}]}\n"
)
CAPPED = (
    "  - {name: capped, config: x/c, q_heads: 32, kv_heads: 8, head_dim: 128, layers: [{count: 2, soft_cap: 50.0}]}\n"
)
SUNK = "  - {name: sunk, config: x/k, q_heads: 32, kv_heads: 8, head_dim: 128, layers: [{count: 2, sinks: true}]}\n"
WIDE = "  - {name: wide, config: x/w, q_heads: 36, kv_heads: 4, head_dim: 128, layers: [{count: 2}]}\n"
UNEVEN = (
    "  - {name: uneven, config: x/u, q_heads: 32, kv_heads: 8, head_dim: 128, head_dim_v: 64, layers: [{count: 1}]}\n"
)

DECODE = [("head_dim", "eq", 128), ("gqa", "eq", 4), ("kv_format", "eq", "bf16"), ("window", "eq", False)]
FIRST = ("aligned32", [*DECODE, ("alignment", "multiple_of", 16), ("cache_bytes", "at_most", 2**31 - 1)])
SECOND = ("aligned64", [*DECODE, ("alignment", "multiple_of", 16)])
LAST = ("unaligned", DECODE)
MERGE = ("merge", [("head_dim", "eq", 128), ("sinks", "eq", False), ("splits", "at_most", 128)])


def pointer(name, shape, **more):
    return {"name": name, "kind": "pointer", "role": "input", "dtype": "bf16", "shape": shape, **more}


CACHE = pointer("k_cache", ["slots", "kv_heads", "head_dim"], alignment={"axis": "alignment"})
CONTRACTS = {
    "decode_attention": {"arguments": [CACHE], "extents": {"cache_bytes": ["k_cache"]}},
    "merge_splits": {"arguments": [pointer("partial_out", ["batch", "q_heads", "splits", "head_dim"])]},
    "copy": {"arguments": []},
}


@pytest.fixture
def judge(assay, tmp_path):
    """Runs the command on a bundle with these rows, (id, conditions) by family, and a list of these models."""

    def run(decode=(FIRST, SECOND, LAST), merge=(MERGE,), models=SMALL, more=(), target="gfx1201", extra=()):
        rows = [factory.make_row(*row, family="decode_attention", target=target) for row in decode]
        rows += [factory.make_row(*row, family="merge_splits", target=target) for row in merge]
        rows += list(extra)
        contents = factory.make_contents(rows)
        families = {name: CONTRACTS[name] for name in contents.manifest.families}
        targets = tuple(t for t in factory.TARGETS if t.name in {row.target for row in rows})
        manifest = contents.manifest._replace(families=families, targets=targets)
        write_bundle(tmp_path / "b.assay", contents._replace(manifest=manifest))
        (tmp_path / "list.yaml").write_text(LIST + models)
        return assay("coverage", tmp_path / "list.yaml", tmp_path / "b.assay", *more)

    return run


def only_device(ran):
    (device,) = ran.document["devices"]
    return device


def answers_of(device, call, family):
    return [device["answers"][i] for i in call["answers"] if device["answers"][i]["family"] == family]


def test_small_and_large_caches_are_asked_for_and_answered_by_their_rows(judge):
    ran = judge(more=["--json"])
    assert (ran.status, ran.document["schema"], ran.document["verdict"]) == (0, "assay.coverage/1", "covered")
    device = only_device(ran)
    (call,) = device["calls"]
    assert (call["model"], call["layers"], call["verdict"]) == ("small", 2, "specialised")
    stage_1 = answers_of(device, call, "decode_attention")
    assert [(a["request"]["cache_bytes"], a["row"], a["behind"]) for a in stage_1] == [
        (2**31 - 1, "aligned32", ["aligned64", "unaligned"]),
        (2**36, "aligned64", ["unaligned"]),
    ]
    assert {a["request"]["alignment"] for a in stage_1} == {16}
    assert [a["request"]["splits"] for a in answers_of(device, call, "merge_splits")] == [1, 8, 64, 128]
    assert {row["row"]: row["reach"] for row in device["rows"]} == {
        "aligned32": "answers", "aligned64": "answers", "unaligned": "behind", "merge": "answers",
    }  # fmt: skip


def test_every_answer_is_the_runtimes_own(judge, tmp_path):
    device = only_device(judge(models=SMALL + SLIDING + SUNK + WIDE, more=["--json"]))
    with load(tmp_path / "b.assay", device=("hip", "gfx1201")) as kernels:
        for answer in device["answers"]:
            assert kernels.supports(answer["family"], **answer["request"]) == (answer["row"] is not None)
            if answer["row"]:
                assert kernels.select(answer["family"], **answer["request"]).row.id == answer["row"]
    assert {answer["row"] is None for answer in device["answers"]} == {True, False}


def test_a_call_that_no_row_answers_fails_and_says_which_condition(judge):
    device = only_device(ran := judge(models=SMALL + WIDE, more=["--json"]))
    assert (ran.status, ran.document["verdict"]) == (1, "missing")
    assert [call["verdict"] for call in device["calls"]] == ["specialised", "missing"]
    refused = answers_of(device, device["calls"][1], "decode_attention")[0]
    assert refused["failed"] == [{"field": "gqa", "requested": "9", "required": "4"}]
    assert refused["covers"] == ["the bundle covers gqa: 4"]
    table = judge(models=SMALL + WIDE)
    assert table.status == 1
    assert "decode_attention: gqa 9; the bundle covers gqa: 4" in table.out
    assert re.search(r"MISSING: [1-9]\d* of \d+ calls are not answered", table.out)


def test_no_models_name_is_cut_on_a_narrow_terminal(judge, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    lines = judge(models=SMALL.replace("small", "a-name-of-37-characters-that-has-folds")).out.splitlines()
    (titles,) = (number for number, line in enumerate(lines) if line.lstrip().startswith("call "))
    column = lines[titles].index("models")
    cells = [line[column:].strip() for line in lines[titles + 2 :]]
    assert "".join(cells).startswith("a-name-of-37-characters-that-has-folds")


def test_a_last_row_that_answers_is_called_generic(judge):
    device = only_device(judge(decode=[LAST], more=["--json"]))
    assert device["calls"][0]["verdict"] == "generic"


@pytest.mark.parametrize(
    ("model", "fact"), [(CAPPED, "soft_cap"), (SUNK, "sinks"), (SLIDING, "window"), (UNEVEN, "head_dim_v")]
)
def test_a_fact_that_nothing_knows_is_missing_and_never_passed_over(judge, model, fact):
    """Without the condition the rows would accept the call, and compute something else."""
    decode = [("any", [c for c in DECODE if c[0] != "window"])]
    merge = [("merge", [c for c in MERGE[1] if c[0] != "sinks"])]
    device = only_device(ran := judge(decode=decode, merge=merge, models=model, more=["--json"]))
    assert ran.status == 1
    (call, *_) = device["calls"]
    assert (call["verdict"], call["unknown_facts"], call["answers"]) == ("missing", [fact], [])
    assert f"{fact}: neither a condition nor an argument" in judge(decode=decode, merge=merge, models=model).out


def test_an_axis_that_a_family_gains_is_used_without_a_change_here(judge):
    capped = [("with", [*DECODE, ("soft_cap", "eq", True)]), ("without", [*DECODE, ("soft_cap", "eq", False)])]
    device = only_device(ran := judge(decode=capped, models=SMALL + CAPPED, more=["--json"]))
    assert ran.status == 0
    rows = [{a["row"] for a in answers_of(device, call, "decode_attention")} for call in device["calls"]]
    assert rows == [{"without"}, {"with"}]


def test_rows_that_take_any_group_up_to_a_size_and_several_query_rows(judge):
    block = [("block", [*(c for c in DECODE if c[0] != "gqa"), ("gqa", "at_most", 16), ("rows", "at_most", 8)])]
    assert judge(decode=block, models=SMALL + WIDE).status == 0
    assert judge(decode=block, models=WIDE, more=["--fact", "rows=1", "--fact", "rows=8"]).status == 0
    ran = judge(decode=block, models=WIDE, more=["--fact", "rows=1", "--fact", "rows=9"])
    assert ran.status == 1
    assert "rows 9; the bundle covers rows: at most 8" in ran.out


def test_a_condition_on_the_product_of_query_rows_and_group_is_asked_for_as_the_product(judge, monkeypatch):
    facts = [c for c in DECODE if c[0] != "gqa"]
    blocks = [
        (id, [*facts, ("query_rows", "at_most", n), ("rows", "at_most", 8)]) for id, n in (("a8", 8), ("b16", 16))
    ]
    products = {**CONTRACTS["decode_attention"], "products": {"query_rows": ["rows", "gqa"]}}
    monkeypatch.setitem(CONTRACTS, "decode_attention", products)
    device = only_device(ran := judge(decode=blocks, models=SMALL + WIDE, more=["--json"]))
    assert ran.status == 0
    answered = [{a["row"] for a in answers_of(device, call, "decode_attention")} for call in device["calls"]]
    assert answered == [{"a8"}, {"b16"}]
    ran = judge(decode=blocks, models=WIDE, more=["--fact", "rows=1", "--fact", "rows=2"])
    assert ran.status == 1
    assert "query_rows 18; the bundle covers query_rows: at most 8; at most 16" in ran.out


@pytest.mark.parametrize(
    ("fact", "least"),
    [
        ("rows=0", 1),
        ("rows=-1", 1),
        ("splits=0", 1),
        ("splits=true", 1),
        ("batch=-3", 1),
        ("batch=two", 1),
        ("alignment=0", 1),
        ("cache_bytes=-1", 0),
    ],
)
def test_a_size_that_is_none_is_bad_input_and_not_answered(judge, fact, least):
    block = [("block", [*FIRST[1], ("rows", "at_most", 8)])]
    ran = judge(decode=block, more=["--fact", "rows=1", "--fact", fact])
    assert (ran.status, ran.out) == (2, "")
    assert ran.said == f"--fact: {fact}; allowed: an integer of at least {least}"


def test_an_empty_cache_is_a_size(judge):
    assert judge(more=["--fact", "cache_bytes=0"]).status == 0


def test_the_sizes_of_a_bundle_with_families_for_another_device_only_are_known(judge):
    other = factory.make_row("other", DECODE, family="copy", target="sm120")
    assert judge(extra=[other], more=["--fact", "splits=0"]).status == 2
    assert judge(extra=[other], more=["--fact", "splits=1"]).status == 1


def test_several_query_rows_of_a_family_without_that_axis_are_missing(judge):
    ran = judge(more=["--fact", "rows=8", "--json"])
    assert ran.status == 1
    assert only_device(ran)["calls"][0]["unknown_facts"] == ["rows"]
    assert judge(more=["--fact", "rows=1"]).status == 0


def test_a_field_that_no_model_tells_is_said_to_be_not_given(judge):
    ran = judge(decode=[("odd", [*DECODE, ("page_size", "eq", 1)])])
    assert ran.status == 1
    assert "page_size not given" in ran.out
    assert judge(decode=[("odd", [*DECODE, ("page_size", "eq", 1)])], more=["--fact", "page_size=1"]).status == 0


def test_a_bundle_without_one_of_the_two_stages_answers_nothing(judge):
    ran = judge(merge=[])
    assert ran.status == 1
    assert "merge_splits: no row for this device" in ran.out


def test_another_family_must_answer_only_when_it_is_asked_for(judge):
    copy = factory.make_row("copy", [("head_dim", "eq", 64)], family="copy")
    ran = judge(extra=[copy], more=["--json"])
    assert (ran.status, only_device(ran)["families_not_judged"]) == (0, ["copy"])
    assert judge(extra=[copy], more=["--family", "copy"]).status == 1


def test_formats_are_those_that_rows_ask_for_unless_some_are_named(judge):
    fp8 = [("fp8", [*(c for c in DECODE if c[0] != "kv_format"), ("kv_format", "eq", "fp8_per_token_head")])]
    assert judge(decode=[FIRST, SECOND, *fp8], more=["--json"]).document["kv_formats"] == ["bf16", "fp8_per_token_head"]
    ran = judge(more=["--format", "int8_per_token_head", "--format", "bf16", "--json"])
    assert [call["verdict"] for call in only_device(ran)["calls"]] == ["missing", "specialised"]
    bare = [("bare", [c for c in DECODE if c[0] != "kv_format"])]
    ran = judge(decode=bare)
    assert ran.status == 2
    assert "no row asks for kv_format" in ran.said
    assert judge(decode=bare, more=["--format", "bf16"]).status == 1, "bf16 or not is nothing to pass over"


def test_a_waiver_lets_one_model_be_missing_and_says_when_it_is_needless(judge):
    ran = judge(models=SMALL + WIDE, more=["--allow-missing", "WIDE", "--json"])
    assert (ran.status, ran.document["allowed_missing"]) == (0, ["wide"])
    assert only_device(ran)["calls"][1]["verdict"] == "missing"
    table = judge(models=SMALL + WIDE, more=["--allow-missing", "wide", "--allow-missing", "small"])
    assert "waived" in table.out
    assert "COVERED, but for wide" in table.out
    assert "--allow-missing small: nothing of it is missing" in table.said
    assert judge(models=WIDE + CAPPED, more=["--allow-missing", "wide"]).status == 1


def test_rows_that_no_model_reaches_and_rows_that_another_always_outranks(judge):
    unused = ("unused", [("head_dim", "eq", 256), *DECODE[1:]])
    twin = ("twin", [*SECOND[1], ("alignment", "multiple_of", 8)])
    device = only_device(judge(decode=[FIRST, SECOND, LAST, unused, twin], more=["--json"]))
    rows = {row["row"]: row for row in device["rows"]}
    assert rows["unused"]["reach"] == "none"
    assert {name: row["shadowed_by"] for name, row in rows.items() if row["shadowed_by"]} == {"aligned64": "twin"}
    table = judge(decode=[FIRST, SECOND, LAST, unused, twin])
    assert "reached by no model: unused" in table.out
    assert "always outranked, so for calls that forbid the others: 1 row" in table.out
    assert "  aligned6 head_dim=128 kv_format=bf16, by twin\n" in table.out


def test_what_one_model_does_not_reach_is_counted_and_not_listed(judge):
    unused = ("unused", [("head_dim", "eq", 256), *DECODE[1:]])
    said = judge(decode=[FIRST, SECOND, LAST, unused], more=["--model", "small"]).out
    assert "1 row" in said
    assert "reached by no model: unused" not in said
    assert "more (--all" not in said
    listed = judge(decode=[FIRST, SECOND, LAST, unused], more=["--model", "small", "--all"]).out
    assert "reached by no model: unused" in listed


def test_every_device_of_every_bundle_must_answer(judge):
    other = [factory.make_row(f"{id}-sm", c, family=f, target="sm120") for f, id, c in (("merge_splits", *MERGE),)]
    ran = judge(extra=other, more=["--json"])
    assert ran.status == 1
    assert [(d["target"], d["calls"][0]["verdict"]) for d in ran.document["devices"]] == [
        ("gfx1201", "specialised"), ("sm120", "missing"),
    ]  # fmt: skip


def test_a_damaged_code_object_answers_nothing(judge, assay, tmp_path):
    assert judge().status == 0
    path = tmp_path / "b.assay"
    with Bundle.open(path) as bundle:
        blob = bundle._blob_index("object")[bundle.rows("merge_splits")[0].object]
    data = bytearray(path.read_bytes())
    data[blob.offset + 20] ^= 1
    path.write_bytes(data)
    ran = assay("coverage", tmp_path / "list.yaml", path)
    assert ran.status == 1
    assert "kernel merge_splits_kernel" in ran.out


def test_bad_input_is_told_at_once(judge, assay, tmp_path):
    ran = judge(
        more=["--model", "smal", "--fact", "rowz=1", "--fact", "window=true", "--format", "fp8", "--family", "x"]
    )
    assert (ran.status, ran.out) == (2, "")
    for said in ("did you mean small?", "did you mean rows?", "--fact: window", "--format: fp8", "--family: x"):
        assert said in ran.said
    (tmp_path / "bad.yaml").write_text(LIST + "  - {name: x}\n")
    (tmp_path / "bad.assay").write_bytes(b"no bundle")
    ran = assay("coverage", tmp_path / "bad.yaml", tmp_path / "missing.assay", tmp_path / "bad.assay")
    assert ran.status == 2
    for said in (
        "bad.yaml:3:5: missing key 'q_heads'",
        "missing.assay: No such file",
        "bad.assay: is not an assay bundle",
    ):
        assert said in ran.said
    assert assay("coverage", tmp_path / "list.yaml").status == 2
    assert judge(more=["--fact", "rows"]).status == 2


def test_assays_own_list_on_shipped_kernels(assay, shipped, tmp_path):
    """The bundle has two decode rows, of 32- and of 64-bit offsets, for head_dim 64, groups of 4 and windows."""
    (tmp_path / "list.yaml").write_text(
        LIST
        + "  - {name: fits, config: x/f, q_heads: 32, kv_heads: 8, head_dim: 64, layers: [{count: 1, window: 9}]}\n"
    )
    device = only_device(ran := assay("coverage", tmp_path / "list.yaml", shipped, "--json"))
    assert ran.status == 0
    (call,) = device["calls"]
    problems = {row["row"]: row["problem"] for row in device["rows"]}
    rows = [answer["row"] for answer in answers_of(device, call, "decode_attention")]
    assert [problems[row]["offset_bits"] for row in rows] == [32, 64]
    assert all(row["code_bytes"] > 0 for row in device["rows"])

    ran = assay("coverage", shipped, "--json")
    assert (ran.status, ran.document["verdict"]) == (1, "missing")
    verdicts = {call["model"]: call["verdict"] for call in only_device(ran)["calls"]}
    assert len(verdicts) >= 25
    assert set(verdicts.values()) == {"missing"}, "no listed model has groups of 4 at head_dim 64 with a window"


FIELDS = {"a": (1, 2, 3, 4, 8, 16), "b": (True, False), "c": ("x", "y")}
CONDITIONS = st.one_of(
    st.tuples(
        st.just("a"), st.sampled_from(["eq", "multiple_of", "at_least", "at_most"]), st.sampled_from(FIELDS["a"])
    ),
    st.tuples(st.just("a"), st.just("one_of"), st.sampled_from([(1, 2), (4, 8, 16), (2,)])),
    st.tuples(st.just("b"), st.just("eq"), st.booleans()),
    st.tuples(st.just("c"), st.just("one_of"), st.sampled_from([("x",), ("x", "y")])),
)
ROWS = st.lists(CONDITIONS, max_size=3)


@settings(max_examples=300, deadline=None, database=None)
@given(ROWS, ROWS)
def test_a_row_is_only_called_wider_if_it_accepts_whatever_the_other_does(wide, narrow):
    wide, narrow = factory.make_row("wide", wide), factory.make_row("narrow", narrow)
    requests = [dict(zip(FIELDS, values, strict=True)) for values in itertools.product(*FIELDS.values())]
    if accepts_all_of(wide, narrow):
        for request in requests:
            accepted = [all(c.holds(request) for c in row.conditions) for row in (wide, narrow)]
            assert accepted[0] or not accepted[1]


def test_rows_are_shadowed_by_wider_rows_of_higher_preference_and_not_the_other_way_round():
    narrow = factory.make_row("narrow", [("a", "eq", 16), ("b", "eq", True)])
    wide = factory.make_row("wide", [("a", "multiple_of", 8)])
    assert shadowed(in_order([narrow, wide])) == {}
    assert shadowed(in_order([narrow, wide._replace(preference=1)])) == {"narrow": "wide"}
    for given_, wanted in (("at_least", "at_least"), ("multiple_of", "at_least"), ("multiple_of", "multiple_of")):
        assert accepts_all_of(factory.make_row("w", [("a", wanted, 4)]), factory.make_row("n", [("a", given_, 8)]))
        assert not accepts_all_of(factory.make_row("w", [("a", wanted, 8)]), factory.make_row("n", [("a", given_, 4)]))
    assert accepts_all_of(factory.make_row("w", [("a", "at_most", 8)]), factory.make_row("n", [("a", "at_most", 4)]))
    assert accepts_all_of(
        factory.make_row("w", [("a", "at_most", 8)]), factory.make_row("n", [("a", "one_of", (4, 8))])
    )


def test_the_json_is_the_whole_of_standard_output(judge):
    assert json.loads(judge(more=["--json"]).out)["families"] == ["decode_attention", "merge_splits"]
