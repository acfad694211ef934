"""Choosing one qualified variant a problem: candidates in the spec's order, the first that passes every gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from assay.codegen.builder import Builder
from assay.codegen.expand import candidates
from assay.codegen.records import Candidate, Exclusion, Outcome, Problem, Variant
from assay.codegen.render import Renderer
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.variants import make_variant

from .gates import Judgement, judge


@dataclass(frozen=True)
class ProblemResult:
    """What became of one problem: the chosen variant, or None, and every candidate judged before it."""

    problem: Problem
    family: FamilyFile
    chosen: Judgement | None
    rejected: tuple[Judgement, ...]

    @property
    def qualified(self) -> bool:
        return self.chosen is not None

    def nearest(self) -> Judgement | None:
        """The rejected candidate with the fewest broken budgets, and among those the least over.

        One that was not measured, as when it did not compile, is further off than any that was.
        """
        return min(self.rejected, key=_distance, default=None)


def _distance(judgement: Judgement) -> tuple[bool, int, float]:
    excess = sum(reason.excess for reason in judgement.reasons)
    return math.isinf(excess), len(judgement.reasons), excess


@dataclass
class _Chain:
    """One problem under way: candidates still to try and judgements so far."""

    problem: Problem
    family: FamilyFile
    waiting: Iterator[Candidate]
    rejected: list[Judgement] = field(default_factory=list)


class Selector:
    """Tries candidates for many problems at once, each problem's one after the other."""

    def __init__(self, specs: SpecSet, target: TargetFile, builder: Builder):
        self._specs = specs
        self._target = target
        self._builder = builder
        self._renderer = Renderer(specs.templates)

    def run(self, problems: list[Problem], on_result: Callable[[ProblemResult], None]) -> list[ProblemResult]:
        """Results in the order of `problems`, whatever finished first; `on_result` hears of each as it comes.

        Raises TemplateError, and CacheError when outcomes cannot be kept.
        """
        results: dict[Problem, ProblemResult] = {}
        running: dict[Future[Outcome], list[tuple[_Chain, Variant]]] = {}

        def advance(chain: _Chain, last: Judgement | None) -> None:
            candidate = None if last is not None and last.qualified else next(chain.waiting, None)
            if candidate is not None:
                variant = make_variant(chain.family, self._target, candidate, self._renderer)
                running.setdefault(self._builder.submit(variant.request), []).append((chain, variant))
                return
            chosen = last if last is not None and last.qualified else None
            result = ProblemResult(chain.problem, chain.family, chosen, tuple(chain.rejected))
            results[chain.problem] = result
            on_result(result)

        for problem in problems:
            family = self._specs.families[problem.family].model
            advance(_Chain(problem, family, iter(candidates(family, self._target, problem))), None)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                for chain, variant in running.pop(future):
                    judgement = judge(variant, future.result(), self._target, chain.family)
                    if not judgement.qualified:
                        chain.rejected.append(judgement)
                    advance(chain, judgement)
        return [results[problem] for problem in problems]


def problems_only(expansion: Iterator[Problem | Exclusion]) -> list[Problem]:
    """The problems of an expansion, without what its constraints exclude."""
    return [item for item in expansion if isinstance(item, Problem)]
