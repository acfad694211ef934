"""`assay qualify-device`, with no package but numpy and torch; also `python -m assay.qualify.device`."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, BundleError, Fault
from assay.bundle.atomic import replace_file
from assay.bundle.companions import described
from assay.runtime.drivers import DriverError
from assay.runtime.kernels import FORBID_SWITCH

from . import printing, provenance
from .checking import FAIL, NOT_RUN, PASS
from .errors import BadRequest, NotAvailable
from .evidence import SCHEMA, judged_documents
from .levels import DEVICE, RETARGETED
from .opening import Opened, first_line, forced_on_purpose, open_device, open_undamaged
from .qualifying import Result, Subject, not_run, qualify, subjects_of
from .rows import Wanted, built_rows, matching

BAD_INPUT, NO_DEVICE = 2, 4
STATUS = {PASS: 0, FAIL: 1, NOT_RUN: NO_DEVICE}
DOCUMENT = "assay.qualify-device/1"

Open = Callable[[Path, str], Opened]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for.  only: a part of the bundle.  evidence: the file to write; None: beside the bundle.
    retarget: whether the bundle is a companion."""

    bundle: Path
    device: str = "cuda:0"
    only: Wanted | None = None
    evidence: Path | None = None
    as_json: bool = False
    retarget: bool = False

    @property
    def level(self) -> str:
        """What the evidence will be."""
        return RETARGETED if self.retarget else DEVICE

    @property
    def evidence_file(self) -> Path:
        """Where the evidence goes."""
        return self.evidence or self.bundle.with_suffix(f".{self.level}.json")


def qualify_device(options: Options, open_: Open | None = None) -> int:
    """Run, print and write the evidence file; returns the exit status.

    0 everything passed, 1 something failed, 2 bad input, 4 something was not run.
    open_: what opens the device, in the place of `open_device`.
    """
    try:
        return _qualify_device(options, open_ or functools.partial(open_device, companion=options.retarget))
    except (BadRequest, BundleError) as error:
        _warn(error)
        return BAD_INPUT


def _qualify_device(options: Options, open_: Open) -> int:
    _check(options)
    with open_undamaged(options.bundle, companion=True) as bundle:
        _check_kind(options, bundle)
        every = built_rows(bundle, (target.name for target in bundle.manifest.targets))
        selected = matching(every, options.only or {}, "--only")
        with contextlib.ExitStack() as stack:
            try:
                opened = stack.enter_context(open_(options.bundle, options.device))
                device = _described(opened)
            except NotAvailable as error:
                return _none_ran(options, bundle, subjects_of(selected, every), error)
            return _run(options, bundle, opened, device)


def _check(options: Options) -> None:
    """What would be noticed only at the end, or would make verdicts those of something else.  Raises BadRequest."""
    faults = []
    if options.device.startswith("emulator"):
        hint = "assay qualify --evidence emulated judges on the emulator; assay run --device emulator runs cases there"
        faults.append(Fault("--device", options.device, "cuda:N or hip:N: device evidence is of devices", hint))
    if os.environ.get(FORBID_SWITCH):
        faults.append(Fault(FORBID_SWITCH, os.environ[FORBID_SWITCH], "unset: every row is to run"))
    # Beside what is no file no evidence is written: a folder such as . has no name, and opening it says what it is.
    if (options.evidence or options.bundle.is_file()) and not _is_writable(options.evidence_file):
        faults.append(Fault("--evidence", str(options.evidence_file), "a file in a folder to write to"))
    if faults:
        raise BadRequest(faults)


def _is_writable(path: Path) -> bool:
    folder = path.absolute().parent
    return not path.is_dir() and folder.is_dir() and os.access(folder, os.W_OK)


def _check_kind(options: Options, bundle: Bundle) -> None:
    """Raises BadRequest: a companion's verdicts must not be told as the bundle's own, nor the other way round."""
    is_companion = bundle.manifest.companion is not None
    if is_companion and not options.retarget:
        given = f"is {described(bundle.manifest)}"
        hint = "give --retarget: its evidence is of level retargeted"
        raise BadRequest(Fault(str(options.bundle), given, "a bundle", hint))
    if options.retarget and not is_companion:
        hint = "assay retarget BUNDLE --for TARGET makes one; without --retarget a bundle runs on the device it is for"
        raise BadRequest(Fault(f"--retarget: {options.bundle}", "is a bundle", "a companion of one", hint))


def _described(opened: Opened) -> dict[str, Any]:
    """What evidence says of the device.  Raises NotAvailable where its driver does not tell."""
    driver = opened.kernels.driver
    try:
        device = provenance.device_of(driver)
    except DriverError as error:
        raise NotAvailable(Fault(f"device {driver.name}", first_line(error))) from error
    return device | provenance.nvidia_smi(device["pci_address"]) if device["backend"] == "cuda" else device


def _run(options: Options, bundle: Bundle, opened: Opened, device: dict[str, Any]) -> int:
    targets = [target.name for target in opened.kernels.targets]
    every = built_rows(bundle, targets)
    subjects = subjects_of(matching(every, options.only or {}, "--only"), every)
    begun = provenance.now()
    with forced_on_purpose():
        results = qualify(opened, subjects, printing.progress(len(subjects)))
    judged = judged_documents(results, options.level, rewritten_variants(bundle))
    document = {
        "schema": SCHEMA,
        "level": options.level,
        "verdict": judged["verdict"],
        **_file_documents(options.bundle, bundle),
        "targets": targets,
        "device": device,
        "software": provenance.software(),
        "begun": begun,
        "done": provenance.now(),
        "only": {name: list(values) for name, values in options.only.items()} if options.only else None,
        "tolerances": {family: bundle.manifest.families[family]["tolerance"] for family in bundle.families()},
        **judged,
    }
    # Printed first: what cannot be written is not lost then.
    _print(options, document, results)
    replace_file(options.evidence_file, [json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"])
    print(f"wrote {options.evidence_file}", file=sys.stderr)
    return STATUS[judged["verdict"]]


def _file_documents(path: Path, bundle: Bundle) -> dict[str, dict[str, str]]:
    """What ran, and of which bundle it is evidence."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    ran = {"identity": bundle.identity, "sha256": sha256, "file": path.name}
    companion = bundle.manifest.companion
    if companion is None:
        return {"bundle": ran}
    assembled = {name: companion[name] for name in ("target", "arch")}
    return {"bundle": {"identity": companion["of"]}, "companion": ran | assembled}


def rewritten_variants(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """What evidence says of each variant of a companion besides: both code objects, what was rewritten."""
    companion = bundle.manifest.companion or {"variants": {}}
    return {
        id: {**said, "companion_sha256": bundle.variant(id).code_sha256} for id, said in companion["variants"].items()
    }


def _print(options: Options, document: dict[str, Any], results: Sequence[Result]) -> None:
    if options.as_json:
        print(json.dumps({**document, "schema": DOCUMENT, "evidence": str(options.evidence_file)}, allow_nan=False))
        return
    printing.print_results(results)
    verdicts = [result.verdict for result in results if result.subject.id]
    passed = f"{verdicts.count(PASS)} of {len(verdicts)} variants passed on {document['device']['name']}"
    how = f", re-assembled for {document['companion']['arch']}" if options.retarget else ""
    print(f"{'/'.join(document['targets'])}: {document['verdict'].upper().replace('_', ' ')}: {passed}{how}")


def _none_ran(options: Options, bundle: Bundle, subjects: Sequence[Subject], error: NotAvailable) -> int:
    """Every check is told as not run; no evidence is written, because there is none."""
    reason = "; ".join(map(str, error.faults))
    if options.as_json:
        none = (not_run(subject, reason) for subject in subjects)
        judged = judged_documents(none, options.level, rewritten_variants(bundle))
        where = {**_file_documents(options.bundle, bundle), "device": None, "evidence": None}
        print(json.dumps({"schema": DOCUMENT, "level": options.level, **where, "reason": reason, **judged}))
    else:
        printing.print_not_run(subjects)
        print(f"NOT RUN: {2 * len(subjects)} checks; no evidence was written")
    _warn(error)
    return STATUS[NOT_RUN]


def _warn(error: BaseException) -> None:
    for line in str(error).splitlines():
        print(line, file=sys.stderr)
