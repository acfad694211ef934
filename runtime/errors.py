"""What the runtime raises. One root, so that a serving engine catches one class."""

from __future__ import annotations

from assay.bundle.table import NoMatch, Verdict


class AssayRuntimeError(Exception):
    """Root of everything `assay.runtime` raises on purpose."""


class BundleLoadError(AssayRuntimeError):
    """The bundle cannot be opened: missing, damaged, or of another version. Nothing was loaded."""


class ArchitectureError(BundleLoadError):
    """No code for the device, or code for several architectures and no device named. Nothing was loaded."""


class UnknownFamilyError(AssayRuntimeError):
    """The bundle has no such family."""


class UnknownRowError(AssayRuntimeError):
    """`force_row` or `forbid_rows` names a row that the bundle does not have."""


class NoMatchError(AssayRuntimeError):
    """No row serves the request. `.verdicts` holds every row of the family, nearest first; `str` lists them all."""

    def __init__(self, no_match: NoMatch):
        super().__init__(no_match)
        self.verdicts: tuple[Verdict, ...] = no_match.verdicts


class ObjectError(AssayRuntimeError):
    """A row serves the request, but its code object is damaged. No other row is taken in its place."""
