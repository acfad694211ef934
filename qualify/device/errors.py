"""Why nothing was judged; each has its own exit status."""

from __future__ import annotations

from assay.bundle.faults import FaultsError


class BadRequest(FaultsError):
    """A bundle, device name or selection that cannot be meant; exit status 2."""


class NotAvailable(FaultsError):
    """The device, its driver or a package is not here: nothing was run; exit status 4."""


class RetargetError(FaultsError):
    """Variants that cannot be rewritten or assembled, or do not fit the other GPU; exit status 1."""
