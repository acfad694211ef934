"""What each instruction does, one module an encoding or a kind of operation.  Importing this registers all of them."""

from . import (
    atomics,
    buffer,
    control,
    cross_lane,
    ds,
    ds_lanes,
    global_memory,
    scratch,
    smem,
    sop,
    vop,
    vop3p,
    vopc,
    vopd,
    wmma,
)

__all__ = [
    "atomics",
    "buffer",
    "control",
    "cross_lane",
    "ds",
    "ds_lanes",
    "global_memory",
    "scratch",
    "smem",
    "sop",
    "vop",
    "vop3p",
    "vopc",
    "vopd",
    "wmma",
]
