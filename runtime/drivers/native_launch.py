"""What the launch path in C needs to start a kernel itself."""

from __future__ import annotations

from assay.bundle.record import Record


class NativeLaunch(Record):
    """Addresses of C functions, and what must be current for them.  kind: as _fast.c has it.

    current: the context that `get_current` must give (CUDA), or the device's ordinal (HIP).
    """

    __slots__ = ()

    kind: int
    launch: int
    get_current: int
    current: int
    function: int
