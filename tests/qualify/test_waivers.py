"""A waiver covers one budget of one variant up to a ceiling until a day; one that does nothing fails the run."""

import datetime as dt
import json
import shutil

import pytest

from tests.specs import TOY

TOMORROW = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)).isoformat()
YESTERDAY = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)).isoformat()


@pytest.fixture
def strict(tmp_path, assay):
    """The toy specs with one problem, whose kernel breaks an impossible VGPR budget; knows its variant and count."""
    specs = tmp_path / "specs"
    shutil.copytree(TOY, specs)
    family = specs / "families" / "scale.yaml"
    family.write_text(family.read_text() + "\nbudgets: {vgpr_count: 1}\n")
    (specs / "profiles" / "core.yaml").write_text(
        "schema: assay.profile/1\nprofile: core\nsummary: one problem\n"
        "families: {scale: {x_dtype: [f32], width: [64], alignment: [16]}}\n"
    )
    return Strict(specs, tmp_path / "out", assay)


class Strict:
    def __init__(self, specs, out, assay):
        self.specs, self.out, self._assay = specs, out, assay
        rejected = self.run().report()["problems"][0]["rejected"]
        self.variant, self.vgprs = rejected[0]["variant"], rejected[0]["resources"]["vgpr_count"]

    def run(self, *arguments):
        command = ("qualify", "--target", "gfx1201", "--specs", self.specs, "--out", self.out, "--json", *arguments)
        self.last = self._assay(*map(str, command))
        return self

    def report(self):
        return json.loads(self.last.out)

    def waive(self, **changed):
        entry = {
            "name": "toy_vgprs",
            "target": "gfx1201",
            "profile": "core",
            "variant": self.variant,
            "budget": "vgpr_count",
            "ceiling": self.vgprs,
            "expires": TOMORROW,
            "reason": "a test",
        } | changed
        (self.specs / "waivers").mkdir(exist_ok=True)
        lines = "\n".join(f"    {key}: {json.dumps(value)}" for key, value in entry.items())
        text = f"schema: assay.waivers/1\nwaivers:\n  - {lines.strip()}\n"
        (self.specs / "waivers" / "toy.yaml").write_text(text)
        return self


def test_a_waiver_at_the_ceiling_lets_the_variant_pass_and_is_named_in_lock_and_report(strict):
    strict.waive().run("--update-lock")
    assert strict.last.status == 0
    assert strict.report()["problems"][0]["chosen"]["evidence"] == {"static": "waived(toy_vgprs)"}
    assert "static=waived(toy_vgprs)" in (strict.out / "gfx1201" / "qualified.core.lock").read_text()


def test_one_over_the_ceiling_fails_and_says_what_the_waiver_allows(strict):
    strict.waive(ceiling=strict.vgprs - 1).run("--update-lock")
    assert strict.last.status == 1
    assert f"allows vgpr_count up to {strict.vgprs - 1}" in strict.last.err


def test_an_expired_waiver_fails(strict):
    strict.waive(expires=YESTERDAY).run("--update-lock")
    assert strict.last.status == 1
    assert f"expired on {YESTERDAY}" in strict.last.err


def test_a_waiver_of_a_variant_that_no_candidate_is_fails_even_when_all_qualify(strict):
    family = strict.specs / "families" / "scale.yaml"
    family.write_text(family.read_text().replace("budgets: {vgpr_count: 1}", ""))
    strict.waive(variant="0123456789abcdef").run("--update-lock")
    assert strict.last.status == 1
    assert "no candidate that was tried is variant 0123456789abcdef" in strict.last.err
    assert not (strict.out / "gfx1201" / "gfx1201.assay").exists()


def test_a_waiver_that_is_not_needed_fails(strict):
    family = strict.specs / "families" / "scale.yaml"
    family.write_text(family.read_text().replace("vgpr_count: 1", "vgpr_count: 250"))
    strict.waive().run("--update-lock")
    assert strict.last.status == 1
    assert "not needed" in strict.last.err


def test_a_waiver_of_one_budget_leaves_the_others_standing(strict):
    strict.waive(budget="sgpr_spill_count").run("--update-lock")
    assert strict.last.status == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"budget": "lds_total_bytes"}, "lds_total_bytes"),
        ({"ceiling": 0}, "ceiling"),
        ({"target": "gfx1202"}, "unknown target 'gfx1202'"),
        ({"profile": "cor"}, "did you mean core?"),
        ({"expires": "2027-02-30"}, "2027-02-30"),
        ({"variant": "xyz"}, "variant"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_wrong_waiver_is_a_fault_of_the_spec(strict, changed, said):
    strict.waive(**changed).run()
    assert strict.last.status == 2
    assert "waivers/toy.yaml:" in strict.last.err
    assert said in strict.last.err
