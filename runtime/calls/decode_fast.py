"""A decode call through the launch path in C: both kernels' recipes, and what a call of a known shape still does."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .. import fast
from ..frameworks import empty, signature, stream_handle
from ..recipes import Address, FastLaunch
from .decode_call import NAMES, WORKSPACE, Inputs, Options, Plan, is_cap, is_window, numbers

if TYPE_CHECKING:
    from ..drivers.driver import Driver


class FastPlan:
    """A plan's launches through the C path.  workspace_bytes: what a call without a workspace must allocate."""

    __slots__ = ("merge", "plan", "stage_1", "workspace_bytes")

    def __init__(self, stage_1: FastLaunch, merge: FastLaunch, plan: Plan):
        self.stage_1 = stage_1
        self.merge = merge
        self.workspace_bytes = plan.parts.size
        self.plan = plan

    @classmethod
    def of(cls, plan: Plan, driver: Driver) -> FastPlan | None:
        """The plan for the C path; None where the driver has none."""
        launches = []
        for prepared in (plan.stage_1, plan.merge):
            native = driver.native_launch(prepared.function)
            if native is None or fast.module is None:
                return None
            sources = [_source(plan, name) for name in prepared.pointer_names]
            launches.append(FastLaunch(prepared, fast.module.launch, native, sources))
        return cls(launches[0], launches[1], plan)

    def run(self, inputs: Inputs, options: Options, sm_scale: float, stream: int | None, addresses: bytes) -> bool:
        """Launch both stages.  False: nothing was launched, and the slow path must see to it.

        stream: None for the framework's current one.
        """
        if not is_window(options.window) or not is_cap(options.logit_cap):
            return False
        handle = stream_handle(None, inputs.q) if stream is None else stream
        if self.workspace_bytes and inputs.workspace is None:
            # It is the last of the tensors, and so of the addresses.
            workspace = empty(inputs.q, (self.workspace_bytes,), "uint8", "workspace", stream)
            addresses = addresses[:-8] + signature(workspace)[1].to_bytes(8, "little")
        if self.stage_1(addresses, numbers(options, sm_scale), handle):
            return False
        if self.merge(addresses, (), handle):
            filled = list(struct.unpack(f"<{len(NAMES)}Q", addresses))
            self.plan.complete(filled)
            self.plan.merge.launch(self.plan.pick_merge(filled), (), handle)
        return True


def _source(plan: Plan, name: str) -> Address:
    """Where the C path finds a pointer."""
    if name == "num_kv_splits" and plan.counts:
        return Address(-1, plan.counts)
    offset = {"partial_out": plan.parts.partial_out, "partial_lse": plan.parts.partial_lse, "lse": plan.parts.lse}
    if offset.get(name, -1) >= 0:
        return Address(WORKSPACE, offset[name])
    return Address(NAMES.index(name), 0)
