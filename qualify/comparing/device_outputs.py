"""Both sides of a pair launched on one device through the runtime, each from its own bundle."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from assay.reference import Case, NoReference

from ..device.calls import case_calls
from ..device.memory import Placed
from ..device.opening import DEVICE_ERRORS, Opened, first_line, forced_on_purpose, open_device
from .case_sets import made_cases
from .output_bits import first_difference, outcome, told
from .records import Built


class DeviceRuns:
    """Two sides opened on a device. Use as a context manager."""

    def __init__(self, left: Path, right: Path, device: str):
        """Raises BadRequest for a device of no such name, NotAvailable where a side cannot be opened on it."""
        with contextlib.ExitStack() as stack:
            self._sides = [stack.enter_context(open_device(path, device)) for path in (left, right)]
            self._stack = stack.pop_all()

    def __enter__(self) -> DeviceRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def compare(self, left: Built, right: Built, case_set: str) -> dict[str, Any]:
        """As emulated_outputs.compare_in_worker."""
        problem = dict(left.record.problem)
        count = 0
        try:
            for case in made_cases(left.row.family, problem, case_set):
                done = [_launched(*one, case) for one in zip(self._sides, (left, right), strict=True)]
                faults = [one if isinstance(one, str) else "" for one in done]
                if any(faults):
                    return outcome(count, fault=told(case.name, *faults), one_sided=not all(faults))
                count += 1
                (one, dtypes), (other, _) = done
                if difference := first_difference(one, other, dtypes):
                    return outcome(count, difference=difference)
        except NoReference as error:
            return outcome(count, fault=str(error))
        return outcome(count)


def _launched(opened: Opened, built: Built, case: Case) -> tuple[Case, dict[str, str]] | str:
    """The case after one launch of that row, and its outputs' types; or what the device or the runtime refused."""
    try:
        (call,) = case_calls(opened.kernels, built.row.family, dict(built.record.problem), built.row.id, [case])
        placed = Placed(opened.memory, case)
        with forced_on_purpose():
            call.start(placed.views)
        opened.memory.synchronize()
        return placed.fetched(), dict(call.dtypes)
    except DEVICE_ERRORS as error:
        return first_line(error)
