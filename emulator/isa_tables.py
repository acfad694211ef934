"""tinygrad's tables of the RDNA4 instruction set, generated from AMD's own machine-readable ISA.

The one place that imports tinygrad, and it does so under an environment of its own: while it is imported tinygrad takes
variables of common names (`DEBUG`, `PROFILE`, `CACHELEVEL`, …) as numbers, and `make qualify PROFILE=full` exports one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_KEPT = ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "SYSTEMROOT")


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    callers = dict(os.environ)
    os.environ.clear()
    os.environ.update({name: callers[name] for name in _KEPT if name in callers})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(callers)


with _own_environment():
    from tinygrad.renderer.amd.dsl import AlignedSGPRField, BitField, FixedBitField, VGPRField
    from tinygrad.runtime.autogen.amd.rdna4 import ins
    from tinygrad.runtime.autogen.amd.rdna4.enum import SOP1Op, SOP2Op, SOPCOp, SOPKOp
    from tinygrad.runtime.autogen.amd.rdna4.operands import OPERANDS
    from tinygrad.runtime.autogen.amd.rdna4.str_pcode import PCODE

__all__ = [
    "OPERANDS",
    "PCODE",
    "AlignedSGPRField",
    "BitField",
    "FixedBitField",
    "SOP1Op",
    "SOP2Op",
    "SOPCOp",
    "SOPKOp",
    "VGPRField",
    "ins",
]
