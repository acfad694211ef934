"""The evidence file of a device: what is written there, and read again by `assay attest`.

    {"schema": "assay.evidence/1", "level": "device", "verdict": "pass" | "fail" | "not_run",
     "bundle": {"identity", "sha256", "file"}, "targets": [name],
     "device": {"backend", "arch", "name", "pci_address", "driver_version", …}, "software": {…},
     "begun", "done", "only": {name: [value]} | null, "tolerances": {family: {absolute, relative}},
     "variants": {id: {"device": verdict, "family", "problem", FIGURES, "checks": [CHECK]}},
     "calls": [{"call", "facts", "rows": [id], "device": verdict, FIGURES, "checks": [CHECK]}]}
    FIGURES = "cases", "replays", "largest_error", "seconds"
    CHECK = {"case", "how": "direct" | "graph", "verdict", "largest_error", "seconds", "rows": [id], "fault"}

Every verdict and figure above the checks follows from them; a file where one does not is refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault, FaultsError

from .checking import DIRECT, FAIL, GRAPH, NOT_RUN, PASS, Check
from .qualifying import Result, worst

SCHEMA = "assay.evidence/1"
LEVEL = "device"
_MOST_BYTES = 256 << 20
_HASH = re.compile(r"[0-9a-f]{64}")


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
    """An evidence file that holds together.  variants: by id.  text: the file itself."""

    identity: str
    device: tuple[str, str]
    targets: tuple[str, ...]
    variants: Mapping[str, Judged]
    calls: tuple[Judged, ...]
    document: Mapping[str, Any]
    text: bytes


def figures(checks: Sequence[Check]) -> dict[str, Any]:
    """The verdict and what stands beside it: cases launched, graphs replayed, largest error, seconds of launches."""
    ran = [check for check in checks if check.verdict != NOT_RUN]
    errors = [check.largest_error for check in ran if check.largest_error is not None]
    return {
        LEVEL: worst(check.verdict for check in checks),
        "cases": sum(check.how == DIRECT for check in ran),
        "replays": sum(check.how == GRAPH for check in ran),
        "largest_error": max(errors, default=None),
        "seconds": math.fsum(check.seconds or 0.0 for check in ran),
    }


def judged_documents(results: Iterable[Result]) -> dict[str, Any]:
    """The parts of an evidence file that come from results: verdict, variants, calls."""
    results = list(results)
    variants = {
        result.subject.id: {
            "family": result.subject.family,
            "problem": dict(result.subject.facts),
            **figures(result.checks),
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
            **figures(result.checks),
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
    _check_kind(document, where)
    faults = _shape_faults(document, where)
    if faults:
        raise FaultsError(faults)
    variants = {id: _judged(id, item, item["problem"], (id,)) for id, item in document["variants"].items()}
    calls = [_judged(item["call"], item, item["facts"], tuple(item["rows"])) for item in document["calls"]]
    given = [*document["variants"].values(), *document["calls"]]
    for judged, item in zip([*variants.values(), *calls], given, strict=True):
        faults += _contradictions(judged, item, f"{where}: {judged.name}")
    overall = worst(judged.verdict for judged in (*variants.values(), *calls))
    if document["verdict"] != overall:
        faults.append(Fault(f"{where}: verdict", repr(document["verdict"]), f"{overall}, as its checks say"))
    if faults:
        raise FaultsError(faults)
    device = document["device"]
    return DeviceEvidence(
        document["bundle"]["identity"], (device["backend"], device["arch"]), tuple(document["targets"]), variants,
        tuple(calls), document, text,
    )  # fmt: skip


def _no_constant(spelling: str) -> None:
    raise ValueError(f"{spelling} is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _check_kind(document: Any, where: str) -> None:
    """Asked first: the rest of a document of another kind cannot be judged."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        given = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise FaultsError(Fault(f"{where}: schema", repr(given), repr(SCHEMA)))
    if document.get("level") != LEVEL:
        hint = "other levels come with the build: assay qualify --evidence LEVEL"
        raise FaultsError(Fault(f"{where}: level", repr(document.get("level")), repr(LEVEL), hint))


def _shape_faults(document: Mapping[str, Any], where: str) -> list[Fault]:
    """Fields that are missing or of another type, in the document and in everything that it judges."""
    fields: dict[str, type] = {
        "verdict": str, "bundle": dict, "targets": list, "device": dict, "software": dict, "begun": str, "done": str,
        "tolerances": dict, "variants": dict, "calls": list,
    }  # fmt: skip
    faults = _missing(document, fields, where)
    if faults:
        return faults
    faults += _missing(document["bundle"], {"identity": str, "sha256": str, "file": str}, f"{where}: bundle")
    # The emulator has no address and no driver: what ran there is no evidence of a device.
    named = {"backend": str, "arch": str, "name": str, "pci_address": str, "driver_version": str}
    faults += _missing(document["device"], named, f"{where}: device")
    faults += [
        Fault(f"{where}: targets", repr(name), "a name") for name in document["targets"] if type(name) is not str
    ]
    if not faults and not _HASH.fullmatch(document["bundle"]["identity"]):
        faults.append(
            Fault(f"{where}: bundle: identity", repr(document["bundle"]["identity"]), "64 hexadecimal digits")
        )
    common = {LEVEL: str, "cases": int, "replays": int, "checks": list}
    for id, item in document["variants"].items():
        faults += _judged_faults(item, {"family": str, "problem": dict, **common}, f"{where}: variant {id}")
    for number, item in enumerate(document["calls"]):
        faults += _judged_faults(item, {"call": str, "facts": dict, "rows": list, **common}, f"{where}: call {number}")
    return faults


def _judged_faults(item: Any, fields: Mapping[str, type], where: str) -> list[Fault]:
    faults = _missing(item, fields, where)
    if faults:
        return faults
    wanted = {"case": str, "how": str, "verdict": str, "rows": list, "fault": str}
    names = {field.name for field in dataclasses.fields(Check)}
    for number, check in enumerate(item["checks"]):
        at = f"{where}: check {number}"
        faults += _missing(check, wanted, at) or _check_faults(check, names, at)
    return faults


def _check_faults(check: Mapping[str, Any], names: set[str], where: str) -> list[Fault]:
    if set(check) != names:
        return [Fault(where, ", ".join(sorted(check)), ", ".join(sorted(names)))]
    faults = []
    if check["how"] not in (DIRECT, GRAPH) or check["verdict"] not in (PASS, FAIL, NOT_RUN):
        faults.append(Fault(where, f"{check['how']} {check['verdict']}", f"{DIRECT} or {GRAPH}; a verdict"))
    for name in ("largest_error", "seconds"):
        value = check[name]
        if value is not None and not (type(value) in (int, float) and math.isfinite(value) and value >= 0):
            faults.append(Fault(f"{where}: {name}", repr(value), "a number of at least 0, or null"))
    if any(type(row) is not str for row in check["rows"]):
        faults.append(Fault(f"{where}: rows", repr(check["rows"]), "ids"))
    return faults


def _missing(item: Any, fields: Mapping[str, type], where: str) -> list[Fault]:
    if not isinstance(item, dict):
        return [Fault(where, type(item).__name__, "an object")]
    return [
        Fault(f"{where}: {name}", "is missing" if name not in item else repr(item[name])[:60], kind.__name__)
        for name, kind in fields.items()
        if type(item.get(name)) is not kind
    ]


def _judged(name: str, item: Mapping[str, Any], facts: Mapping[str, Any], rows: tuple[str, ...]) -> Judged:
    checks = tuple(Check(**{**check, "rows": tuple(check["rows"])}) for check in item["checks"])
    return Judged(name, rows, facts, checks)


def _contradictions(judged: Judged, item: Mapping[str, Any], where: str) -> list[Fault]:
    """Checks that say two things at once, and verdicts and figures that do not follow from the checks."""
    faults = []
    for check in judged.checks:
        passed = check.verdict == PASS
        if passed and (check.fault or check.largest_error is None or check.seconds is None or not check.rows):
            faults.append(Fault(f"{where}: {check.case}, {check.how}", "passes with a fault, or without figures"))
        if not passed and not check.fault:
            faults.append(Fault(f"{where}: {check.case}, {check.how}", f"{check.verdict} for no reason"))
    for name, value in figures(judged.checks).items():
        if item.get(name) != value:
            faults.append(Fault(f"{where}: {name}", repr(item.get(name)), f"{value!r}, as its checks say"))
    answered = _rows_of(judged.checks)
    if set(answered) - set(judged.rows):
        faults.append(Fault(f"{where}: rows", ", ".join(answered), ", ".join(judged.rows)))
    return faults
