"""The workaround watch: for each variant that has a workaround, its plain form is built, judged and compared.

The plain form is the alternative that the family declares, built with the same launch, and, where that one is not as
good, with each launch that the family would try for it.  Constraints of the family are not asked: they say what is
worth a row of a bundle, and leave out plain forms because the workaround is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from assay.codegen.builder import Builder
from assay.codegen.expand import candidates
from assay.codegen.predicates import holds
from assay.codegen.records import AxisItems, Candidate, Outcome, Variant
from assay.codegen.render import Renderer
from assay.codegen.spec_checks import target_facts
from assay.codegen.spec_models import FamilyFile, TargetFile, Workaround
from assay.codegen.specs import SpecSet
from assay.codegen.variants import make_variant

from .executing import Execution, Executions
from .gates import Judgement, judge, with_execution
from .selection import ProblemResult
from .workaround_verdicts import Comparison, WatchedWorkaround, compare, worth_executing

# Hears how many comparisons there are; what it returns hears a line about each one that is finished.
Progress = Callable[[int], Callable[[str], None]]


@dataclass
class _Watched:
    """One comparison under way: plain forms still to try, and the best of those tried."""

    workaround: Workaround
    family: FamilyFile
    current: Judgement
    waiting: Iterator[Variant]
    variant: Variant
    best: Comparison | None = field(default=None)

    @property
    def label(self) -> str:
        return f"{self.workaround.name} {self.current.variant.candidate.problem.label}"


class WorkaroundWatch:
    """Compares what a run chose with the plain forms, by the run's own builder and executions."""

    def __init__(self, specs: SpecSet, target: TargetFile, builder: Builder, levels: Sequence[Executions]):
        self._specs = specs
        self._target = target
        self._builder = builder
        self._levels = levels
        self._renderer = Renderer(specs.templates)

    def run(self, results: Sequence[ProblemResult], found: Progress) -> tuple[WatchedWorkaround, ...]:
        """Every workaround of the families that were built, with a comparison a variant that has it, in spec order.

        Raises TemplateError where the plain form's source cannot be rendered, and CacheError.
        """
        watched = [item for result in results if result.chosen for item in self._watched(result, result.chosen)]
        advance = found(len(watched)) if watched else lambda _line: None
        open_ones = watched
        while open_ones:
            open_ones = self._round(open_ones, advance)
        families = dict.fromkeys(result.problem.family for result in results)
        return tuple(
            WatchedWorkaround(name, workaround, _comparisons(watched, name, workaround))
            for name in families
            for workaround in self._specs.families[name].model.workarounds
        )

    def _watched(self, result: ProblemResult, current: Judgement) -> Iterator[_Watched]:
        facts = {**target_facts(self._target), **dict(result.problem.axes), **dict(current.variant.candidate.launch)}
        for workaround in result.family.workarounds:
            if holds(workaround.when, facts):
                waiting = self._plain_forms(workaround, result.family, current.variant.candidate)
                yield _Watched(workaround, result.family, current, waiting, next(waiting))

    def _plain_forms(self, workaround: Workaround, family: FamilyFile, candidate: Candidate) -> Iterator[Variant]:
        """With the workaround's own launch, then with those that the family has for the plain form."""
        problem = replace(candidate.problem, axes=_replaced(candidate.problem.axes, workaround.alternative))
        tried = [Candidate(problem, candidate.launch), *candidates(family, self._target, problem)]
        plain = (Candidate(problem, _replaced(item.launch, workaround.alternative)) for item in tried)
        for item in dict.fromkeys(plain):
            yield make_variant(family, self._target, item, self._renderer)

    def _round(self, watched: list[_Watched], advance: Callable[[str], None]) -> list[_Watched]:
        """Builds and compares one plain form of each; returns those that have another one to try."""
        built = [(item, self._builder.submit(item.variant.request)) for item in watched]
        judged = [(item, self._judged(item, future)) for item, future in built]
        executed = [(item, plain, self._submit(item, plain)) for item, plain in judged]
        left = []
        for item, plain, futures in executed:
            for future in futures:
                plain = with_execution(plain, future.result())
            found = compare(item.workaround, item.current, plain)
            item.best = found if item.best is None or found.better_than(item.best) else item.best
            following = None if found.can_go else next(item.waiting, None)
            if following is None:
                advance(f"{item.best.verdict} {item.label}")
            else:
                item.variant = following
                left.append(item)
        return left

    def _judged(self, item: _Watched, future: Future[Outcome]) -> Judgement:
        return judge(item.variant, future.result(), self._target, item.family)

    def _submit(self, item: _Watched, plain: Judgement) -> list[Future[Execution]]:
        """The first plain form is executed for its figures, whatever it lacks; the others where that can still help."""
        if not worth_executing(item.workaround, item.current, plain, first=item.best is None):
            return []
        return [level.submit(plain.variant, plain.outcome, item.family) for level in self._levels]


def _replaced(items: AxisItems, values: Mapping[str, Any]) -> AxisItems:
    return tuple((name, values.get(name, value)) for name, value in items)


def _comparisons(watched: Sequence[_Watched], family: str, workaround: Workaround) -> tuple[Comparison, ...]:
    mine = (item for item in watched if item.family.family == family and item.workaround is workaround)
    return tuple(item.best for item in mine if item.best is not None)
