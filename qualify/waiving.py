"""Waivers: named, dated, expiring exceptions to one budget of one variant, and what is wrong with them.

A waiver that did nothing is a fault: it hides the next regression behind a name that somebody trusts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from assay.codegen.spec_models import Waiver

from .gates import Judgement, Reason, Waived


@dataclass
class WaiverBook:
    """The waivers of one target and profile, and what became of each in this run.  `today` is a date in UTC."""

    waivers: tuple[Waiver, ...]
    today: dt.date
    _applied: set[str] = field(default_factory=set)
    _judged: dict[str, Judgement] = field(default_factory=dict)

    @classmethod
    def of(cls, waivers: Iterable[Waiver], target: str, profile: str, today: dt.date) -> WaiverBook:
        """The waivers that concern this run."""
        return cls(tuple(w for w in waivers if (w.target, w.profile) == (target, profile)), today)

    def apply(self, judgement: Judgement) -> Judgement:
        """The judgement without the reasons that a valid waiver covers; those are in `.waived`."""
        concerned = {waiver.budget: waiver for waiver in self.waivers if waiver.variant == judgement.variant.id}
        if not concerned:
            return judgement
        self._judged[judgement.variant.id] = judgement
        reasons, waived = [], []
        for reason in judgement.reasons:
            waiver = concerned.get(reason.budget)
            if waiver is not None and self._covers(waiver, reason):
                waived.append(Waived(waiver, reason))
            elif waiver is not None and not self._expired(waiver):
                detail = f"waiver {waiver.name} allows {waiver.ceiling}"
                reasons.append(replace(reason, detail=detail))
            else:
                reasons.append(reason)
        if not reasons:
            self._applied.update(item.waiver.name for item in waived)
        return replace(judgement, reasons=tuple(reasons), waived=tuple(waived))

    def complaints(self, *, whole_profile: bool) -> list[str]:
        """What is wrong with waivers, one line each.  With a part of the profile, only of variants that were judged."""
        lines = []
        for waiver in self.waivers:
            judged = self._judged.get(waiver.variant)
            out_of_sight = judged is None and not whole_profile and not self._expired(waiver)
            if waiver.name in self._applied or out_of_sight:
                continue
            lines.append(f"waiver {waiver.name}: {self._why_unused(waiver, judged)}")
        return lines

    def _why_unused(self, waiver: Waiver, judged: Judgement | None) -> str:
        if self._expired(waiver):
            return f"expired on {waiver.expires}: mend the kernel, or date the waiver anew with a reason"
        if judged is None:
            return f"no candidate that was tried is variant {waiver.variant}: the kernel changed, or an earlier one won"
        broken = next((reason for reason in judged.reasons if reason.budget == waiver.budget), None)
        if broken is not None and self._covers(waiver, broken):
            others = ", ".join(reason.budget for reason in judged.reasons if reason is not broken)
            return f"lets nothing pass: variant {waiver.variant} also breaks {others}"
        if broken is not None:
            return f"allows {waiver.budget} up to {waiver.ceiling}, variant {waiver.variant} has {broken.actual}"
        return f"not needed: variant {waiver.variant} keeps {waiver.budget} within its budget; delete the waiver"

    def _covers(self, waiver: Waiver, reason: Reason) -> bool:
        is_measured = isinstance(reason.actual, int)
        return is_measured and reason.actual <= waiver.ceiling and not self._expired(waiver)

    def _expired(self, waiver: Waiver) -> bool:
        return self.today > dt.date.fromisoformat(waiver.expires)


def today_utc() -> dt.date:
    """The date by which waivers expire."""
    return dt.datetime.now(dt.UTC).date()
