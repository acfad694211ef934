"""What the evidence in a bundle shows of its variants: how many passed at each level, and which did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assay.bundle import Bundle, Fault

from .device.levels import STATIC, rank
from .executing import FAIL, PASS

_WAIVED = "waived("
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """passed: level -> how many of the bundle's variants passed there, weakest first. faults: why it may not ship."""

    variants: int
    passed: dict[str, int]
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        """`static, emulated (240 of 258)`: a level that all variants passed has no figure."""
        every = self.variants
        return ", ".join(f"{level}" if n == every else f"{level} ({n} of {every})" for level, n in self.passed.items())


def summarise_evidence(bundle: Bundle) -> EvidenceSummary:
    """What the evidence of an open, verified bundle says.

    At fault: a variant that did not pass the static gates, for all that is known here, and one that failed at any
    level. A level that did not run for every variant is no fault, and is counted as far as it ran.
    """
    ids = bundle.variant_ids()
    levels = dict(_levels(bundle))
    passed = {level: sum(_passes(verdicts.get(id)) for id in ids) for level, verdicts in levels.items()}
    where = f"{bundle.path}: evidence"
    static = levels.get(STATIC, {})
    faults = [] if passed.get(STATIC) == len(ids) else [_missing_static(where, static, ids)]
    faults += [
        Fault(f"{where} {level}: variant {id}", FAIL, PASS, "a variant that failed does not ship")
        for level, verdicts in levels.items()
        for id in ids
        if verdicts.get(id) == FAIL
    ]
    ordered = sorted(passed, key=rank)
    return EvidenceSummary(len(ids), {level: passed[level] for level in ordered if passed[level]}, tuple(faults))


def verdicts_of(bundle: Bundle, id: str) -> dict[str, str]:
    """Level -> what it says of one variant, the weakest level first.  Raises BundleError for damaged evidence."""
    said = {level: verdicts[id] for level, verdicts in _levels(bundle) if isinstance(verdicts.get(id), str)}
    return {level: said[level] for level in sorted(said, key=rank)}


def _levels(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Level -> variant -> verdict, of every document that gives verdicts on variants."""
    for name in bundle.evidence_names():
        document = bundle.evidence(name)
        level = document.get("level") if isinstance(document, dict) else None
        variants = document.get("variants") if level is not None else None
        if isinstance(level, str) and isinstance(variants, dict):
            yield level, {id: said.get(level) for id, said in variants.items() if isinstance(said, dict)}


def _passes(verdict: Any) -> bool:
    return isinstance(verdict, str) and (verdict == PASS or verdict.startswith(_WAIVED))


def _missing_static(where: str, static: dict[str, Any], ids: tuple[str, ...]) -> Fault:
    missing = [id for id in ids if not _passes(static.get(id))]
    shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    given = f"no static pass for {len(missing)} of {len(ids)} variants: {shown}"
    return Fault(where, given, "one for each variant", "make the bundle with assay qualify")
