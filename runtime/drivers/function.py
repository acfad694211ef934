"""A kernel as a row wants it, and as a driver has loaded it."""

from __future__ import annotations

from typing import Any


class Wanted:
    """What a row says of its kernel.

    label: the row, for messages.  lds_bytes: dynamic shared memory at launch.  threads: of a workgroup.
    arguments: (offset, size) of each in bytes, hidden ones included.  dependent: it may be launched while the kernel
    before it still runs, as it waits by itself.
    """

    __slots__ = ("arguments", "dependent", "label", "lds_bytes", "symbol", "threads")

    def __init__(
        self,
        label: str,
        symbol: str,
        lds_bytes: int,
        threads: int,
        arguments: tuple[tuple[int, int], ...],
        dependent: bool = False,
    ):
        self.dependent = dependent
        self.label = label
        self.symbol = symbol
        self.lds_bytes = lds_bytes
        self.threads = threads
        self.arguments = arguments


class Function:
    """What was wanted, loaded on one device.  `handle` and `module` mean something to its driver alone."""

    __slots__ = ("dependent", "handle", "label", "lds_bytes", "module", "threads")

    def __init__(self, handle: Any, module: Any, wanted: Wanted):
        self.handle = handle
        self.module = module
        self.label = wanted.label
        self.lds_bytes = wanted.lds_bytes
        self.threads = wanted.threads
        self.dependent = wanted.dependent
