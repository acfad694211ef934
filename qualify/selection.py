"""Choosing one qualified variant a problem: candidates in the spec's order, the first that passes every gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from assay.codegen.builder import Builder
from assay.codegen.expand import candidates
from assay.codegen.records import Candidate, Exclusion, Problem, Variant
from assay.codegen.render import Renderer
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.variants import expected_cost, make_variant

from .executing import Executions
from .gates import Judgement, judge, with_execution
from .waiving import WaiverBook

# Behind the profile's name in the manifest of a bundle that holds a part of it.
PART_SUFFIX = ".only"


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

    @property
    def judged(self) -> tuple[Judgement, ...]:
        """Every candidate that was tried, the chosen one last."""
        return (*self.rejected, *([self.chosen] if self.chosen else []))

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
    """One problem under way: candidates still to try, the variant being tried, judgements so far."""

    problem: Problem
    family: FamilyFile
    waiting: Iterator[Candidate]
    variant: Variant
    rejected: list[Judgement] = field(default_factory=list)


class Selector:
    """Tries candidates for many problems at once, each problem's one after the other."""

    def __init__(
        self,
        specs: SpecSet,
        target: TargetFile,
        builder: Builder,
        waivers: WaiverBook,
        levels: Sequence[Executions] = (),
    ):
        """A candidate that passes the static gates is executed at each of `levels` before it counts as qualified."""
        self._levels = levels
        self._finished: SimpleQueue[tuple[_Chain, Judgement | None, Future[Any]]] = SimpleQueue()
        self._waivers = waivers
        self._specs = specs
        self._target = target
        self._builder = builder
        self._renderer = Renderer(specs.templates)

    def run(self, problems: list[Problem], on_result: Callable[[ProblemResult], None]) -> list[ProblemResult]:
        """Results in the order of `problems`, whatever finished first; `on_result` hears of each as it comes.

        Raises TemplateError, and CacheError when outcomes cannot be kept.
        """
        chains = [self._chain(problem) for problem in problems]
        # The longest first, so that no worker is left with a long one when the others are done.
        for chain in sorted(chains, key=lambda chain: -expected_cost(chain.variant.request)):
            self._compile(chain)
        results: dict[Problem, ProblemResult] = {}
        while len(results) < len(chains):
            chain, judgement = self._next_judgement()
            if judgement.qualified and len(judgement.executions) < len(self._levels):
                self._execute(chain, judgement)
            elif judgement.qualified or not self._try_next(chain, judgement):
                chosen = judgement if judgement.qualified else None
                results[chain.problem] = ProblemResult(chain.problem, chain.family, chosen, tuple(chain.rejected))
                on_result(results[chain.problem])
        return [results[problem] for problem in problems]

    def _next_judgement(self) -> tuple[_Chain, Judgement]:
        """Waits for whatever is finished next, a compilation or an execution."""
        chain, judgement, future = self._finished.get()
        if judgement is None:
            judged = judge(chain.variant, future.result(), self._target, chain.family)
            return chain, self._waivers.apply(judged)
        return chain, with_execution(judgement, future.result())

    def _try_next(self, chain: _Chain, rejected: Judgement) -> bool:
        """Whether the problem has another candidate, which is then under way."""
        chain.rejected.append(rejected)
        candidate = next(chain.waiting, None)
        if candidate is None:
            return False
        chain.variant = self._variant(chain.family, candidate)
        self._compile(chain)
        return True

    def _chain(self, problem: Problem) -> _Chain:
        family = self._specs.families[problem.family].model
        waiting = iter(candidates(family, self._target, problem))
        # The specs were checked: every problem has at least one candidate.
        return _Chain(problem, family, waiting, self._variant(family, next(waiting)))

    def _variant(self, family: FamilyFile, candidate: Candidate) -> Variant:
        return make_variant(family, self._target, candidate, self._renderer)

    def _compile(self, chain: _Chain) -> None:
        future = self._builder.submit(chain.variant.request)
        future.add_done_callback(lambda done: self._finished.put((chain, None, done)))

    def _execute(self, chain: _Chain, judgement: Judgement) -> None:
        """At the first of the levels that it was not executed at yet."""
        level = self._levels[len(judgement.executions)]
        future = level.submit(judgement.variant, judgement.outcome, chain.family)
        future.add_done_callback(lambda done: self._finished.put((chain, judgement, done)))


def problems_only(expansion: Iterator[Problem | Exclusion]) -> list[Problem]:
    """The problems of an expansion, without what its constraints exclude."""
    return [item for item in expansion if isinstance(item, Problem)]
