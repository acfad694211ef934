"""Which row answers a call, decided on the conditions of the shipped rows (field cases C2, C4, C9, C19, D7, D8)."""

import functools

import pytest

from assay.bundle.table import OrderedRows, known_fields, select, with_products
from assay.bundle.verdicts import NoMatch
from assay.codegen.predicates import holds
from assay.codegen.spec_checks import target_facts
from assay.qualify.bundle_contents import conditions
from tests.bundle.factory import make_row
from tests.kernels.shipped import TARGET, problems, shipped_specs

GIB2 = 1 << 31
CALL = {
    "q_dtype": "bf16",
    "head_dim": 128,
    "rows": 1,
    "gqa": 8,
    "kv_format": "fp8_per_token_head",
    "slot_dtype": "i32",
    "window": False,
    "soft_cap": False,
    "alignment": 16,
    "cache_extent_bytes": 1_000_000,
}


@functools.cache
def rows(profile: str = "core") -> OrderedRows:
    """A row for each of the profile's problems of decode_attention, with the conditions that a bundle would give it."""
    specs = shipped_specs()
    family, target = specs.families["decode_attention"].model, specs.target(TARGET)
    made = []
    for problem in problems(specs, "decode_attention", profile):
        facts = {**target_facts(target), **dict(problem.axes)}
        preference = sum(item.preference for item in family.preferences if holds(item.when, facts))
        found = conditions(family, target, problem)
        made.append(make_row(problem.label, found, family="decode_attention", preference=preference))
    return OrderedRows(made)


def chosen(profile: str = "core", **changes: object) -> dict[str, str]:
    """Axis values of the row that answers, as text.  None: the fact is left out."""
    call = {name: value for name, value in {**CALL, **changes}.items() if value is not None}
    row = select(rows(profile), with_products(call, {"query_rows": ("rows", "gqa")}, known_fields(rows(profile)))).row
    return dict(part.split("=") for part in row.id.split())


@pytest.mark.parametrize("kv_format", ["bf16", "fp8_per_token_head"])
def test_two_gib_of_cache_and_one_byte_less_are_answered_by_different_rows(kv_format):
    """C2"""
    below = chosen(kv_format=kv_format, cache_extent_bytes=GIB2 - 1)
    above = chosen(kv_format=kv_format, cache_extent_bytes=GIB2)
    assert (below["offset_bits"], above["offset_bits"]) == ("32", "64")
    assert {**below, "offset_bits": ""} == {**above, "offset_bits": ""}


def test_an_extent_that_is_not_told_is_answered_by_64_bit_offsets():
    """C2"""
    assert chosen(cache_extent_bytes=None)["offset_bits"] == "64"


def test_only_rows_with_32_bit_offsets_promise_the_compiler_a_32_bit_range():
    """C2: tt.pointer_range on K, V or their scales makes AMD's buffer loads wrap at 2 GiB."""
    for family in ("decode_attention", "merge_splits"):
        model = shipped_specs().families[family].model
        for problem in problems(shipped_specs(), family):
            promised = {a.name for a in model.arguments if a.within_2gib and holds(a.within_2gib, dict(problem.axes))}
            limited = any(
                c.field == "cache_extent_bytes" for c in conditions(model, shipped_specs().target(TARGET), problem)
            )
            assert bool(promised) == limited, problem.label


@pytest.mark.parametrize("alignment", [1, 2, 4, 8])
def test_less_than_sixteen_bytes_of_alignment_is_answered_by_the_row_that_asks_for_none(alignment):
    """C4"""
    found = chosen(alignment=alignment)
    assert (found["alignment"], found["reader"]) == ("1", "generic")
    assert chosen(alignment=16 * alignment)["alignment"] == "16"


@pytest.mark.parametrize("head_dim", [72, 80, 96, 136, 192, 0, -128, 128.0, "128"])
def test_a_head_size_without_a_kernel_is_refused(head_dim):
    """C9"""
    with pytest.raises(NoMatch, match="head_dim"):
        chosen(head_dim=head_dim)


@pytest.mark.parametrize("gqa", [17, 24, 32, 8.0, "8", True, None])
def test_a_group_that_no_block_of_the_profile_takes_is_refused(gqa):
    """C9"""
    with pytest.raises(NoMatch, match="query_rows"):
        chosen(gqa=gqa)


@pytest.mark.parametrize("profile", ["core", "full"])
@pytest.mark.parametrize(("gqa", "block"), [(1, 1), (2, 2), (3, 4), (5, 8), (6, 8), (7, 8), (8, 8), (12, 16), (16, 16)])
def test_a_group_of_any_size_is_answered_by_the_smallest_block_that_takes_it(profile, gqa, block):
    """C9"""
    assert (chosen(profile, gqa=gqa)["block_m"], chosen(profile, gqa=gqa)["rows"]) == (str(block), "1")


@pytest.mark.parametrize(
    ("rows", "gqa", "block"),
    [(1, 24, 32), (1, 72, 64), (1, 512, 64), (2, 1, 16), (2, 8, 16), (3, 6, 32), (8, 8, 64), (8, 72, 64)],
)
def test_the_block_follows_the_query_rows_and_one_query_has_rows_of_its_own(rows, gqa, block):
    """C9, C20"""
    found = chosen("full", rows=rows, gqa=gqa)
    assert (found["block_m"], found["rows"]) == (str(block), "8" if rows > 1 else "1")


@pytest.mark.parametrize("rows", [9, 10, 64])
def test_more_queries_of_a_request_than_eight_are_refused(rows):
    """C20"""
    with pytest.raises(NoMatch, match="rows"):
        chosen("full", rows=rows, gqa=1)


@pytest.mark.parametrize("kv_format", ["bf16", "fp8_per_token_head", "int8_per_token_head"])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 192, 256, 512])
@pytest.mark.parametrize(("rows", "gqa"), [(1, 1), (1, 6), (4, 3), (8, 16)])
@pytest.mark.parametrize(("soft_cap", "alignment"), [(False, 16), (False, 1), (True, 16)])
def test_the_full_profile_answers_every_call(kv_format, head_dim, rows, gqa, soft_cap, alignment):
    """C9: what a constraint leaves out has a row that answers it all the same."""
    call = {"kv_format": kv_format, "head_dim": head_dim, "rows": rows, "gqa": gqa, "soft_cap": soft_cap}
    for extent in (GIB2 - 1, GIB2):
        found = chosen("full", **call, alignment=alignment, cache_extent_bytes=extent)
        given = {name: str(value).lower() for name, value in call.items() if name not in ("rows", "gqa")}
        assert {name: found[name] for name in given} == given


@pytest.mark.parametrize("soft_cap", [True, None])
def test_a_cap_is_never_left_out_in_silence(soft_cap):
    """A row without a cap would answer with other scores."""
    with pytest.raises(NoMatch, match="soft_cap"):
        chosen(soft_cap=soft_cap)


@pytest.mark.parametrize("slot_dtype", ["i64", "u32", None])
def test_slots_of_another_width_are_refused(slot_dtype):
    """C19"""
    with pytest.raises(NoMatch, match="slot_dtype"):
        chosen(slot_dtype=slot_dtype)


@pytest.mark.parametrize("kv_format", ["e4m3fnuz", "e5m2", "int8", "int8_per_token_head", "u8", "i8", None])
def test_other_eight_bit_formats_never_match_the_e4m3fn_rows(kv_format):
    """D7, D8"""
    with pytest.raises(NoMatch, match="kv_format"):
        chosen(kv_format=kv_format)


def test_the_contract_names_the_flavour_of_the_codes():
    """D7"""
    axis = shipped_specs().families["decode_attention"].model.axes["kv_format"]
    assert "E4M3FN" in axis.about
