"""What keeps a comparison from being made."""

from __future__ import annotations

from assay.bundle import FaultsError


class CompareError(FaultsError):
    """A side that is none, does not build or cannot be compared, or a rule that says nothing; exit status 2."""


class BuildEnvironmentError(FaultsError):
    """A side could not be built for a reason outside of it: no git, no compiler, a full disk; exit status 3."""
