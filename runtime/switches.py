"""What the environment of a process says of rows: its kill switch."""

import os

from assay.bundle.faults import Fault
from assay.bundle.records import Row

from .choosing import Chooser
from .errors import ArgumentError

FORBID_SWITCH = "ASSAY_FORBID_ROWS"


def switched_off(kernels: Chooser) -> tuple[str, ...]:
    """Rows that the environment forbids: ids, or axis=value for every row built with it (reader=packed)."""
    given = [item.strip() for item in os.environ.get(FORBID_SWITCH, "").split(",") if item.strip()]
    if not given:
        return ()
    rows = [row for family in kernels.families() for row in kernels.rows_if_any(family)]
    found: list[str] = []
    for item in given:
        matching = [row.id for row in rows if _matches(kernels, row, item)]
        if not matching:
            raise ArgumentError(
                [Fault(FORBID_SWITCH, f"{item} matches no row of this bundle", "row ids, or axis=value")]
            )
        warn(f"{FORBID_SWITCH}={item} forbids {len(matching)} rows: {', '.join(matching[:8])}")
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
