"""One call on a device, launched once and replayed from a graph, and judged each time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.reference.judging import compare

from .calls import Call
from .memory import NoGraphs, Placed
from .opening import DEVICE_ERRORS, Opened, first_line

PASS, FAIL, NOT_RUN = "pass", "fail", "not_run"
DIRECT, GRAPH = "direct", "graph"


@dataclass(frozen=True, slots=True)
class Check:
    """One launch of one case.  how: DIRECT, or GRAPH for a replay.  rows: ids of the rows that answered.

    largest_error: absolute, of finite outputs; None where nothing was compared.  seconds: from launch to done.
    fault: why it did not pass, '' where it did.
    """

    case: str
    how: str
    verdict: str
    largest_error: float | None = None
    seconds: float | None = None
    rows: tuple[str, ...] = ()
    fault: str = ""


class Checking:
    """One call, its tensors on the device."""

    def __init__(self, opened: Opened, call: Call):
        self._memory = opened.memory
        self._call = call
        self._rows: tuple[str, ...] = ()
        self._placed: Placed | None = None
        self._expected: Mapping[str, Any] | None = None

    def launch(self) -> Check:
        """Launch and judge.  What the device or the runtime refuses is a failed check."""
        return self._check(DIRECT, lambda placed: lambda: self._start(placed))

    def replay(self) -> Check:
        """Capture the launch, put the outputs' poison back, replay and judge.  After `launch`, which loads the code."""
        if not self._rows:
            return Check(self._call.case.name, GRAPH, NOT_RUN, fault="the launch itself failed")
        return self._check(GRAPH, self._captured)

    def _start(self, placed: Placed) -> None:
        self._rows = self._call.start(placed.views)

    def _captured(self, placed: Placed) -> Callable[[], object]:
        replay = self._memory.capture(lambda: self._call.start(placed.views))
        placed.restore(self._call.case.outputs)
        return replay

    def _check(self, how: str, prepare: Callable[[Placed], Callable[[], object]]) -> Check:
        case = self._call.case
        try:
            placed = self._placed = self._placed or Placed(self._memory, case)
            start = prepare(placed)
            self._memory.synchronize()
            began = time.perf_counter()
            start()
            self._memory.synchronize()
            seconds = time.perf_counter() - began
            fetched = placed.fetched()
        except NoGraphs as error:
            return Check(case.name, how, NOT_RUN, fault=str(error))
        except DEVICE_ERRORS as error:
            return Check(case.name, how, FAIL, rows=self._rows, fault=first_line(error))
        before = {name: tensor.storage for name, tensor in case.tensors.items()}
        self._expected = self._expected or self._call.expected()
        result = compare(fetched, self._call.dtypes, self._expected, before, *self._call.tolerance)
        verdict = PASS if result.passed else FAIL
        # An infinite error is told by the fault; JSON has no number for it.
        error = result.largest_error if math.isfinite(result.largest_error or 0.0) else None
        return Check(case.name, how, verdict, error, seconds, self._rows, result.fault)
