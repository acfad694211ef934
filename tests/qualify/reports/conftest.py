"""Finished runs made up for tests of reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.codegen.records import Candidate, Outcome, Problem, Variant
from assay.codegen.specs import load_specs
from assay.codegen.toolchain import Toolchain
from assay.objects import Resources
from assay.qualify.gates import Judgement, Reason
from assay.qualify.lock import LockChange
from assay.qualify.reports.record import RunRecord
from assay.qualify.selection import ProblemResult
from tests.specs import TOY

LAUNCHES = (
    (("unroll", 1), ("num_stages", 1), ("num_warps", 2)),
    (("unroll", 2), ("num_stages", 1), ("num_warps", 4)),
)


@dataclass(frozen=True)
class Maker:
    """Makes results and records of the toy family on gfx1201."""

    specs: object

    def judgement(self, problem, launch, reasons=(), **figures):
        variant = Variant("0123456789abcdef", Candidate(problem, LAUNCHES[launch]), None, (), ())
        known = {"vgpr_count": 10, "lds_total_bytes": 0, "max_threads": 64, "wavefront_size": 32, **figures}
        outcome = Outcome("compiled", code=b"code", seconds=0.25)
        return Judgement(variant, outcome, Resources(**known), None, tuple(reasons))

    def problem(self, **axes):
        return Problem("scale", "gfx1201", tuple({"x_dtype": "f32", "width": 64, "alignment": 16, **axes}.items()))

    def passed(self, problem=None, **figures):
        problem = problem or self.problem()
        return ProblemResult(problem, self._family, self.judgement(problem, 0, **figures), ())

    def failed(self, *reasons, problem=None, nearest=()):
        """Both candidates broke something: the first `reasons`, the second `nearest` or the same."""
        problem = problem or self.problem()
        if not reasons:  # not even a candidate applied
            return ProblemResult(problem, self._family, None, ())
        rejected = (self.judgement(problem, 0, reasons), self.judgement(problem, 1, nearest or reasons))
        return ProblemResult(problem, self._family, None, rejected)

    def run(self, *results, **fields):
        given = {"status": 0, "said": "QUALIFIED", "changes": (), "messages": (), "complaints": ()}
        given |= {"lock_messages": (), "warnings": (), "lock_path": Path("artifacts/gfx1201/qualified.core.lock")}
        given |= {"lock_state": "matches", "only": {}, "evidence": ("static",)}
        return RunRecord(
            specs=self.specs,
            target=self.specs.target("gfx1201"),
            profile="core",
            toolchain=Toolchain("3.8.0", "0" * 64),
            results=results,
            bundle_path=Path("artifacts/gfx1201/gfx1201.assay"),
            **(given | fields),
        )

    @property
    def _family(self):
        return self.specs.families["scale"].model


@pytest.fixture(scope="session")
def make():
    return Maker(load_specs(TOY))


SPILLS = Reason("vgpr_spill_count", 0, 40)
FEWER_SPILLS = Reason("vgpr_spill_count", 0, 8)
# What a name, a reason or a compiler's message may try to be: HTML, XML, Markdown, a terminal's colours, a second line.
HOSTILE = (
    "<script>alert(1)</script>|`a` ``b`` **bold** _it_ [x](http://evil.example) ![i](http://evil.example/i) ]]> --> "
    "</failure> &lt; &#124; \"quoted\" 'single' {{ 7 * 7 }} \\| "
    "\x1b[31mred\x1b[0m \x00 @team #1\n| new | row |\n# title"
)


@pytest.fixture
def hostile_run(make):
    """A failed run in which everything that can be text is hostile."""
    problem = make.problem(x_dtype=HOSTILE)
    reason = Reason("compilation", "compiled", "compile error", HOSTILE)
    return make.run(
        make.failed(reason, problem=problem),
        make.passed(make.problem(alignment=HOSTILE), vgpr_count=256),
        status=1,
        said="NOT QUALIFIED",
        changes=(LockChange("worse", f"scale {HOSTILE}", ((HOSTILE, HOSTILE, HOSTILE),)),),
        messages=(HOSTILE,),
        complaints=(HOSTILE,),
        lock_messages=(HOSTILE,),
        warnings=(HOSTILE,),
    )
