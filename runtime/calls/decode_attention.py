"""Decode attention over a paged cache, as one call: stage 1 and the merge, or one kernel where nothing is split.

out = softmax(sm_scale * q @ K^T) @ V        for each request over the keys that its query sees
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..frameworks import empty, is_torch, signature, stream_handle, used_on
from ..overlaps import may_overlap
from ..prepared import Kept
from .decode_call import (
    INDICES,
    NAMES,
    WORKSPACE,
    WRITTEN_BITS,
    WRITTEN_INDICES,
    Inputs,
    Options,
    Plan,
    numbers,
    numbers_hold,
)  # fmt: skip

if TYPE_CHECKING:
    from ..drivers.driver import Driver
    from ..executing import Executor
    from .bound_decode import BoundDecode
    from .decode_fast import FastPlan
    from .decode_planning import Planner
    from .short_planning import ShortPlanner

# Shapes come and go with the batch; when this many are known the oldest half is forgotten.
_PLANS_KEPT = 2048
_NOT_MADE: Any = object()


class DecodeAttention:
    """The calls of one loaded bundle.  Safe to use from several threads."""

    def __init__(
        self, driver: Driver, executor: Callable[[], Executor], short: ShortPlanner | None, *, debug: bool = False
    ):
        """executor: made when it is first asked for; calls that `short` plans do without.  short: None for none."""
        self._driver = driver
        self._executor = executor
        self._short = short
        self._debug = debug
        self._plans: Kept[Plan | None] = Kept(_PLANS_KEPT)
        self._fast_plans: Kept[FastPlan | None] = Kept(_PLANS_KEPT)
        self._guard = driver.check_usable

    def run(self, inputs: Inputs, options: Options, sm_scale: float, stream: Any) -> Any:
        """Launch the call's kernels; returns `out`.  Raises before anything is launched."""
        if options.splits is not None and type(options.splits) is not int:
            # 2.0 and True would be found under the key of 2 and 1.
            raise _argument_error("num_splits", repr(options.splits), "an integer")
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
        inputs, plan, addresses = self._ready(inputs, options, sm_scale, None, whole=True)
        from .bound_decode import BoundDecode

        if plan is None:
            return BoundDecode(inputs, (), ())
        scalars = (numbers(options, sm_scale), ())
        starts = [
            stage.bind(pick(addresses), given)
            for stage, pick, given in zip(plan.stages, plan.picks, scalars, strict=False)
        ]
        return BoundDecode(inputs, tuple(starts), plan.stages)

    def _ready(
        self, inputs: Inputs, options: Options, sm_scale: float, stream: int | None, *, whole: bool = False
    ) -> tuple[Inputs, Plan | None, list[int]]:
        """Tensors with those made here, plan, and addresses.  No plan: there is no request to answer.

        whole: the plan's rows must have all of their fields, as somebody will look at them.
        """
        self._guard()
        signatures, addresses = _signatures(inputs)
        key, keys = self._key(signatures, options)
        plan = self._plans.get(key, _NOT_MADE)
        if plan is _NOT_MADE or (whole and plan is not None and not plan.whole):
            plan = None
            if self._short is not None and not whole:
                plan = self._short.make(inputs, options, sm_scale, signatures, addresses)
            plan = plan or self._planner.make(inputs, options, sm_scale)
            self._plans.keep(key, plan)
        if not numbers_hold(options, sm_scale):
            from .decode_checks import number_error

            raise number_error(options, sm_scale)
        if plan is None:
            return inputs, None, addresses
        if may_overlap(addresses, plan.extents(keys), WRITTEN_INDICES):
            self._planner.check_overlaps(inputs)
        if plan.parts.size and inputs.workspace is None:
            inputs = inputs._replace(workspace=empty(inputs.q, (plan.parts.size,), "uint8", "workspace", stream))
            addresses[WORKSPACE] = signature(inputs.workspace)[1]
        plan.complete(addresses)
        if self._debug:
            self._planner.check_contents(inputs, plan)
        return inputs, plan, addresses

    @cached_property
    def _planner(self) -> Planner:
        from .decode_planning import Planner  # Here and not above: a call that is planned the short way does without.

        return Planner(self._executor())

    @cached_property
    def _read(self) -> Callable[..., Any] | None:
        """What the C path reads a call's tensors with; None where calls cannot go that way."""
        from .. import fast

        usable = fast.module is not None and not self._debug and not self._driver.watches_memory
        return fast.module.read if fast.module is not None and usable else None

    def _make_fast(self, key: Hashable, plan: Plan) -> FastPlan | None:
        """The plan for the C path, kept under `key`."""
        from .decode_fast import FastPlan

        made = FastPlan.of(plan, self._driver)
        self._fast_plans.keep(key, made)
        return made

    def _key(self, signatures: list[Any], options: Options) -> tuple[Hashable, int]:
        """All that decides the plan, and the length of `indices`."""
        parts, seen = signatures.copy(), signatures[INDICES]
        keys = seen[1][0] if seen and seen[1] else 0
        if seen and not self._driver.watches_memory:
            parts[INDICES] = _without_length(seen, chosen_here=options.splits is None)
        # A window's length and a cap are numbers of the call; only whether there is one decides the row.
        return (options.window is None, options.logit_cap is None, *options[2:], *parts), keys


def _signatures(inputs: Inputs) -> tuple[list[Any], list[int]]:
    """What of each tensor decides the plan, None where there is none, and its address, 0 then."""
    signatures: list[Any] = []
    addresses: list[int] = []
    for name, tensor in zip(NAMES, inputs, strict=True):
        try:
            seen, address = (None, 0) if tensor is None else signature(tensor)
        except TypeError as error:
            raise _no_tensor(name, error) from None
        signatures.append(seen)
        addresses.append(address)
    return signatures, addresses


def _new_out(q: Any, stream: int | None) -> Any:
    if is_torch(q):
        return empty(q, tuple(q.shape), "bfloat16", "out", stream)
    from ..tensors import NotATensor, view  # Here and not above: calls on torch tensors do without.

    try:
        shape = view(q).shape
    except NotATensor as error:
        raise _no_tensor("q", error) from None
    return empty(q, shape, "bfloat16", "out", stream)


def _no_tensor(name: str, error: TypeError) -> Exception:
    from ..tensors import TENSORS, NotATensor

    return _argument_error(name, str(error), TENSORS) if isinstance(error, NotATensor) else error


def _argument_error(*fault: str) -> Exception:
    from assay.bundle.faults import Fault  # Here and not above: a call that is served does without them.

    from ..errors import ArgumentError

    return ArgumentError([Fault(*fault)])


def _without_length(seen: Any, *, chosen_here: bool) -> Hashable:
    """The signature of `indices` without its length, which changes with every token.

    Where the number of splits is chosen here the length counts, but only roughly.
    """
    dtype, shape, *rest = seen
    # One element or none has no stride that matters, so those lengths count always.
    length = shape[0] if len(shape) == 1 else 0
    keys = length if length <= 1 else length.bit_length() if chosen_here else 2
    return (dtype, len(shape), keys, *rest)
