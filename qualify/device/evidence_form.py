"""Whether the fields of an evidence file are there and of the right type; `evidence` has its format."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from assay.bundle import Fault

from .checking import DIRECT, FAIL, GRAPH, NOT_RUN, PASS, Check
from .levels import RETARGETED

_HASH = re.compile(r"[0-9a-f]{64}")
_FILE: dict[str, type] = {"identity": str, "sha256": str, "file": str}
_REWRITTEN: dict[str, type] = {"code_sha256": str, "companion_sha256": str, "rewritten": dict}


def form_faults(document: Mapping[str, Any], level: str, where: str) -> list[Fault]:
    """Fields that are missing or of another type, in the document and in everything that it judges."""
    fields: dict[str, type] = {
        "verdict": str, "bundle": dict, "targets": list, "device": dict, "software": dict, "begun": str, "done": str,
        "tolerances": dict, "variants": dict, "calls": list,
    }  # fmt: skip
    faults = _missing(document, fields, where)
    if faults:
        return faults
    faults += _companion_faults(document, where) if level == RETARGETED else []
    of_bundle = {"identity": str} if level == RETARGETED else _FILE
    faults += _missing(document["bundle"], of_bundle, f"{where}: bundle")
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
    common = {level: str, "cases": int, "replays": int, "checks": list}
    of_variant = {"family": str, "problem": dict, **common, **(_REWRITTEN if level == RETARGETED else {})}
    for id, item in document["variants"].items():
        faults += _judged_faults(item, of_variant, f"{where}: variant {id}")
    for number, item in enumerate(document["calls"]):
        faults += _judged_faults(item, {"call": str, "facts": dict, "rows": list, **common}, f"{where}: call {number}")
    return faults


def _companion_faults(document: Mapping[str, Any], where: str) -> list[Fault]:
    return _missing(document.get("companion"), {**_FILE, "target": str, "arch": str}, f"{where}: companion")


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
