"""Decode attention over a paged cache, as one call: stage 1 and the merge, or one kernel where nothing is split.

out = softmax(sm_scale * q @ K^T) @ V        for each request over the keys that its query sees
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.bundle.faults import Fault

from ..errors import ArgumentError
from ..executing import Executor
from ..launching import Prepared
from ..overlaps import may_overlap
from ..tensors import TENSORS, NotATensor, view
from . import decode_checks
from .decode_call import INDICES, NAMES, WORKSPACE, WRITTEN_BITS, WRITTEN_INDICES, Inputs, Options, numbers
from .decode_planning import Plan, Planner
from .frameworks import empty, stream_handle, used_on
from .signature import Kept, signature

if TYPE_CHECKING:
    from .decode_fast import FastPlan

# Shapes come and go with the batch; when this many are known the oldest half is forgotten.
_PLANS_KEPT = 2048
_NOT_MADE: Any = object()


class DecodeAttention:
    """The calls of one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._planner = Planner(executor)
        self._plans: Kept[Plan | None] = Kept(_PLANS_KEPT)
        self._fast_plans: Kept[FastPlan | None] = Kept(_PLANS_KEPT)
        self._guard = executor.driver.check_usable

    def run(self, inputs: Inputs, options: Options, sm_scale: float, stream: Any) -> Any:
        """Launch the call's kernels; returns `out`.  Raises before anything is launched."""
        if options.splits is not None and type(options.splits) is not int:
            # 2.0 and True would be found under the key of 2 and 1.
            raise ArgumentError([Fault("num_splits", repr(options.splits), "an integer")])
        # None where the framework's own current stream is meant.
        handle = None if stream is None else stream_handle(stream, inputs.q)
        if inputs.out is None and inputs.q is not None:
            inputs = inputs._replace(out=_new_out(inputs.q, handle))
            if handle is not None:
                used_on(inputs.out, None)
        key = None
        loose = 2 if options.splits is None else 1
        # The C path is for calls that come again: what the first one of all would spend on it delays its result.
        if self._plans and self._read and (read := self._read(inputs, INDICES, loose, WRITTEN_BITS)):
            key = (read[0], options.window is None, options.logit_cap is None, options.splits, options.steering)
            self._guard()
            if (found := self._fast_plans.get(key)) and found.run(inputs, options, sm_scale, handle, read[1]):
                return inputs.out
        inputs, plan, addresses = self._ready(inputs, options, sm_scale, handle)
        if plan is None:
            return inputs.out
        handle = stream_handle(None, inputs.q) if handle is None else handle
        if key is not None and plan.launched and key not in self._fast_plans:
            made = self._make_fast(key, plan)
            if made and made.run(inputs, options, sm_scale, handle, struct.pack(f"<{len(addresses)}Q", *addresses)):
                return inputs.out
        scalars = numbers(options, sm_scale)
        for stage, pick in zip(plan.stages, plan.picks, strict=True):
            stage.launch(pick(addresses), scalars, handle)
            scalars = ()
        plan.launched = True
        return inputs.out

    def bind(self, inputs: Inputs, options: Options, sm_scale: float) -> BoundDecode:
        """The call with all checks done, to be launched again and again on the same memory."""
        if inputs.out is None and inputs.q is not None:
            inputs = inputs._replace(out=_new_out(inputs.q, None))
        inputs, plan, addresses = self._ready(inputs, options, sm_scale, None)
        if plan is None:
            return BoundDecode(inputs, (), ())
        scalars = (numbers(options, sm_scale), ())
        starts = [
            stage.bind(pick(addresses), given)
            for stage, pick, given in zip(plan.stages, plan.picks, scalars, strict=False)
        ]
        return BoundDecode(inputs, tuple(starts), plan.stages)

    def _ready(
        self, inputs: Inputs, options: Options, sm_scale: float, stream: int | None
    ) -> tuple[Inputs, Plan | None, list[int]]:
        """Tensors with those made here, plan, and addresses.  No plan: there is no request to answer."""
        self._guard()
        key, addresses, keys = self._key(inputs, options)
        plan = self._plans.get(key, _NOT_MADE)
        if plan is _NOT_MADE:
            plan = self._planner.make(inputs, options, sm_scale)
            self._plans.keep(key, plan)
        _check_numbers(options, sm_scale)
        if plan is None:
            return inputs, None, addresses
        if may_overlap(addresses, plan.extents(keys), WRITTEN_INDICES):
            self._planner.check_overlaps(inputs)
        if plan.parts.size and inputs.workspace is None:
            inputs = inputs._replace(workspace=empty(inputs.q, (plan.parts.size,), "uint8", "workspace", stream))
            addresses[WORKSPACE] = signature(inputs.workspace)[1]
        plan.complete(addresses)
        if self._executor.debug:
            self._planner.check_contents(inputs, plan)
        return inputs, plan, addresses

    @cached_property
    def _read(self) -> Callable[..., Any] | None:
        """What the C path reads a call's tensors with; None where calls cannot go that way."""
        from .. import fast

        usable = fast.module is not None and not self._executor.debug and not self._executor.driver.watches_memory
        return fast.module.read if fast.module is not None and usable else None

    def _make_fast(self, key: Hashable, plan: Plan) -> FastPlan | None:
        """The plan for the C path, kept under `key`."""
        from .decode_fast import FastPlan

        made = FastPlan.of(plan, self._executor.driver)
        self._fast_plans.keep(key, made)
        return made

    def _key(self, inputs: Inputs, options: Options) -> tuple[Hashable, list[int], int]:
        """All that decides the plan, every tensor's address (0 where there is none), and the length of `indices`."""
        parts: list[Hashable] = []
        addresses: list[int] = []
        for name, tensor in zip(NAMES, inputs, strict=True):
            if tensor is None:
                parts.append(None)
                addresses.append(0)
                continue
            try:
                seen, address = signature(tensor)
            except NotATensor as error:
                raise _no_tensor(name, error) from None
            parts.append(seen)
            addresses.append(address)
        seen: Any = parts[INDICES]
        keys = seen[1][0] if seen and seen[1] else 0
        if seen and not self._executor.driver.watches_memory:
            parts[INDICES] = _without_length(seen, chosen_here=options.splits is None)
        # A window's length and a cap are numbers of the call; only whether there is one decides the row.
        return (options.window is None, options.logit_cap is None, *options[2:], *parts), addresses, keys


class BoundDecode:
    """A call with its checks done: `launch()` starts it again on the same memory.  Keeps its tensors alive.

    The tensors' contents may change between launches, and indptr, indices and positions with them; shapes and addresses
    may not.  `out` and `workspace` are the tensors in use.  Of each kernel (stage 1 and the merge, or the unsplit one;
    none where there is no request) `starts` launch one, given a stream's handle, and `stages` tell row, function, grid.
    """

    __slots__ = ("_inputs", "_streams", "stages", "starts")

    def __init__(self, inputs: Inputs, starts: tuple[Callable[[int], None], ...], stages: tuple[Prepared, ...]):
        self._inputs = inputs
        self.starts = starts
        self.stages = stages
        # Streams that the framework was told of: once is enough, it waits for them when the memory is given back.
        self._streams: set[int] = set()

    @property
    def out(self) -> Any:
        """The output, of q's shape."""
        return self._inputs.out

    @property
    def workspace(self) -> Any:
        """The workspace; None where the caller gave all buffers."""
        return self._inputs.workspace

    def launch(self, stream: Any = None) -> Any:
        """Start the kernels; returns `out`.  stream: as the call takes it."""
        handle = stream_handle(stream, self._inputs.q)
        if stream is not None and handle not in self._streams:
            used_on(self._inputs.out, handle)
            used_on(self._inputs.workspace, handle)
            self._streams.add(handle)
        for start in self.starts:
            start(handle)
        return self._inputs.out


def _new_out(q: Any, stream: int | None) -> Any:
    try:
        shape = view(q).shape
    except NotATensor as error:
        raise _no_tensor("q", error) from None
    return empty(q, shape, "bfloat16", "out", stream)


def _no_tensor(name: str, error: NotATensor) -> ArgumentError:
    return ArgumentError([Fault(name, str(error), TENSORS)])


def _without_length(seen: Any, *, chosen_here: bool) -> Hashable:
    """The signature of `indices` without its length, which changes with every token.

    Where the number of splits is chosen here the length counts, but only roughly.
    """
    dtype, shape, *rest = seen
    # One element or none has no stride that matters, so those lengths count always.
    length = shape[0] if len(shape) == 1 else 0
    keys = length if length <= 1 else length.bit_length() if chosen_here else 2
    return (dtype, len(shape), keys, *rest)


def _check_numbers(options: Options, sm_scale: Any) -> None:
    """What changes from call to call without changing the plan.  Raises ArgumentError."""
    faults = decode_checks.window_faults(options.window) + decode_checks.cap_faults(options.logit_cap)
    faults += decode_checks.scale_faults(sm_scale)
    if faults:
        raise ArgumentError(faults)
