"""The rows' kernels on one device: each loaded at its first call, and how often each was launched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from assay.bundle.launches import DEPENDENT_LAUNCH

if TYPE_CHECKING:
    from .drivers.driver import Driver
    from .drivers.function import Function
    from .prepared import AnyRow


class Loaded:
    """What of one bundle is loaded on one device.  Safe to use from several threads."""

    def __init__(self, driver: Driver, code: Callable[[Any], bytes], lds_limits: Mapping[str, int]):
        """code: a row's code object; lds_limits: shared memory of a workgroup in bytes, by the target's name."""
        self._driver = driver
        self._code = code
        self._lds_limits = lds_limits
        self._functions: dict[str, Function] = {}
        self._used: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def function(self, row: AnyRow) -> Function:
        """The row's kernel on this device, loaded at the first call.  Raises ObjectError and the driver's errors."""
        found = self._functions.get(row.id)
        if found is not None:
            return found
        with self._lock:
            if row.id not in self._functions:
                self._functions[row.id] = self._load(row)
            return self._functions[row.id]

    def used(self, row_id: str) -> list[int]:
        """The counter of the row's launches, to be counted up."""
        return self._used.setdefault(row_id, [0])

    def usage(self) -> dict[str, int]:
        """How often each row was launched, by its id."""
        return {id: count for id, (count,) in sorted(self._used.items()) if count}

    def close(self) -> None:
        """Unload everything and give the device up.  Never raises."""
        with self._lock:
            for function in self._functions.values():
                self._driver.unload(function)
            self._functions.clear()
            self._driver.close()

    def _load(self, row: AnyRow) -> Function:
        from .drivers.function import Wanted

        label = f"{row.family}/{row.id} ({row.symbol})"
        limit = min(self._lds_limits[row.target], self._driver.lds_limit)
        if row.lds_bytes > limit:
            from assay.bundle.faults import Fault  # Here and not above: a first call does without them.

            from .errors import ArgumentError

            raise ArgumentError([Fault(f"shared memory of {label}", f"{row.lds_bytes} bytes", f"at most {limit}")])
        arguments = tuple((a.offset, a.size) for a in row.arguments)
        threads, dependent = row.num_warps * row.wavefront_size, row.launch.get(DEPENDENT_LAUNCH) is True
        wanted = Wanted(label, row.symbol, row.lds_bytes, threads, arguments, dependent)
        return self._driver.load(self._code(row), wanted)
