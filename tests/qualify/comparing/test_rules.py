"""Rules say what may differ; whatever they do not name must not, and a rule that says nothing is an error."""

import pytest

from assay.qualify.comparing.errors import CompareError
from assay.qualify.comparing.rules import check_rules, parse_rules
from tests.qualify.comparing.changed_bundles import with_first

FIRST = "x_dtype=f32,width=64,alignment=16"


@pytest.fixture
def moved(other, toy):
    """The toy with other resources of one variant, the one of FIRST."""

    def change(contents):
        wanted = {"x_dtype": "f32", "width": 64, "alignment": 16}
        first = next(record.id for record in contents.variants if record.problem == wanted)
        rows = sorted(contents.rows, key=lambda row: row.id != first)
        return with_first(
            contents._replace(rows=tuple(rows)),
            record=lambda record: record._replace(resources={**record.resources, "vgpr_count": 99}),
        )

    return toy, other(change)


def test_what_a_rule_names_may_differ_and_the_rest_is_proven_identical(assay, moved):
    ran = assay("compare", *moved, "--only", f"target=gfx1201,{FIRST}")
    assert ran.status == 0
    assert (
        f"outside of --only target=gfx1201,{FIRST}: 5 variants, all identical (identical bytes 5): PROVEN" in ran.text
    )
    assert ran.text.endswith("DIFFERENT ONLY WHERE ALLOWED")


@pytest.mark.parametrize("rule", ["x_dtype=f16", "width=96", "x_dtype=f32,alignment=4"])
def test_what_no_rule_names_must_not(assay, moved, rule):
    ran = assay("compare", *moved, "--only", rule)
    assert ran.status == 1
    assert "1 of them differ: NOT PROVEN" in ran.text
    assert "DIFFERENT: 1 variant differs where no rule allows it" in ran.text


def test_rules_add_up_and_values_of_one_name_are_either(assay, moved):
    assert assay("compare", *moved, "--only", "x_dtype=f16", "--only", "width=64,alignment=16").status == 0
    assert assay("compare", *moved, "--only", "x_dtype=f16,x_dtype=f32").status == 0


@pytest.mark.parametrize(
    ("rule", "status"),
    [("resources", 0), ("code,resources", 0), (f"resources,{FIRST}", 0), ("code", 1), ("resources,x_dtype=f16", 1)],
)
def test_allow_names_what_may_differ_and_where(assay, moved, rule, status):
    ran = assay("compare", *moved, "--allow", rule, "--json")
    assert ran.status == status
    assert ran.document["verdict"] == ("different" if status else "allowed")
    assert [pair["violations"] for pair in ran.document["pairs"] if pair["differences"]] == [["resources"] * status]


@pytest.mark.parametrize(
    ("option", "rule", "said"),
    [
        ("--only", "x_dtipe=f32", "x_dtipe: no such name; allowed: alignment, family, target, width, x_dtype; did you"),
        ("--only", "x_dtype=f23", "x_dtype=f23: no such value; allowed: f16, f32"),
        ("--only", "target=gfx1200", "target=gfx1200: no such value; allowed: gfx1201; did you mean gfx1201?"),
        ("--only", "width=96,x_dtype=f32", "no variant of either side has these values together"),
        ("--only", "code", "'code'; allowed: NAME=VALUE"),
        ("--allow", "coed", "did you mean code?"),
        ("--allow", "code,", "'';"),
        ("--allow", "family=", "'family='"),
    ],
)
def test_a_rule_that_says_nothing_proves_nothing(assay, toy, option, rule, said):
    """Also of equal sides: the next change would be taken for an allowed one."""
    ran = assay("compare", toy, toy, option, rule)
    assert ran.status == 2
    assert said in ran.said


def test_every_wrong_rule_is_told_at_once(assay, toy):
    ran = assay("compare", toy, toy, "--only", "x_dtype=f23", "--only", "wdith=64")
    assert "no such value" in ran.said
    assert "did you mean width?" in ran.said


def test_a_variant_without_the_axis_is_not_what_a_rule_names():
    """merge_splits has no reader: a rule on readers must not let it move."""
    (rule,) = parse_rules([], ["target=gfx1201,reader=packed"])
    packed = {"target": "gfx1201", "family": "decode_attention", "reader": "packed"}
    merge = {"target": "gfx1201", "family": "merge_splits"}
    assert rule.allows(packed, "code")
    assert not rule.allows(merge, "code")
    check_rules([rule], [packed, merge])
    with pytest.raises(CompareError):
        check_rules([rule], [merge])


def test_who_allows_other_code_allows_renamed_registers_and_not_the_other_way_round():
    (code, renamed) = parse_rules(["code", "renamed"], [])
    assert code.allows({}, "renamed")
    assert not renamed.allows({}, "code")


def test_nothing_outside_of_a_rule_is_no_proof(assay, moved):
    ran = assay("compare", *moved, "--only", "family=scale")
    assert ran.status == 0
    assert "PROVEN" not in ran.text
