"""Calls of families that are one launch: what is checked once a shape, and what at every call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from assay.bundle.faults import Fault
from assay.bundle.record import Record

from ..errors import ArgumentError
from ..executing import Executor, Steering
from ..launching import Prepared
from ..overlaps import may_overlap
from ..tensors import TENSORS, NotATensor, TensorView
from .frameworks import stream_handle
from .signature import Kept, signature

_PLANS_KEPT = 1024

Views = dict[str, TensorView]


class Family(Record):
    """What a family's calls need beyond its contract.

    facts: axis values that the tensors tell.  narrowed: the views as the kernel is to see them; raises ArgumentError.
    contents: checks in debug mode what the tensors hold; waits for the device.
    """

    __slots__ = ()

    name: str
    facts: Callable[[Views], dict[str, Any]]
    narrowed: Callable[[Views], Views]
    contents: Callable[[Executor, Views], None]


class _Plan(Record):
    """extents: bytes of each view, in their order.  written: at which places of it the kernel writes."""

    __slots__ = ()

    prepared: Prepared
    views: Views
    extents: tuple[int, ...]
    written: tuple[int, ...]


class SingleLaunch:
    """One family's calls on one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor, family: Family):
        self._executor = executor
        self._family = family
        self._plans: Kept[_Plan] = Kept(_PLANS_KEPT)

    def run(
        self, tensors: Mapping[str, Any], facts: Mapping[str, Any], steering: Steering, stream: Any, like: str
    ) -> None:
        """Launch the kernel.  Tensors that are None are not given.  like: whose framework's stream is the current one.

        facts: axis values that the caller states; they count before those that the tensors tell.
        Raises ArgumentError (everything wrong at once), NoMatchError or a driver's error; nothing was launched then.
        """
        given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        self._executor.driver.check_usable()
        seen, addresses = _signatures(given)
        key = (*seen, *facts.items(), steering)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(given, facts, steering)
            self._plans.keep(key, plan)
        if may_overlap([addresses[name] for name in plan.views], plan.extents, plan.written):
            self._executor.check_overlaps(self._family.name, _placed(plan.views, addresses))
        if self._executor.debug:
            self._family.contents(self._executor, _placed(plan.views, addresses))
        handle = stream_handle(stream, given[like])
        # A call without a token has an empty grid, which drivers refuse.
        if 0 not in plan.prepared.grid:
            plan.prepared.launch([addresses[name] for name in plan.prepared.pointer_names], (), handle)

    def _plan(self, tensors: Mapping[str, Any], stated: Mapping[str, Any], steering: Steering) -> _Plan:
        contract = self._executor.contract(self._family.name)
        views = self._family.narrowed(self._executor.views(self._family.name, tensors))
        facts = {**self._family.facts(views), **stated}
        prepared = self._executor.prepare(self._family.name, views, {}, facts, steering)
        extents = tuple(view.extent_bytes for view in views.values())
        written = tuple(at for at, name in enumerate(views) if contract.pointers[name].written)
        return _Plan(prepared, views, extents, written)


def _placed(views: Views, addresses: Mapping[str, int]) -> Views:
    return {name: view._replace(address=addresses[name]) for name, view in views.items()}


def _signatures(tensors: Mapping[str, Any]) -> tuple[list[Hashable], dict[str, int]]:
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
    return seen, addresses
