"""The evidence file of a device: what is written there, and read again by `assay attest`.

    {"schema": "assay.evidence/1", "level": LEVEL, "verdict": "pass" | "fail" | "not_run",
     "bundle": {"identity", "sha256", "file"}, "targets": [name],
     "device": {"backend", "arch", "name", "pci_address", "driver_version", …}, "software": {…},
     "begun", "done", "only": {name: [value]} | null, "tolerances": {family: {absolute, relative}},
     "variants": {id: {LEVEL: verdict, "family", "problem", FIGURES, "checks": [CHECK]}},
     "calls": [{"call", "facts", "rows": [id], LEVEL: verdict, FIGURES, "checks": [CHECK]}]}
    LEVEL = "device" | "retargeted"
    FIGURES = "cases", "replays", "largest_error", "seconds"
    CHECK = {"case", "how": "direct" | "graph", "verdict", "largest_error", "seconds", "rows": [id], "fault"}

With "retargeted" it was a companion that ran: "bundle" has the identity alone, of the bundle that the companion is of,
"companion": {"identity", "sha256", "file", "target", "arch"} says what ran and for which GPU it was assembled, and each
variant has "code_sha256" (of the bundle's code object), "companion_sha256" (of the one that ran) and "rewritten":
{instruction: count}.

Every verdict and figure above the checks follows from them; a file where one does not is refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault, FaultsError

from .checking import DIRECT, GRAPH, NOT_RUN, PASS, Check
from .evidence_form import form_faults
from .levels import DEVICE, RETARGETED
from .qualifying import Result, worst

SCHEMA = "assay.evidence/1"
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Judged:
    """One variant or call of an evidence file.  rows: all that answered; of a variant its own id."""

    name: str
    rows: tuple[str, ...]
    facts: Mapping[str, Any]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """The worst of its checks."""
        return worst(check.verdict for check in self.checks)


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """An evidence file that holds together.  identity: of the bundle.  variants: by id.  text: the file itself."""

    level: str
    identity: str
    device: tuple[str, str]
    targets: tuple[str, ...]
    variants: Mapping[str, Judged]
    calls: tuple[Judged, ...]
    document: Mapping[str, Any]
    text: bytes

    @property
    def everything(self) -> tuple[Judged, ...]:
        """All that it judges: variants, then calls."""
        return (*self.variants.values(), *self.calls)


def figures(checks: Sequence[Check], level: str = DEVICE) -> dict[str, Any]:
    """The verdict and what stands beside it: cases launched, graphs replayed, largest error, seconds of launches."""
    ran = [check for check in checks if check.verdict != NOT_RUN]
    errors = [check.largest_error for check in ran if check.largest_error is not None]
    return {
        level: worst(check.verdict for check in checks),
        "cases": sum(check.how == DIRECT for check in ran),
        "replays": sum(check.how == GRAPH for check in ran),
        "largest_error": max(errors, default=None),
        "seconds": math.fsum(check.seconds or 0.0 for check in ran),
    }


def judged_documents(
    results: Iterable[Result], level: str = DEVICE, rewritten: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The parts of an evidence file that come from results: verdict, variants, calls.

    rewritten: what is said of each variant besides, by id.
    """
    further = rewritten or {}
    results = list(results)
    variants = {
        result.subject.id: {
            "family": result.subject.family,
            "problem": dict(result.subject.facts),
            **further.get(result.subject.id, {}),
            **figures(result.checks, level),
            "checks": [dataclasses.asdict(check) for check in result.checks],
        }
        for result in results
        if result.subject.id
    }
    calls = [
        {
            "call": result.subject.label,
            "facts": dict(result.subject.facts),
            "rows": _rows_of(result.checks),
            **figures(result.checks, level),
            "checks": [dataclasses.asdict(check) for check in result.checks],
        }
        for result in results
        if not result.subject.id
    ]
    return {"verdict": worst(result.verdict for result in results), "variants": variants, "calls": calls}


def _rows_of(checks: Iterable[Check]) -> list[str]:
    return sorted({row for check in checks for row in check.rows})


def read_evidence(path: Path) -> DeviceEvidence:
    """The evidence file at `path`.  Raises FaultsError as `parse_evidence` does, or where it cannot be read."""
    try:
        if not path.is_file():
            raise FaultsError(Fault(str(path), "no such file, or no regular one", "an evidence file"))
        if path.stat().st_size > _MOST_BYTES:
            raise FaultsError(Fault(str(path), f"{path.stat().st_size:,} bytes", f"at most {_MOST_BYTES:,}"))
        return parse_evidence(path.read_bytes(), str(path))
    except OSError as error:
        raise FaultsError(Fault(str(path), error.strerror or str(error), "a readable file")) from None


def parse_evidence(text: bytes, where: str) -> DeviceEvidence:
    """Raises FaultsError with all that is wrong: no JSON, another schema or level, figures its checks contradict."""
    try:
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise FaultsError(Fault(where, f"is not JSON: {error}", "an evidence file, whole")) from None
    level = _level(document, where)
    faults = form_faults(document, level, where)
    if faults:
        raise FaultsError(faults)
    variants = {id: _judged(id, item, item["problem"], (id,)) for id, item in document["variants"].items()}
    calls = [_judged(item["call"], item, item["facts"], tuple(item["rows"])) for item in document["calls"]]
    given = [*document["variants"].values(), *document["calls"]]
    for judged, item in zip([*variants.values(), *calls], given, strict=True):
        faults += _contradictions(judged, item, level, f"{where}: {judged.name}")
    overall = worst(judged.verdict for judged in (*variants.values(), *calls))
    if document["verdict"] != overall:
        faults.append(Fault(f"{where}: verdict", repr(document["verdict"]), f"{overall}, as its checks say"))
    if faults:
        raise FaultsError(faults)
    device = document["device"]
    return DeviceEvidence(
        level, document["bundle"]["identity"], (device["backend"], device["arch"]), tuple(document["targets"]),
        variants, tuple(calls), document, text,
    )  # fmt: skip


def _no_constant(spelling: str) -> None:
    raise ValueError(f"{spelling} is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _level(document: Any, where: str) -> str:
    """Asked first: the rest of a document of another kind cannot be judged."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        given = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise FaultsError(Fault(f"{where}: schema", repr(given), repr(SCHEMA)))
    level = document.get("level")
    if level not in (DEVICE, RETARGETED):
        hint = "other levels come with the build: assay qualify --evidence LEVEL"
        raise FaultsError(Fault(f"{where}: level", repr(level), f"{DEVICE!r} or {RETARGETED!r}", hint))
    return level


def _judged(name: str, item: Mapping[str, Any], facts: Mapping[str, Any], rows: tuple[str, ...]) -> Judged:
    checks = tuple(Check(**{**check, "rows": tuple(check["rows"])}) for check in item["checks"])
    return Judged(name, rows, facts, checks)


def _contradictions(judged: Judged, item: Mapping[str, Any], level: str, where: str) -> list[Fault]:
    """Checks that say two things at once, and verdicts and figures that do not follow from the checks."""
    faults = []
    for check in judged.checks:
        passed = check.verdict == PASS
        if passed and (check.fault or check.largest_error is None or check.seconds is None or not check.rows):
            faults.append(Fault(f"{where}: {check.case}, {check.how}", "passes with a fault, or without figures"))
        if not passed and not check.fault:
            faults.append(Fault(f"{where}: {check.case}, {check.how}", f"{check.verdict} for no reason"))
    for name, value in figures(judged.checks, level).items():
        if item.get(name) != value:
            faults.append(Fault(f"{where}: {name}", repr(item.get(name)), f"{value!r}, as its checks say"))
    answered = _rows_of(judged.checks)
    if set(answered) - set(judged.rows):
        faults.append(Fault(f"{where}: rows", ", ".join(answered), ", ".join(judged.rows)))
    return faults
