"""What drivers raise."""

from __future__ import annotations

from ..errors import AssayRuntimeError


class DriverError(AssayRuntimeError):
    """The driver refused something.  `.call` is its function, `.code` its own error number, `.name` that one's name."""

    def __init__(self, call: str, code: int, name: str, said: str, doing: str):
        super().__init__(f"{doing}: {call} failed with {name} ({code})" + (f": {said}" if said else ""))
        self.call = call
        self.code = code
        self.name = name


class NoDriverError(AssayRuntimeError):
    """The driver's library is not here, too old, or sees no such device.  Nothing was loaded."""


class ForkedError(AssayRuntimeError):
    """The kernels were loaded before this process was forked off; driver handles do not survive that."""


class ClosedError(AssayRuntimeError):
    """The kernels were closed: their code is unloaded, and nothing can be launched any more."""


class MismatchError(AssayRuntimeError):
    """The loaded kernel is not what its row says: other arguments, fewer threads, more shared memory."""
