"""What an upgrade changes is told of two reports: which rows, by how much, and whether to go."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from assay.qualify.upgrading.building import BuildRequest
from assay.qualify.upgrading.comparing import compare_sides
from assay.qualify.upgrading.document import document
from assay.qualify.upgrading.markdown import page
from assay.qualify.upgrading.printing import print_upgrades
from assay.qualify.upgrading.records import Side, Upgrade
from assay.qualify.upgrading.running import UpgradeRequest
from assay.qualify.upgrading.summing import summary_of
from assay.qualify.upgrading.wording import recommendation
from tests.qualify.upgrading.made_up import chosen, problem, rejected, side, workaround


def upgraded(old, new, **of_sides):
    return compare_sides(side("1.0", *old, **of_sides), side("2.0", *new, **of_sides))


def upgrade(*targets):
    return Upgrade("1.0", "2.0", targets)


def kind(before, after):
    (row,) = upgraded([before], [after]).rows
    return row.kind


ROWS = {
    "equal in everything": (problem(1, chosen()), problem(1, chosen()), "same"),
    "other code, equal figures": (problem(1, chosen()), problem(1, chosen(code="b")), "changed"),
    "no candidate left": (problem(1, chosen()), problem(1, None, rejected()), "lost"),
    "a candidate at last": (problem(1, None, rejected()), problem(1, chosen()), "gained"),
    "none on either side": (problem(1, None, rejected()), problem(1, None, rejected(spills=40)), "failed"),
    "a later candidate": (problem(1, chosen(1)), problem(1, chosen(2), rejected(1)), "worse"),
    "an earlier candidate": (problem(1, chosen(2), rejected(1)), problem(1, chosen(1)), "better"),
    "fewer waves": (problem(1, chosen(waves=8)), problem(1, chosen(waves=7, code="b")), "worse"),
    "more waves": (problem(1, chosen(waves=7)), problem(1, chosen(waves=8, code="b")), "better"),
    "more executed": (problem(1, chosen()), problem(1, chosen(executed=1021, code="b")), "worse"),
    "hardly more executed": (problem(1, chosen()), problem(1, chosen(executed=1020, code="b")), "changed"),
    "fewer executed": (problem(1, chosen()), problem(1, chosen(executed=970, code="b")), "better"),
    "faster with fewer waves": (problem(1, chosen()), problem(1, chosen(executed=500, waves=7, code="b")), "worse"),
    "larger, and executes as much": (problem(1, chosen()), problem(1, chosen(instructions=200, code="b")), "changed"),
    "larger, where nothing is executed": (
        problem(1, chosen(executed=None)),
        problem(1, chosen(executed=None, instructions=200, code="b")),
        "worse",
    ),
    "spills by a waiver": (problem(1, chosen()), problem(1, chosen(vgpr_spill_count=1, code="b")), "worse"),
    "more registers": (problem(1, chosen()), problem(1, chosen(vgpr_count=120, code="b")), "changed"),
    "another error": (problem(1, chosen()), problem(1, chosen(error=0.002, code="b")), "changed"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_told_by_what_became_of_it(name):
    before, after, expected = ROWS[name]
    assert kind(before, after) == expected


def test_rows_stand_with_the_worst_change_first():
    old = [problem(name, chosen(2 if name == 7 else 0), *([rejected(1)] if name == 7 else [])) for name in range(8)]
    new = [
        problem(0, chosen()),
        problem(1, chosen(executed=1100, code="b")),
        problem(2, chosen(executed=900, code="b")),
        problem(3, chosen(executed=1500, code="b")),
        problem(4, None, rejected()),
        problem(5, chosen(code="b")),
        problem(6, chosen(waves=2, code="b")),
        problem(7, chosen(1)),
    ]
    order = [row.axes["width"] for row in upgraded(old, new).rows]
    assert order[:4] == [4, 6, 3, 1]
    assert set(order[4:6]) == {7, 2}
    assert order[6:] == [5, 0]


def test_candidates_are_compared_whether_chosen_or_not():
    old = [problem(1, chosen(2), rejected(1, spills=5)), problem(2, chosen(1))]
    new = [
        problem(1, chosen(2, code="b"), rejected(1, spills=87, code="b")),
        problem(2, chosen(1, ir="other", code="b")),
    ]
    summary = summary_of(upgraded(old, new))
    assert (summary.ir.candidates, summary.ir.ir_equal, summary.ir.code_differs, summary.ir.spills_rose) == (3, 2, 2, 1)
    ((pair, before, after),) = summary.spills.changed
    assert (before, after, pair.ir_equal) == (5, 87, True)
    assert (summary.spills.spilling_before, summary.spills.spilling_after) == (1, 1)


def test_a_candidate_that_one_side_did_not_compile_is_not_compared():
    summary = summary_of(
        upgraded([problem(1, chosen(2), rejected(1, spills=None))], [problem(1, chosen(2), rejected(1))])
    )
    assert summary.ir.candidates == 1


def test_ir_that_is_not_known_is_not_equal():
    summary = summary_of(upgraded([problem(1, chosen(ir=None))], [problem(1, chosen(ir=None, code="b"))]))
    assert (summary.ir.ir_equal, summary.ir.code_differs) == (0, 0)


def test_totals_are_of_rows_that_both_sides_have():
    old = [problem(1, chosen(executed=1000)), problem(2, chosen(executed=500)), problem(3, chosen(executed=9999))]
    new = [problem(1, chosen(executed=1200)), problem(2, chosen(executed=400)), problem(3, None, rejected())]
    total = summary_of(upgraded(old, new)).totals["executed instructions"]
    assert (total.before, total.after, total.rows, total.rose, total.fell) == (1500, 1600, 2, 1, 1)
    assert total.typical == pytest.approx(0.0)


LOST = ([problem(1, chosen()), problem(2, chosen())], [problem(1, None, rejected()), problem(2, chosen(waves=1))])
WORSE = ([problem(1, chosen())], [problem(1, chosen(waves=1))])
BETTER = ([problem(1, chosen())], [problem(1, chosen(waves=9))])


@pytest.mark.parametrize(
    ("rows", "expected", "harmless"),
    [
        (LOST, "do not upgrade: 1 row lost, 1 worse", False),
        (WORSE, "not without a look: nothing lost, 1 row worse", False),
        (BETTER, "may upgrade: nothing lost, nothing worse; 0 gained, 1 better", True),
        ((BETTER[0], BETTER[0]), "may upgrade: nothing lost, nothing worse", True),
    ],
)
def test_the_recommendation_follows_from_the_rows(rows, expected, harmless):
    found = upgrade(upgraded(*rows))
    assert recommendation(found) == f"triton 1.0 -> 2.0: {expected}"
    assert found.harmless is harmless


def test_a_compiler_that_cannot_be_imported_lost_every_row():
    old = side("1.0", problem(1, chosen()), problem(2, chosen()))
    found = upgrade(compare_sides(old, Side("2.0", "gfx1201", "cannot be imported: no libfoo")))
    assert found.targets[0].count("lost") == 2
    assert recommendation(found) == "triton 1.0 -> 2.0: do not upgrade: triton 2.0 cannot be imported: no libfoo"
    assert not found.harmless
    assert "cannot be imported: no libfoo" in rendered(found)
    assert (
        document([found], "core")["upgrades"][0]["targets"][0]["after"]["unusable"] == "cannot be imported: no libfoo"
    )


def rendered(found, notes=()):
    build = BuildRequest("core", Path("specs"), {"family": ("scale",)}, ("emulated",), 2, 60.0, Path("cache"))
    return page([found], UpgradeRequest(("1.0", "2.0"), ("gfx1201",), build), notes)


def printed(found):
    out = io.StringIO()
    print_upgrades(Console(file=out, width=250), [found])
    return " ".join(out.getvalue().split())


@pytest.fixture
def both():
    """An upgrade with one row of every kind, a spill with equal IR, and a workaround that may go."""
    old = [
        problem(1, chosen()),
        problem(2, chosen(2), rejected(1, spills=5)),
        problem(3, chosen()),
        problem(4, None, rejected(detail="a | b")),
    ]
    new = [
        problem(1, None, rejected(spills=None, detail="line 1\nerror: no `pass` <here>|")),
        problem(2, chosen(2, executed=1300, error=0.5, code="b"), rejected(1, spills=87, code="b")),
        problem(3, chosen()),
        problem(4, chosen()),
    ]
    return upgrade(
        compare_sides(
            side("1.0", *old, workarounds=[workaround("keep", 1500)]),
            side("2.0", *new, workarounds=[workaround("can go", 990)], seconds=20.0, cached=4),
        )
    )


FACTS = (
    "do not upgrade: 1 row lost, 1 worse; 1 gained, 0 better",
    "1 lost, 1 worse, 1 gained, 1 same",
    "executed 1,000 -> 1,300 (+30.0 %)",
    "10.0 s of processors for 4 candidates",
    "20.0 s of processors for 4 candidates, 4 of them compiled by an earlier run",
    "+100.0 % a candidate (2.50 -> 5.00 s)",
    "spills rose in 1 and fell in 1",
    "4 have equal Triton GPU IR; of these 2 have different machine code, and 1 of those spill more",
    "largest error 0.001 -> 0.5",
    "under triton 1.0: keep: 1 of 1 plain forms are not as good",
    "under triton 2.0: can go: all 1 plain forms are as good; a plain form executes -1.0 % instructions (median)",
)


def test_the_page_and_the_terminal_say_the_same_facts(both):
    for fact in FACTS:
        assert fact in rendered(both), fact
        assert fact in printed(both), fact


def test_the_page_says_how_it_was_made_and_what_its_author_adds(both):
    text = rendered(both, ("On a machine\nof two cores.",))
    made = "`assay upgrade --triton 1.0 --triton 2.0 --target gfx1201 --evidence emulated --only family=scale`"
    assert made in text
    assert "On a machine of two cores." in text


def test_what_a_compiler_says_breaks_no_table(both):
    text = rendered(both)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block
    assert "<here>" not in text
    assert "compilation: compile error (error: no" in text


def test_spills_with_equal_ir_are_listed(both):
    assert "| 5 → 87 | yes |" in rendered(both)


def test_the_document_holds_every_row_that_changed_and_is_versioned(both):
    found = json.loads(json.dumps(document([both], "core"), allow_nan=False))
    assert found["schema"] == "assay.upgrade/1"
    assert found["verdict"] == "not harmless"
    (target,) = found["upgrades"][0]["targets"]
    assert [row["kind"] for row in target["changes"]] == ["lost", "worse", "gained"]
    assert target["rows"]["same"] == 1
    assert target["totals"]["executed instructions"]["after"] == 2300
    assert target["spills"]["changed"][0]["spills"] == [5, 87]
    assert [item["verdict"] for side in ("before", "after") for item in target[side]["workarounds"]] == [
        "keep",
        "can go",
    ]


def test_many_rows_are_folded_and_counted():
    old = [problem(name, chosen()) for name in range(200)]
    new = [problem(name, chosen(executed=2000 + name, code="b")) for name in range(200)]
    found = upgrade(upgraded(old, new))
    text = rendered(found)
    assert "### Lost or worse, the worst first (200)" in text
    assert "<summary>100 more</summary>" in text
    assert "… and 80 more in the JSON." in text
    assert "… and 160 more rows that changed; --json has all of them" in printed(found)
