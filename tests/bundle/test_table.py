import pickle

import pytest

from assay.bundle import NoMatch, UnknownRow, explain, select
from assay.bundle.table import known_fields, with_products

FULL = {"head_dim": 128, "gqa": 4, "q_align": 16}


@pytest.fixture
def rows(factory):
    return [row for row in factory.small_rows() if row.family == "copy" and row.target == "gfx1201"]


def test_the_most_specific_row_wins_and_the_generic_one_stands_behind_it(rows):
    assert select(rows, FULL).row.id == "aligned"
    selection = select(rows, FULL | {"q_align": 2})
    assert selection.row.id == "generic"
    assert selection.considered == ("wide", "aligned")


def test_preference_goes_before_specificity_and_the_id_decides_last(factory):
    one = [("head_dim", "eq", 128)]
    rows = [
        factory.make_row("b", one),
        factory.make_row("a", one),
        factory.make_row("c", [*one, ("gqa", "eq", 4)]),
        factory.make_row("z", one, preference=1),
    ]
    tried = [verdict.row.id for verdict in explain(rows, FULL)]
    assert tried == ["z", "c", "a", "b"]
    assert [select(rows, FULL, forbid=tried[:n]).row.id for n in range(4)] == tried


def test_selection_does_not_depend_on_the_order_of_the_rows(rows):
    assert select(rows, FULL) == select(rows[::-1], FULL)


def test_no_match_lists_every_row_nearest_first_with_its_first_failed_condition(rows):
    with pytest.raises(NoMatch) as caught:
        select(rows, {"head_dim": 96, "gqa": 4, "q_aling": 16})
    assert str(caught.value).splitlines() == [
        "copy: none of 3 rows serves head_dim=96, gqa=4, q_aling=16",
        "  the bundle covers head_dim: 128, 256",
        "  no row asks for q_aling; did you mean q_align?",
        "  nearest first:",
        "  generic (gfx1201): 1 of 2 conditions failed: head_dim: requested 96, required 128",
        "  wide (gfx1201): 2 of 2 conditions failed: head_dim: requested 96, required 256",
        "  aligned (gfx1201): 2 of 3 conditions failed: head_dim: requested 96, required 128",
    ]
    assert [verdict.row.id for verdict in caught.value.verdicts] == ["generic", "wide", "aligned"]
    assert len(caught.value.faults) == 3


def test_what_a_bundle_covers_is_in_the_order_of_the_numbers(factory):
    rows = [factory.make_row(f"r{size}", [("query_rows", "at_most", size)]) for size in (16, 8, 1, 2)]
    with pytest.raises(NoMatch, match="covers query_rows: at most 1; at most 2; at most 8; at most 16\n"):
        select(rows, {"query_rows": 48})


def test_no_match_among_many_rows_tells_most_of_the_nearest_8_and_one_line_for_others_that_fail_alike(factory):
    rows = [factory.make_row(f"r{i:02}", [("head_dim", "eq", i), ("gqa", "eq", 8)]) for i in range(10)]
    far = [factory.make_row(f"far{i}", [("head_dim", "eq", 1), ("gqa", "eq", 4)]) for i in range(5)]
    with pytest.raises(NoMatch) as caught:
        select([*far, *rows], {"head_dim": 64, "gqa": 8})
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "copy: none of 15 rows serves head_dim=64, gqa=8",
        "  the bundle covers head_dim: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
        "  nearest first:",
    ]
    assert [line.split()[0] for line in lines[3:11]] == [f"r{i:02}" for i in range(8)]
    assert lines[11:] == [
        "  … and 7 more by their first failed condition (explain() lists them in full):",
        "  r08: head_dim: requested 64, required 8",
        "  r09: head_dim: requested 64, required 9",
        "  far0, far1, far2 and 2 more: head_dim: requested 64, required 1",
    ]
    assert len(caught.value.verdicts) == 15


def test_no_match_of_a_forced_row_says_all_of_that_row_and_nothing_of_the_others(rows):
    with pytest.raises(NoMatch) as caught:
        select(rows, FULL, force="wide")
    assert str(caught.value).splitlines() == [
        "copy: the forced row does not serve head_dim=128, gqa=4, q_align=16:",
        "  wide (gfx1201): 2 of 2 conditions failed: head_dim: requested 128, required 256",
        "  kv_bytes: not given, required at most 2147483647",
    ]
    assert len(caught.value.verdicts) == 3
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(("field", "value", "least"), [("q_align", 0, 1), ("q_align", -16, 1), ("kv_bytes", -5, 0)])
def test_a_value_that_no_call_can_have_is_served_by_no_row_not_even_one_that_does_not_ask(rows, field, value, least):
    request = FULL | {field: value}
    with pytest.raises(NoMatch) as caught:
        select(rows, request)
    assert str(caught.value).splitlines()[1] == f"  {field}={value}: must be at least {least}"
    assert not any(verdict.holds for verdict in explain(rows, request))


def test_a_size_of_nothing_is_possible(rows):
    assert select(rows, {"head_dim": 256, "kv_bytes": 0}).row.id == "wide"


def test_a_missing_field_is_reported_as_not_given(rows):
    with pytest.raises(NoMatch, match="gqa: not given, required one of 4, 8"):
        select(rows, {"head_dim": 128})


def test_text_is_not_taken_for_a_number_and_the_message_shows_it(rows):
    with pytest.raises(NoMatch, match="head_dim: requested '128', required 128"):
        select(rows, FULL | {"head_dim": "128"})


def test_a_condition_on_one_is_not_met_by_true_or_by_five(factory):
    rows = [factory.make_row("one", [("batch", "eq", 1)])]
    assert select(rows, {"batch": 1}).row.id == "one"
    for other in (5, True, 1.0):
        with pytest.raises(NoMatch):
            select(rows, {"batch": other})


def test_32_bit_extents_decide_between_the_fast_row_and_the_safe_one(factory):
    rows = [
        factory.make_row("fast", [("head_dim", "eq", 128), ("kv_bytes", "at_most", 2**31 - 1)]),
        factory.make_row("safe", [("head_dim", "eq", 128)]),
    ]
    assert select(rows, {"head_dim": 128, "kv_bytes": 2**31 - 1}).row.id == "fast"
    assert select(rows, {"head_dim": 128, "kv_bytes": 2**31}).row.id == "safe"


def test_forcing_a_row_does_not_lift_its_conditions(rows):
    assert select(rows, FULL, force="generic").row.id == "generic"
    with pytest.raises(NoMatch, match=r"wide .*head_dim: requested 128, required 256"):
        select(rows, FULL, force="wide")


def test_forcing_an_unknown_row_names_the_nearest(rows):
    with pytest.raises(UnknownRow, match="did you mean generic"):
        select(rows, FULL, force="generik")


def test_forbidden_rows_are_never_taken_and_are_said_to_be_forbidden(rows):
    assert select(rows, FULL, forbid=["aligned"]).row.id == "generic"
    assert select(rows, FULL, forbid="aligned").row.id == "generic"
    with pytest.raises(NoMatch, match=r"generic .*forbidden by the caller"):
        select(rows, FULL, forbid=["aligned", "generic"])


def test_an_empty_table_is_no_match():
    with pytest.raises(NoMatch, match="no row at all"):
        select([], FULL)


def test_explain_gives_every_failed_condition_of_every_row(rows):
    verdicts = {verdict.row.id: verdict for verdict in explain(rows, {"head_dim": 96, "gqa": 5})}
    assert [failure.field for failure in verdicts["aligned"].failed] == ["head_dim", "gqa", "q_align"]
    assert not any(verdict.holds for verdict in verdicts.values())


def test_select_takes_the_first_row_that_explain_says_holds(rows):
    for request in (FULL, FULL | {"q_align": 8}, {"head_dim": 256, "kv_bytes": 5}):
        first = next(verdict.row for verdict in explain(rows, request) if verdict.holds)
        assert select(rows, request).row is first


def test_no_match_crosses_a_process_boundary_whole(rows):
    with pytest.raises(NoMatch) as caught:
        select(rows, {})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


PRODUCTS = {"query_rows": ("rows", "gqa")}


@pytest.mark.parametrize(
    ("request_", "fields", "completed"),
    [
        ({"rows": 3, "gqa": 5}, {"query_rows", "rows"}, {"rows": 3, "query_rows": 15}),
        ({"rows": 3, "gqa": 5}, {"query_rows", "rows", "gqa"}, {"rows": 3, "gqa": 5, "query_rows": 15}),
        ({"rows": 0, "gqa": 5}, {"query_rows"}, {"query_rows": 0}),
        # Nothing asks for the product: a call may state its dimensions all the same.
        ({"rows": 3, "gqa": 5, "x": 1}, {"x"}, {"x": 1}),
        # What the caller says of the product himself stays, and a dimension beside it is not used up.
        ({"query_rows": 7, "gqa": 5}, {"query_rows"}, {"query_rows": 7, "gqa": 5}),
        ({"gqa": 5}, {"query_rows"}, {"gqa": 5}),
        ({"rows": True, "gqa": 5}, {"query_rows"}, {"rows": True, "gqa": 5}),
        ({"rows": "3", "gqa": 5}, {"query_rows"}, {"rows": "3", "gqa": 5}),
        ({"rows": 3.0, "gqa": 5}, {"query_rows"}, {"rows": 3.0, "gqa": 5}),
        ({}, {"query_rows"}, {}),
    ],
)
def test_a_product_is_completed_from_its_dimensions_where_all_are_integers(request_, fields, completed):
    before = dict(request_)
    assert with_products(request_, PRODUCTS, fields) == completed
    assert request_ == before


def test_a_request_is_its_own_where_a_family_has_no_products():
    assert with_products({"rows": 3, "gqa": 5}, {}, {"query_rows"}) == {"rows": 3, "gqa": 5}


def test_the_row_of_the_smallest_block_answers_a_product_that_it_takes(factory):
    rows = [
        factory.make_row(
            f"block{block}", [("query_rows", "at_most", block), ("rows", "at_most", 8)], preference=9 - block
        )
        for block in (2, 4, 8)
    ]
    rows.append(factory.make_row("any", [("rows", "at_most", 8)], preference=-9))

    def answering(**request):
        return select(rows, with_products(request, PRODUCTS, known_fields(rows))).row.id

    assert [answering(rows=1, gqa=gqa) for gqa in (1, 2, 3, 5, 8, 9)] == [
        "block2", "block2", "block4", "block8", "block8", "any",
    ]  # fmt: skip
    assert answering(rows=2, gqa=3) == "block8"
    assert answering(rows=8, gqa=3) == "any"
    with pytest.raises(NoMatch, match="rows: requested 9, required at most 8"):
        answering(rows=9, gqa=1)
