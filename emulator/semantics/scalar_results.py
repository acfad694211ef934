"""How scalar ALU results are written, and what becomes of SCC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..instruction import EXEC, NULL
from ..registry import Step
from ..state import Group
from .constants import width


def write_scalar(g: Group, register: int, kind: str, value: np.ndarray) -> None:
    """Write a scalar register or an aligned pair; NULL swallows it, EXEC takes effect at once."""
    if register == NULL:
        return
    if width(kind) == 64:
        g.s64[register][...] = value.view(np.uint64)
    elif kind == "i32":
        g.si[register][...] = value
    elif kind == "f32":
        g.sf[register][...] = value
    elif width(kind) == 16:
        # A 16-bit scalar result fills the register (RDNA4 ISA: 'D0[31:16] = 0' for scalar half floats).
        g.s[register][...] = value.view(np.uint16)
    else:
        g.s[register][...] = value
    if register == EXEC:
        g.refresh_exec()


def scalar_step(compute: Callable, kind: str, register: int, rule: str) -> Step:
    """The step that writes `compute(g)`. Rules for SCC: `given` (compute returns both), `nonzero`, `kept`."""
    if rule == "given":

        def run(g: Group) -> None:
            value, condition = compute(g)
            write_scalar(g, register, kind, value)
            g.scc[...] = condition

    elif rule == "nonzero":

        def run(g: Group) -> None:
            value = compute(g)
            g.scc[...] = value != 0
            write_scalar(g, register, kind, value)

    else:

        def run(g: Group) -> None:
            write_scalar(g, register, kind, compute(g))

    return run
