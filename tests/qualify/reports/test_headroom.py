"""Near-limit warnings: from 5 % on, against whichever limit is the tighter one, and never a wall of text."""

import json

import pytest

from assay.qualify.headroom import near_limits, summary
from tests.specs import FAMILY, copy_toy, edit


@pytest.fixture
def near(make):
    def of(budgets=None, **figures):
        run = make.run(make.passed(**figures))
        (result,) = run.results
        family = result.family
        if budgets:
            family = family.model_copy(update={"budgets": family.budgets.model_copy(update=budgets)})
        return [(item.budget, item.limit, item.actual) for item in near_limits(result.chosen, run.target, family)]

    return of


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"vgpr_count": 243}, []),  # 13 of 256 left, 5.1 %
        ({"vgpr_count": 244}, [("vgpr_count", 256, 244)]),
        ({"vgpr_count": 256}, [("vgpr_count", 256, 256)]),
        ({"vgpr_count": 257}, []),
        ({"vgpr_count": None}, []),
        ({"sgpr_count": 102}, []),  # 6 of 108 left
        ({"sgpr_count": 103}, [("sgpr_count", 108, 103)]),
        ({"lds_total_bytes": 62_259}, []),  # 3,277 left, 5 % are 3,276.8
        ({"lds_total_bytes": 62_260}, [("lds_total_bytes", 65_536, 62_260)]),
        ({"max_threads": 960}, []),
        ({"max_threads": 992}, [("threads", 1024, 992)]),
        ({"vgpr_spill_count": 0, "scratch_bytes": 0, "dynamic_stack": False}, []),
    ],
)
def test_a_figure_is_near_with_less_than_5_percent_left(near, figures, expected):
    assert near(**figures) == expected


def test_a_family_that_asks_for_less_is_the_limit(near):
    assert near({"vgpr_count": 128, "code_bytes": 1000}, vgpr_count=126, code_bytes=990) == [
        ("vgpr_count", 128, 126),
        ("code_bytes", 1000, 990),
    ]
    assert near({"vgpr_count": 300}, vgpr_count=250) == [("vgpr_count", 256, 250)]


def test_the_summary_is_one_line_however_many_are_near(make):
    run = make.run(*(make.passed(vgpr_count=count) for count in (244, 256, 10)), make.passed(lds_total_bytes=65_536))
    line = summary(limits for _, limits in run.near)
    assert line == (
        "3 variants are within 5 % of a limit: vgpr_count: 2, up to 256 of 256; "
        "lds_total_bytes: 1, up to 65,536 of 65,536"
    )
    assert summary([(), ()]) == ""


def test_table_and_report_show_occupancy_and_what_is_near(assay, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    command = ("qualify", "--target", "gfx1201", "--specs", specs, "--out", tmp_path / "out", "--only", "width=64")
    first = assay(*command, "--update-lock", "--json").document["problems"]
    most = max(problem["chosen"]["resources"]["vgpr_count"] for problem in first)
    assert all(problem["chosen"]["near_limits"] == [] for problem in first)
    assert {problem["chosen"]["occupancy"]["unit"] for problem in first} == {"wgp"}
    # 2 warps, few registers, no LDS: all 64 wave slots of a WGP.
    assert first[0]["chosen"]["occupancy"] == {
        "unit": "wgp",
        "simds": 4,
        "workgroups": 32,
        "waves": 64,
        "max_waves": 64,
        "limited_by": ["waves"],
        "workgroups_by": first[0]["chosen"]["occupancy"]["workgroups_by"],
    }
    edit(specs, FAMILY, "tolerance:\n", f"budgets: {{vgpr_count: {most}}}\n\ntolerance:\n")
    ran = assay(*command)
    near = [
        problem["chosen"]["near_limits"]
        for problem in json.loads((tmp_path / "out/gfx1201/report.only.json").read_text())["problems"]
        if problem["chosen"]["near_limits"]
    ]
    assert near
    assert all(limits == [{"budget": "vgpr_count", "limit": most, "actual": most}] for limits in near)
    assert "occupancy" in ran.out
    assert "16/16 waves" in ran.out
    assert ran.out.count(f" {most}! ") == len(near)
    assert ran.text.count("within 5 % of a limit") == 1
