"""`assay attest`: evidence files of devices become part of the bundle that they are of.

Each file is kept whole, as `{"schema": "assay.device-run/1", "evidence": …}` named `device-run/<first 16 digits of its
SHA-256>`, which lists no variants of its own.  The evidence `device` says of each variant what all kept files say
together: 'fail' where any of them has a failure of it, or of a decode call that it answered.  So the order of attesting
makes no difference, and attesting a file twice changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, BundleError, Fault, FaultsError, attach_evidence, verify_bundle
from assay.bundle.devices import ArchitectureMismatch, matching_targets
from assay.bundle.faults import did_you_mean

from .device.checking import DIRECT, FAIL, GRAPH, NOT_RUN, PASS
from .device.errors import BadRequest
from .device.evidence import LEVEL, SCHEMA, DeviceEvidence, Judged, figures, parse_evidence, read_evidence
from .device.opening import open_bundle

DOCUMENT = "assay.attest/1"
_RUN, _RUN_SCHEMA = "device-run/", "assay.device-run/1"


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
        kept = {name: _kept(opened, name) for name in opened.evidence_names() if name.startswith(_RUN)}
        problems = {id: opened.variant(id).problem for id in opened.variant_ids()}
    runs = kept | {_name_of(item): item for item in new}
    summary = {"schema": SCHEMA, "level": LEVEL, "variants": _summary(runs, problems)}
    documents = {_name_of(item): _encoded({"schema": _RUN_SCHEMA, "evidence": item.document}) for item in new}
    try:
        attach_evidence(bundle, documents | {LEVEL: _encoded(summary)})
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
        faults += _foreign(bundle, evidence, str(path))
        found.append(evidence)
    if faults:
        raise BadRequest(faults)
    return found


def _foreign(bundle: Bundle, evidence: DeviceEvidence, where: str) -> list[Fault]:
    """What makes a file evidence of something else, or of nothing."""
    if evidence.identity != bundle.identity:
        hint = "it is of another bundle, or of another build of this one"
        return [Fault(f"{where}: identity", evidence.identity, bundle.identity, hint)]
    try:
        here = {target.name for target in matching_targets(bundle.manifest.targets, evidence.device, where)}
    except ArchitectureMismatch as error:
        return list(error.faults)
    if all(item.verdict == NOT_RUN for item in _everything(evidence)):
        return [Fault(where, "nothing of it was run", "at least one variant that was")]
    targets = {row.id: row.target for family in bundle.families() for row in bundle.rows(family)}
    faults = []
    for id in dict.fromkeys(id for item in _everything(evidence) for id in item.rows):
        if id not in targets:
            faults.append(
                Fault(f"{where}: variant {id}", "the bundle has no such variant", "", did_you_mean(id, targets))
            )
        elif targets[id] not in here:
            ran = " ".join(evidence.device)
            faults.append(Fault(f"{where}: variant {id}", f"is for {targets[id]}, the device was {ran}"))
    faults += _vague(evidence, here, where)
    for id, item in evidence.variants.items():
        if id in targets and evidence.document["variants"][id].get("family") != bundle.variant(id).family:
            given = repr(evidence.document["variants"][id].get("family"))
            faults.append(Fault(f"{where}: variant {id}: family", given, bundle.variant(id).family))
        if id in targets and dict(item.facts) != bundle.variant(id).problem:
            faults.append(
                Fault(f"{where}: variant {id}: problem", f"{dict(item.facts)}", f"{bundle.variant(id).problem}")
            )
    return faults


def _vague(evidence: DeviceEvidence, here: set[str], where: str) -> list[Fault]:
    """What keeps a file from saying which device ran what: no name, other targets, checks told twice or by half."""
    document, faults = evidence.document, []
    for field in ("name", "pci_address", "driver_version"):
        if not str(document["device"].get(field) or "").strip():
            faults.append(Fault(f"{where}: device: {field}", "nothing", "what the driver says"))
    if strange := set(document["targets"]) - here:
        faults.append(Fault(f"{where}: targets", ", ".join(sorted(map(str, strange))), ", ".join(sorted(here))))
    for id, item in evidence.variants.items():
        ran = [(check.case, check.how) for check in item.checks if check.verdict != NOT_RUN]
        if len(set(ran)) < len(ran):
            faults.append(Fault(f"{where}: variant {id}", "a case that is told twice", "each case once"))
        if item.verdict == PASS and {how for _, how in ran} != {DIRECT, GRAPH}:
            given = " and ".join(sorted({how for _, how in ran})) or "nothing"
            faults.append(Fault(f"{where}: variant {id}", f"passed on {given} alone", f"{DIRECT} and {GRAPH}"))
    return faults


def _kept(bundle: Bundle, name: str) -> DeviceEvidence:
    """Evidence that was attested before.  Raises BadRequest where it does not hold together."""
    where = f"{bundle.path}: evidence {name}"
    kept = bundle.evidence(name)
    if not isinstance(kept, dict) or kept.get("schema") != _RUN_SCHEMA:
        raise BadRequest(Fault(where, "is of another schema", _RUN_SCHEMA))
    try:
        return parse_evidence(_encoded(kept.get("evidence")), where)
    except FaultsError as error:
        raise BadRequest(error.faults) from error


def _encoded(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _name_of(evidence: DeviceEvidence) -> str:
    return _RUN + hashlib.sha256(evidence.text).hexdigest()[:16]


def _everything(evidence: DeviceEvidence) -> tuple[Judged, ...]:
    return (*evidence.variants.values(), *evidence.calls)


def _blamed(item: Judged, problems: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Variants that a failure counts against: those that answered, or all that may have where none is named."""
    if item.rows:
        return item.rows
    facts = dict(item.facts)
    agreeing = [
        id for id, problem in problems.items() if all(problem[k] == v for k, v in facts.items() if k in problem)
    ]
    return tuple(agreeing or problems)


def _summary(runs: Mapping[str, DeviceEvidence], problems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Of each variant that was launched, alone or in a call that failed: the worst verdict, figures, and the runs."""
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
        told = figures([check for item in of_id.values() for check in item.checks])
        verdict = FAIL if id in in_failed_calls else told[LEVEL]
        summary[id] = {**told, LEVEL: verdict, "runs": sorted(of_id)}
    return summary


def _failures(runs: Mapping[str, DeviceEvidence], problems: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for _, evidence in sorted(runs.items()):
        device = evidence.document["device"]["name"]
        for item in _everything(evidence):
            for check in item.checks:
                if check.verdict == FAIL:
                    for id in _blamed(item, problems):
                        failures.setdefault(id, f"{check.case} ({check.how}) on {device}: {check.fault}")
    return failures


def _attested(path: Path, runs: tuple[str, ...], failures: Mapping[str, str]) -> Attested:
    with open_bundle(path) as bundle:
        ids = set(bundle.variant_ids())
        levels = [name for name in bundle.evidence_names() if not name.startswith(_RUN)]
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
