"""A side that is a lock file: figures, launch and verdicts of each variant, and no code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.bundle import Fault

from ..lock import LockError, LockRow, read_lock
from ..verification import file_fault
from .errors import CompareError
from .records import Entry


def lock_entries(path: Path) -> tuple[list[Entry], dict[str, Mapping[str, Any]], str]:
    """Every row of a lock, its compiler build by target, and its profile.  Raises CompareError."""
    if fault := file_fault(path):
        raise CompareError(fault)
    try:
        lock = read_lock(path)
    except LockError as error:
        raise CompareError(error.faults) from None
    if lock is None:
        raise CompareError(Fault(str(path), "was there, and is no longer", "a lock file"))
    entries = [_entry(lock.target, row) for row in lock.rows]
    return entries, {lock.target: lock.toolchain.to_dict()}, f"profile {lock.profile}"


def _entry(target: str, row: LockRow) -> Entry:
    family, _, problem = row.key.partition(" ")
    return Entry(
        target=target,
        family=family,
        problem=tuple(_items(problem.split())),
        launch=dict(_items(row.launch.split())),
        figures=dict(row.figures),
        evidence=dict(_items(row.evidence.split())),
    )


def _items(parts: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (part.partition("=") for part in parts)]
