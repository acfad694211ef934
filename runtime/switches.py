"""What the environment of a process says of rows: its kill switch."""

from __future__ import annotations

from assay.bundle.faults import Fault
from assay.bundle.records import Row

from .choosing import Chooser
from .errors import ArgumentError


def switched_off(kernels: Chooser, switch: str, value: str) -> tuple[str, ...]:
    """Rows that the environment's `switch` forbids: ids, or axis=value for every row built with it (reader=packed)."""
    given = [item.strip() for item in value.split(",") if item.strip()]
    if not given:
        return ()
    rows = [row for family in kernels.families() for row in kernels.rows_if_any(family)]
    found: list[str] = []
    for item in given:
        matching = [row.id for row in rows if _matches(kernels, row, item)]
        if not matching:
            raise ArgumentError([Fault(switch, f"{item} matches no row of this bundle", "row ids, or axis=value")])
        warn(f"{switch}={item} forbids {len(matching)} rows: {', '.join(matching[:8])}")
        found += matching
    return tuple(found)


def _matches(kernels: Chooser, row: Row, item: str) -> bool:
    axis, equals, value = item.partition("=")
    if not equals:
        return row.id == item
    built = kernels.variant(row.id).problem.get(axis)
    spelled = str(built).lower() if isinstance(built, bool) else str(built)
    return built is not None and spelled == value


def warn(message: str) -> None:
    """Say it loudly: a forced or forbidden row is not what the bundle would choose."""
    import logging  # Rarely needed, and a third of what importing this package would cost.

    logging.getLogger("assay.runtime").warning("%s", message)
