"""A decode call through the launch path in C: its kernels' recipes, and what a call of a known shape still does."""

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

    __slots__ = ("launches", "plan", "workspace_bytes")

    def __init__(self, launches: tuple[FastLaunch, ...], plan: Plan):
        self.launches = launches
        self.workspace_bytes = plan.parts.size
        self.plan = plan

    @classmethod
    def of(cls, plan: Plan, driver: Driver) -> FastPlan | None:
        """The plan for the C path; None where the driver has none."""
        launches = []
        for prepared in plan.stages:
            native = driver.native_launch(prepared.function)
            if native is None or fast.module is None:
                return None
            sources = [_source(plan, name) for name in prepared.pointer_names]
            launches.append(FastLaunch(prepared, fast.module.launch, native, sources))
        return cls(tuple(launches), plan)

    def run(self, inputs: Inputs, options: Options, sm_scale: float, stream: int | None, addresses: bytes) -> bool:
        """Launch the kernels.  False: nothing was launched, and the slow path must see to it.

        stream: None for the framework's current one.
        """
        if not is_window(options.window) or not is_cap(options.logit_cap):
            return False
        handle = stream_handle(None, inputs.q) if stream is None else stream
        if self.workspace_bytes and inputs.workspace is None:
            # It is the last of the tensors, and so of the addresses.
            workspace = empty(inputs.q, (self.workspace_bytes,), "uint8", "workspace", stream)
            addresses = addresses[:-8] + signature(workspace)[1].to_bytes(8, "little")
        first, *later = self.launches
        if first(addresses, numbers(options, sm_scale), handle):
            return False
        for launch, stage, pick in zip(later, self.plan.stages[1:], self.plan.picks[1:], strict=True):
            if launch(addresses, (), handle):
                filled = list(struct.unpack(f"<{len(NAMES)}Q", addresses))
                self.plan.complete(filled)
                stage.launch(pick(filled), (), handle)
        return True


def _source(plan: Plan, name: str) -> Address:
    """Where the C path finds a pointer."""
    if name == "num_kv_splits" and plan.counts:
        return Address(-1, plan.counts)
    offset = {"partial_out": plan.parts.partial_out, "partial_lse": plan.parts.partial_lse, "lse": plan.parts.lse}
    if offset.get(name, -1) >= 0:
        return Address(WORKSPACE, offset[name])
    return Address(NAMES.index(name), 0)
