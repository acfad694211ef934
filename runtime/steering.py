"""What a call says of the rows that it may take."""

from __future__ import annotations

from typing import Any

from assay.bundle.record import Record


class Steering(Record):
    """Which rows a call may take.  `force_row`: that row or none; `forbid_rows`: none of these."""

    __slots__ = ()

    force_row: str | None = None
    forbid_rows: tuple[str, ...] = ()


NOT_STEERED = Steering()


def steering_of(force_row: Any, forbid_rows: Any, fallback: Any = None) -> Steering:
    """What a call says of rows.  A fallback is checked here too: one that no call needs until a row is missing would
    otherwise be found out there.  Raises ArgumentError.
    """
    if force_row is None and fallback is None and type(forbid_rows) is tuple and not forbid_rows:
        return NOT_STEERED
    from .choosing import row_ids, steering_faults  # Here and not above: most calls take any row.

    faults = steering_faults(force_row, forbid_rows)
    if fallback is not None and not callable(fallback):
        from assay.bundle.faults import Fault

        faults.append(Fault("fallback", repr(fallback), "what can be called with this call's arguments, or None"))
    if faults:
        from .errors import ArgumentError

        raise ArgumentError(faults)
    forbidden = row_ids(forbid_rows)
    return Steering(force_row, forbidden) if force_row is not None or forbidden else NOT_STEERED
