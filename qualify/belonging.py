"""Whether an evidence file is of a bundle, and says which device ran what of it."""

from __future__ import annotations

from collections.abc import Collection

from assay.bundle import Bundle, BundleError, Fault
from assay.bundle.devices import matching_targets
from assay.bundle.faults import did_you_mean

from .device.checking import DIRECT, GRAPH, NOT_RUN, PASS
from .device.evidence import DeviceEvidence
from .device.levels import DEVICE, RETARGETED


def foreign_faults(bundle: Bundle, evidence: DeviceEvidence, where: str) -> list[Fault]:
    """What makes a file evidence of something else, or of nothing."""
    if evidence.identity != bundle.identity:
        hint = "it is of another bundle, or of another build of this one"
        return [Fault(f"{where}: identity", evidence.identity, bundle.identity, hint)]
    try:
        here = _targets_that_ran(bundle, evidence, where)
    except BundleError as error:
        return list(error.faults)
    if all(item.verdict == NOT_RUN for item in evidence.everything):
        return [Fault(where, "nothing of it was run", "at least one variant that was")]
    targets = {row.id: row.target for family in bundle.families() for row in bundle.rows(family)}
    faults = []
    for id in dict.fromkeys(id for item in evidence.everything for id in item.rows):
        if id not in targets:
            faults.append(
                Fault(f"{where}: variant {id}", "the bundle has no such variant", "", did_you_mean(id, targets))
            )
        elif targets[id] not in here:
            ran = " ".join(evidence.device)
            faults.append(Fault(f"{where}: variant {id}", f"is for {targets[id]}, the device was {ran}"))
    if evidence.level == RETARGETED:
        faults += _other_code(bundle, evidence, targets, where)
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


def _targets_that_ran(bundle: Bundle, evidence: DeviceEvidence, where: str) -> set[str]:
    """Names of the bundle's targets whose code, or re-assembled code, the device can have run.  Raises BundleError."""
    targets = bundle.manifest.targets
    if evidence.level == DEVICE:
        return {target.name for target in matching_targets(targets, evidence.device, where)}
    backend, arch = evidence.device
    found = {t.name for t in targets if t.backend == backend and arch not in (t.arch, *t.runs_on)}
    if not found:
        given = f"re-assembled code ran on ({backend}, {arch})"
        held = "a device of the same backend that does not run the bundle's own code"
        hint = "where its own code runs, assay qualify-device BUNDLE makes the stronger evidence"
        raise BundleError(Fault(f"{where}: device", given, held, hint))
    return found


def _other_code(bundle: Bundle, evidence: DeviceEvidence, known: Collection[str], where: str) -> list[Fault]:
    """Variants that were made of other code objects than the bundle's."""
    faults = []
    for id in evidence.variants:
        claimed = evidence.document["variants"][id]
        if id in known and claimed["code_sha256"] != bundle.variant(id).code_sha256:
            hint = "the companion is of another build: make it anew with assay retarget"
            faults.append(
                Fault(
                    f"{where}: variant {id}: code_sha256", claimed["code_sha256"], bundle.variant(id).code_sha256, hint
                )
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
