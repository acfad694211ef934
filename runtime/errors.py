"""What the runtime raises. One root, so that a serving engine catches one class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assay.bundle.faults import Fault

if TYPE_CHECKING:
    from assay.bundle.verdicts import NoMatch, Verdict


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


class UnknownFieldError(AssayRuntimeError):
    """The request has a field that is a condition of no row of the family: a misspelt one would go unnoticed.

    `.unknown` and `.known` are the names, sorted.
    """

    def __init__(self, message: str, unknown: tuple[str, ...], known: tuple[str, ...]):
        super().__init__(message, unknown, known)
        self.unknown = unknown
        self.known = known

    def __str__(self) -> str:
        return str(self.args[0])


class MissingFieldError(UnknownFieldError):
    """`supports` was asked too little: whether a row answers depends on fields that the request leaves out.

    `.missing` and `.known` are the names, sorted.  An UnknownFieldError, so that one clause catches wrong questions.
    """

    def __init__(self, message: str, missing: tuple[str, ...], known: tuple[str, ...]):
        super().__init__(message, (), known)
        self.args = (message, missing, known)
        self.missing = missing


class NoMatchError(AssayRuntimeError):
    """No row serves the request. `.verdicts` holds every row of the family, nearest first; `str` lists them all.

    Where the caller forced a row, `str` lists that one alone.
    """

    def __init__(self, no_match: NoMatch):
        super().__init__(no_match)
        self.verdicts: tuple[Verdict, ...] = no_match.verdicts


class ObjectError(AssayRuntimeError):
    """A row serves the request, but its code object is damaged. No other row is taken in its place."""


class ArgumentError(AssayRuntimeError, ValueError):
    """Arguments of a call that do not fit: `.faults` holds everything wrong at once, `str` lists it.

    Nothing was launched and no output was touched.
    """

    def __init__(self, faults: Iterable[Fault]):
        found = tuple(dict.fromkeys(faults))
        super().__init__(found)
        self.faults: tuple[Fault, ...] = found

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class NotLoadedError(AssayRuntimeError):
    """The bundle was loaded without a device to launch on: it can pick rows, but not run them."""
