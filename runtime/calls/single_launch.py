"""Calls of families that are one launch: what is checked once a shape, and what at every call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from assay.bundle.faults import Fault
from assay.bundle.record import Record

from ..errors import ArgumentError
from ..executing import Executor
from ..frameworks import signature, stream_handle
from ..overlaps import may_overlap
from ..prepared import Kept, Prepared
from ..steering import Steering
from ..tensors import TENSORS, NotATensor, TensorView

_PLANS_KEPT = 1024

Views = dict[str, TensorView]


class Call(Record):
    """What a call says apart from its tensors.

    facts: axis values; they count before those that the tensors tell.  scalars: the kernel's numbers, checked
    already: a later call of these shapes may bring others.  sizes: what else decides the launch.
    """

    __slots__ = ()

    facts: Mapping[str, Any]
    scalars: Mapping[str, float]
    sizes: Mapping[str, int]


class Shaped(Record):
    """A call as the kernel is to see it.

    views: those of the tensors given, and what stands in for others.  facts: axis values that the tensors tell.
    scalars: numbers that their shapes tell.  dims: sizes that no tensor has.
    """

    __slots__ = ()

    views: Views
    facts: Mapping[str, Any]
    scalars: Mapping[str, int]
    dims: Mapping[str, int]


class Family(Record):
    """What a family's calls need beyond its contract.

    shaped: what the kernel is to see of a call; raises ArgumentError.  contents: checks in debug mode what the tensors
    given hold; waits for the device.
    """

    __slots__ = ()

    name: str
    shaped: Callable[[Executor, Views, Call], Shaped]
    contents: Callable[[Executor, Views, Call], None]


class _Plan(Record):
    """views: of the tensors given.  extents: bytes of each, in their order.  written: at which places of it the kernel
    writes.  standing_in: addresses of what the call does not bring.  scalars: numbers that the shapes tell.
    """

    __slots__ = ()

    prepared: Prepared
    views: Views
    extents: tuple[int, ...]
    written: tuple[int, ...]
    standing_in: Mapping[str, int]
    scalars: Mapping[str, int]


class SingleLaunch:
    """One family's calls on one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor, family: Family):
        self._executor = executor
        self._family = family
        self._plans: Kept[_Plan] = Kept(_PLANS_KEPT)

    def run(self, tensors: Mapping[str, Any], call: Call, steering: Steering, stream: Any, like: str) -> None:
        """Launch the kernel.  Tensors that are None are not given.  like: whose framework's stream is the current one.

        Raises ArgumentError (everything wrong at once), NoMatchError or a driver's error; nothing was launched then.
        """
        given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        self._executor.driver.check_usable()
        seen, addresses = _signatures(given)
        key = (seen, tuple(call.facts.items()), tuple(call.scalars), tuple(call.sizes.items()), steering)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(given, call, steering)
            self._plans.keep(key, plan)
        if may_overlap([addresses[name] for name in plan.views], plan.extents, plan.written):
            self._executor.check_overlaps(self._family.name, _placed(plan.views, addresses))
        if self._executor.debug:
            self._family.contents(self._executor, _placed(plan.views, addresses), call)
        handle = stream_handle(stream, given[like])
        prepared = plan.prepared
        # A call without a token has an empty grid, which drivers refuse.
        if 0 not in prepared.grid:
            addresses |= plan.standing_in
            numbers = {**call.scalars, **plan.scalars}
            pointers = [addresses[name] for name in prepared.pointer_names]
            prepared.launch(pointers, [numbers[name] for name in prepared.scalar_names], handle)

    def _plan(self, tensors: Mapping[str, Any], call: Call, steering: Steering) -> _Plan:
        family = self._family.name
        shaped = self._family.shaped(self._executor, self._executor.views(family, tensors), call)
        scalars, facts = {**call.scalars, **shaped.scalars}, {**shaped.facts, **call.facts}
        prepared = self._executor.prepare(family, shaped.views, scalars, facts, steering, shaped.dims)
        views = {name: shaped.views[name] for name in tensors}
        standing_in = {name: view.address for name, view in shaped.views.items() if name not in tensors}
        pointers = self._executor.contract(family).pointers
        extents = tuple(view.extent_bytes for view in views.values())
        written = tuple(at for at, name in enumerate(views) if pointers[name].written)
        return _Plan(prepared, views, extents, written, standing_in, shaped.scalars)


def _placed(views: Views, addresses: Mapping[str, int]) -> Views:
    return {name: view._replace(address=addresses[name]) for name, view in views.items()}


def _signatures(tensors: Mapping[str, Any]) -> tuple[Hashable, dict[str, int]]:
    """What of each tensor decides the plan, and the addresses by name.  Raises ArgumentError."""
    seen: list[Hashable] = []
    addresses: dict[str, int] = {}
    faults = []
    for name, tensor in tensors.items():
        try:
            described, addresses[name] = signature(tensor)
            seen.append((name, described))
        except NotATensor as error:
            faults.append(Fault(name, str(error), TENSORS))
    if faults:
        raise ArgumentError(faults)
    return tuple(seen), addresses
