"""The long way to load a bundle: it says what is wrong, and it is for what `kernels.load` has no short way for."""

from __future__ import annotations

import os

from assay.bundle.devices import ArchitectureMismatch, Device, matching_targets, pair_names
from assay.bundle.faults import BundleError, Fault
from assay.bundle.opening import Opened
from assay.bundle.reader import Bundle
from assay.bundle.records import TargetRecord

from .errors import ArchitectureError, AssayRuntimeError, BundleLoadError


def whole_bundle(path: str | os.PathLike[str], *, companion: bool) -> Bundle:
    """The bundle at `path`, open.  Raises BundleLoadError."""
    try:
        return Bundle.open(path, companion=companion)
    except BundleError as error:
        raise BundleLoadError(str(error)) from error


def bundle_of(opened: Opened | None) -> Bundle:
    """A bundle that was opened the short way, with all that can be read of it.  Raises AssayRuntimeError."""
    try:
        return Bundle.of(opened)
    except BundleError as error:
        raise AssayRuntimeError(str(error)) from error


def installed(name: str) -> str | os.PathLike[str]:
    """The installed bundle of that name.  Raises BundleLoadError."""
    from .installed import installed_path  # Here and not above: it imports much of the standard library.

    try:
        return installed_path(name)
    except BundleError as error:
        raise BundleLoadError(str(error)) from error


def matching(bundle: Bundle, device: Device | None) -> tuple[TargetRecord, ...]:
    """The bundle's targets whose code runs on the device.  Raises ArchitectureError."""
    try:
        return _matching(bundle, device)
    except ArchitectureMismatch as error:
        raise ArchitectureError(str(error)) from error


def _matching(bundle: Bundle, device: Device | None) -> tuple[TargetRecord, ...]:
    targets = bundle.manifest.targets
    if device is not None:
        return matching_targets(targets, device, str(bundle.path))
    if len({(target.backend, target.arch) for target in targets}) > 1:
        fault = Fault(
            str(bundle.path), "holds several architectures", ", ".join(pair_names(targets)), "name one as device="
        )
        raise ArchitectureMismatch(fault)
    return targets
