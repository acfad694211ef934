"""Near-limit warnings: figures of a qualified binary with less than 5 % left to what they may be.

A kernel that uses 254 of 256 VGPRs passes today and spills after the next small edit or compiler update.  These are
warnings: no gate asks for headroom.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assay.codegen.spec_models import FamilyFile, TargetFile

from .gates import Judgement, budgets

# One in this many parts left, or less, is near: 5 %.
_PARTS = 20


@dataclass(frozen=True, slots=True)
class NearLimit:
    """One figure near its limit, by the name of the resource, `threads` for the size of a workgroup."""

    budget: str
    limit: int
    actual: int

    @property
    def percent_left(self) -> float:
        return 100 * (self.limit - self.actual) / self.limit

    def __str__(self) -> str:
        return f"{self.budget} {self.actual:,} of {self.limit:,} ({self.percent_left:.1f} % left)"

    def to_dict(self) -> dict[str, int | str]:
        return {"budget": self.budget, "limit": self.limit, "actual": self.actual}


def near_limits(judgement: Judgement, target: TargetFile, family: FamilyFile) -> tuple[NearLimit, ...]:
    """The figures of a binary that are within their limit by less than 5 %, in a stable order.

    A limit of 0 is met or broken, never near; a figure over its limit is the gates' concern, or waived.
    """
    if judgement.resources is None:
        return ()
    figures = {**judgement.resources.to_dict(), "threads": judgement.resources.max_threads}
    near = []
    for name, limit in _limits(target, family).items():
        actual = figures.get(name)
        if actual is not None and limit - actual >= 0 and _PARTS * (limit - actual) < limit:
            near.append(NearLimit(name, limit, int(actual)))
    return tuple(near)


def _limits(target: TargetFile, family: FamilyFile) -> dict[str, int]:
    """The budgets, and what the architecture can encode where no budget asks for less."""
    limits = budgets(target, family)
    encodable = {
        "threads": target.limits.threads,
        "vgpr_count": target.limits.vgprs,
        "sgpr_count": target.limits.sgprs,
        "register_count": target.limits.registers,
    }
    for name, limit in encodable.items():
        if limit is not None:
            limits[name] = min(limit, limits.get(name, limit))
    return limits


def summary(near: Iterable[tuple[NearLimit, ...]]) -> str:
    """One line for all variants: how many are near a limit, and the nearest figure of each budget; "" for none."""
    variants = [limits for limits in near if limits]
    if not variants:
        return ""
    tightest: dict[str, NearLimit] = {}
    counts: dict[str, int] = {}
    for limit in (limit for limits in variants for limit in limits):
        counts[limit.budget] = counts.get(limit.budget, 0) + 1
        tightest[limit.budget] = min(tightest.get(limit.budget, limit), limit, key=lambda item: item.percent_left)
    by_budget = "; ".join(
        f"{name}: {counts[name]}, up to {item.actual:,} of {item.limit:,}" for name, item in tightest.items()
    )
    word = "variant is" if len(variants) == 1 else "variants are"
    return f"{len(variants)} {word} within 5 % of a limit: {by_budget}"
