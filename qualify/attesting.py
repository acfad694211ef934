"""`assay attest`: evidence files of devices become part of the bundle that they are of.

Each file is kept whole, as `{"schema": "assay.LEVEL-run/1", "evidence": …}` named `LEVEL-run/<first 16 digits of its
SHA-256>`, which lists no variants of its own; LEVEL is `device`, or `retargeted` where a companion ran.  The evidence
called LEVEL says of each variant what all kept files of that level say together: 'fail' where any of them has a failure
of it, or of a decode call that it answered.  So the order of attesting makes no difference, and attesting a file twice
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, BundleError, Fault, FaultsError, attach_evidence, verify_bundle

from .belonging import foreign_faults
from .device.checking import FAIL, NOT_RUN, PASS
from .device.errors import BadRequest
from .device.evidence import SCHEMA, DeviceEvidence, Judged, figures, parse_evidence, read_evidence
from .device.levels import ATTESTED, RETARGETED, rank
from .device.opening import open_bundle

DOCUMENT = "assay.attest/1"
_RUN, _RUN_SCHEMA = "-run/", "assay.{}-run/1"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one level says of a bundle's variants: how many of each verdict; `without`: that it does not know."""

    level: str
    verdicts: Mapping[str, int]
    without: int


@dataclass(frozen=True, slots=True)
class Attested:
    """A bundle after attesting.  failures: variant -> what failed, and on which device."""

    bundle: Path
    identity: str
    runs: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    failures: Mapping[str, str]


def attest(bundle: Path, files: Sequence[Path]) -> Attested:
    """Merge evidence files into a bundle.  Raises BadRequest with everything wrong; then the bundle is as it was.

    A file that says 'fail' is merged like any other: what was seen to fail is not left out.
    """
    with open_bundle(bundle) as opened:
        if damaged := verify_bundle(bundle):
            raise BadRequest(damaged)
        new = _read_all(opened, files)
        kept = {name: _kept(opened, name) for name in opened.evidence_names() if _is_run(name)}
        problems = {id: opened.variant(id).problem for id in opened.variant_ids()}
    runs = kept | {_name_of(item): item for item in new}
    documents = {_name_of(item): _run_document(item) for item in new}
    for level in dict.fromkeys(item.level for item in runs.values()):
        of_level = {name: item for name, item in runs.items() if item.level == level}
        summary = {"schema": SCHEMA, "level": level, "variants": _summary(of_level, problems, level)}
        documents[level] = _encoded(summary)
    try:
        attach_evidence(bundle, documents)
    except BundleError as error:
        raise BadRequest(error.faults) from error
    return _attested(bundle, tuple(sorted(runs)), _failures(runs, problems))


def _read_all(bundle: Bundle, files: Iterable[Path]) -> list[DeviceEvidence]:
    """Every file, each found to be evidence of this bundle.  Raises BadRequest."""
    found: list[DeviceEvidence] = []
    faults: list[Fault] = []
    for path in files:
        try:
            evidence = read_evidence(path)
        except FaultsError as error:
            faults += error.faults
            continue
        faults += foreign_faults(bundle, evidence, str(path))
        found.append(evidence)
    if faults:
        raise BadRequest(faults)
    return found


def _kept(bundle: Bundle, name: str) -> DeviceEvidence:
    """Evidence that was attested before.  Raises BadRequest where it does not hold together."""
    where = f"{bundle.path}: evidence {name}"
    kept = bundle.evidence(name)
    schema = _RUN_SCHEMA.format(name.partition(_RUN)[0])
    if not isinstance(kept, dict) or kept.get("schema") != schema:
        raise BadRequest(Fault(where, "is of another schema", schema))
    try:
        return parse_evidence(_encoded(kept.get("evidence")), where)
    except FaultsError as error:
        raise BadRequest(error.faults) from error


def _encoded(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _run_document(evidence: DeviceEvidence) -> bytes:
    return _encoded({"schema": _RUN_SCHEMA.format(evidence.level), "evidence": evidence.document})


def _is_run(name: str) -> bool:
    return name.startswith(tuple(level + _RUN for level in ATTESTED))


def _name_of(evidence: DeviceEvidence) -> str:
    return evidence.level + _RUN + hashlib.sha256(evidence.text).hexdigest()[:16]


def _blamed(item: Judged, problems: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Variants that a failure counts against: those that answered, or all that may have where none is named."""
    if item.rows:
        return item.rows
    facts = dict(item.facts)
    agreeing = [
        id for id, problem in problems.items() if all(problem[k] == v for k, v in facts.items() if k in problem)
    ]
    return tuple(agreeing or problems)


def _summary(
    runs: Mapping[str, DeviceEvidence], problems: Mapping[str, Mapping[str, Any]], level: str
) -> dict[str, Any]:
    """Of each variant that was launched, alone or in a call that failed: the worst verdict, figures, and the runs; of a
    retargeted one also for which architectures it was assembled, and what of it was rewritten."""
    launched: dict[str, dict[str, Judged]] = {}
    in_failed_calls: set[str] = set()
    for name, evidence in runs.items():
        for id, item in evidence.variants.items():
            if item.verdict != NOT_RUN:
                launched.setdefault(id, {})[name] = item
        failed = [call for call in evidence.calls if call.verdict == FAIL]
        in_failed_calls.update(id for call in failed for id in _blamed(call, problems))
    summary: dict[str, Any] = {}
    for id in sorted({*launched, *in_failed_calls}):
        of_id = launched.get(id, {})
        told = figures([check for item in of_id.values() for check in item.checks], level)
        verdict = FAIL if id in in_failed_calls else told[level]
        summary[id] = {**told, level: verdict, "runs": sorted(of_id)}
        if level == RETARGETED:
            summary[id]["rewritten"] = {
                evidence.document["companion"]["arch"]: evidence.document["variants"][id]["rewritten"]
                for evidence in runs.values()
                if id in evidence.variants
            }
    return summary


def _failures(runs: Mapping[str, DeviceEvidence], problems: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for _, evidence in sorted(runs.items()):
        device = evidence.document["device"]["name"]
        if evidence.level == RETARGETED:
            device += f", re-assembled for {evidence.document['companion']['arch']}"
        for item in evidence.everything:
            for check in item.checks:
                if check.verdict == FAIL:
                    for id in _blamed(item, problems):
                        failures.setdefault(id, f"{check.case} ({check.how}) on {device}: {check.fault}")
    return failures


def _attested(path: Path, runs: tuple[str, ...], failures: Mapping[str, str]) -> Attested:
    with open_bundle(path) as bundle:
        ids = set(bundle.variant_ids())
        levels = sorted((name for name in bundle.evidence_names() if not _is_run(name)), key=rank)
        coverage = tuple(_coverage(bundle.evidence(name), name, ids) for name in levels)
        return Attested(path, bundle.identity, runs, coverage, failures)


def _coverage(document: Any, level: str, ids: set[str]) -> Coverage:
    variants = document.get("variants", {}) if isinstance(document, dict) else {}
    verdicts: dict[str, int] = {}
    for id in ids & variants.keys():
        verdict = str(variants[id].get(level, NOT_RUN))
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return Coverage(level, dict(sorted(verdicts.items(), key=lambda item: item[0] != PASS)), len(ids - variants.keys()))


def document(attested: Attested) -> dict[str, Any]:
    """What `assay attest --json` prints."""
    return {
        "schema": DOCUMENT,
        "bundle": str(attested.bundle),
        "identity": attested.identity,
        "verdict": FAIL if attested.failures else PASS,
        "runs": list(attested.runs),
        "coverage": {item.level: {**item.verdicts, "without": item.without} for item in attested.coverage},
        "failures": dict(attested.failures),
    }
