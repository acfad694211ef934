"""One comparison: both sides, their pairs, and which differences the rules allow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from .outputs import DIFFERENT, OutputsRequest, PairOutputs, Report, compare_outputs
from .pairing import compare_sides
from .records import Aspect, Difference, Level, Pair, Side
from .rules import Rule, check_rules, violations
from .sides import Progress, SideRequest, open_sides


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair, and the aspects in which it differs and no rule allows it to."""

    pair: Pair
    violations: tuple[Aspect, ...]


@dataclass(frozen=True, slots=True)
class Outputs:
    """What running both sides gave, and how they were run."""

    request: OutputsRequest
    results: tuple[tuple[Pair, PairOutputs], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that came of it.  outputs: None where none were asked for."""

    left: Side
    right: Side
    rules: tuple[Rule, ...]
    judged: tuple[Judged, ...]
    outputs: Outputs | None = None

    @property
    def verdict(self) -> Literal["equal", "allowed", "different"]:
        """allowed: what differs is what the rules name."""
        if any(item.violations for item in self.judged):
            return "different"
        return "allowed" if any(item.pair.differences for item in self.judged) else "equal"

    @property
    def outside(self) -> tuple[Pair, ...]:
        """The pairs of which no rule speaks: those that a proof is about."""
        return tuple(
            item.pair for item in self.judged if not any(rule.speaks_of(item.pair.entry.facts) for rule in self.rules)
        )


def counted(pairs: Sequence[Pair]) -> dict[Level, int]:
    """How many pairs are alike at each level, of those with code on both sides."""
    levels: dict[Level, int] = {}
    for pair in pairs:
        levels[pair.level] = levels.get(pair.level, 0) + 1
    return levels


def compare(
    request: SideRequest, rules: tuple[Rule, ...], progress: Progress, stack: contextlib.ExitStack
) -> Comparison:
    """What was built is there until `stack` closes.  Raises CompareError (bad input) and BuildEnvironmentError."""
    left, right = open_sides(request, partial(check_rules, rules), progress, stack)
    judged = tuple(Judged(pair, violations(pair, rules)) for pair in compare_sides(left, right))
    return Comparison(left, right, rules, judged)


def with_outputs(comparison: Comparison, request: OutputsRequest, report: Report) -> Comparison:
    """The same, with both sides run on the same cases; outputs of other bits are a difference as any other.

    Raises as compare_outputs does.
    """
    pairs = [item.pair for item in comparison.judged]
    results = tuple(compare_outputs(comparison.left, comparison.right, pairs, request, report))
    wrong = {pair.entry.key: outputs.said for pair, outputs in results if outputs.verdict == DIFFERENT}
    judged = []
    for pair in pairs:
        if pair.entry.key in wrong:
            found = Difference("outputs", "outputs", None, wrong[pair.entry.key])
            pair = replace(pair, differences=(*pair.differences, found))
        judged.append(Judged(pair, violations(pair, comparison.rules)))
    return replace(comparison, judged=tuple(judged), outputs=Outputs(request, results))
