"""Kernels that are known not to fit somewhere, compiled for real: the gates refuse them there and nowhere else.

Figures measured with Triton 3.8.0.  The AMD binary itself says 0 bytes of LDS for all of them.
"""

import dataclasses

import pytest

from assay.codegen.builder import Builder
from assay.codegen.cache import CompileCache
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.toolchain import find_toolchain
from assay.codegen.variants import make_variant
from assay.objects import read_object
from assay.qualify.gates import judge
from tests.specs import copy_misfits


@pytest.fixture(scope="module")
def misfits(tmp_path_factory):
    return copy_misfits(tmp_path_factory.mktemp("specs") / "misfits")


@pytest.fixture
def qualify(assay, misfits, tmp_path):
    """Status, and the problems of the report by tile or width."""

    def run(target, *options):
        where = ("--specs", misfits, "--out", tmp_path / "out", "--evidence", "static")
        ran = assay("qualify", "--target", target, *where, "--json", *options)
        axes = {p["problem"].get("tile", p["family"]): p for p in ran.document["problems"]}
        return ran, axes

    return run


def lds(variant):
    return [variant["resources"][name] for name in ("lds_static_bytes", "lds_dynamic_bytes", "lds_total_bytes")]


def refusals(problem):
    return [
        (reason["budget"], reason["limit"], reason["actual"]) for r in problem["rejected"] for reason in r["reasons"]
    ]


def test_gfx1201_takes_65536_bytes_and_refuses_65792_and_twice_the_limit(qualify):
    ran, found = qualify("gfx1201", "--only", "family=attention_tile")
    assert ran.status == 1
    exact = found["five_or_three_stages"]
    assert exact["verdict"] == "qualified"
    assert exact["chosen"]["launch"]["num_stages"] == 3
    assert lds(exact["chosen"]) == [0, 65_536, 65_536]
    assert refusals(exact) == [("lds_total_bytes", 65_536, 131_072)]
    assert (found["two_rows"]["verdict"], refusals(found["two_rows"])) == (
        "failed",
        [("lds_total_bytes", 65_536, 65_792)],
    )
    five = found["five_stages"]
    assert (five["verdict"], refusals(five)) == ("failed", [("lds_total_bytes", 65_536, 2 * 65_536)])
    assert five["chosen"] is None
    assert "lds_total_bytes 65,792 > 65,536 (256 over)" in ran.said
    assert "lds_total_bytes 131,072 > 65,536 (65,536 over)" in ran.said


def test_the_refused_tiles_own_binary_says_that_it_uses_no_lds(misfits, tmp_path, compile_cache):  # noqa: ARG001
    """Compiled to the end, as a gate that trusts the native figure would: it passes everything."""
    specs = load_specs(misfits)
    family, target = specs.families["attention_tile"].model, specs.target("gfx1201")
    only = {"family": ("attention_tile",), "tile": ("five_stages",)}
    (problem,) = expand(specs, "gfx1201", Selection("core", only))
    (candidate,) = candidates(family, target, problem)
    variant = make_variant(family, target, candidate, Renderer(specs.templates))
    unlimited = dataclasses.replace(variant.request, shared_limit_bytes=None)
    with Builder(CompileCache(tmp_path), find_toolchain(), jobs=1) as builder:
        outcome = builder.submit(unlimited).result()
    resources = read_object(outcome.code, where="five_stages").kernels[0].resources
    assert (resources.lds_static_bytes, outcome.shared_bytes) == (0, 2 * 65_536)
    judgement = judge(variant, outcome, target, family)
    assert [str(reason) for reason in judgement.reasons] == ["lds_total_bytes 131,072 > 65,536 (65,536 over)"]


def test_sm120_refuses_the_five_stage_tile(qualify):
    ran, found = qualify("sm120", "--only", "family=attention_tile,tile=five_stages")
    assert (ran.status, refusals(found["five_stages"])) == (1, [("lds_total_bytes", 101_376, 137_216)])


def test_sm90_takes_the_same_tile(qualify):
    ran, found = qualify("sm90", "--only", "family=attention_tile,tile=five_stages", "--update-lock")
    assert ran.status == 0
    assert lds(found["five_stages"]["chosen"]) == [0, 137_216, 137_216]


def test_assembly_that_llvm_drops_is_refused_cold_and_warm_in_the_same_words(qualify):
    runs = [qualify("gfx1201", "--only", "family=dropped_assembly") for _ in range(2)]
    for ran, found in runs:
        assert ran.status == 1
        (rejected,) = found["dropped_assembly"]["rejected"]
        (reason,) = rejected["reasons"]
        assert (reason["budget"], reason["actual"]) == ("compilation", "compiler complaint")
        assert "could not allocate input reg for constraint 'v'" in reason["detail"]
        assert rejected["resources"] is None
    first, second = (ran.document for ran, _ in runs)
    # How much of it came from the cache is told apart.
    assert (first.pop("build")["from_cache"], second.pop("build")["from_cache"]) == (0, 1)
    assert first == second
