"""From a call's tensors to a launch: checks, dispatch, lazy loading.  The same for every family."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping
from typing import Any

from assay.bundle.faults import Fault
from assay.bundle.record import Record
from assay.bundle.records import DEPENDENT_LAUNCH, Row

from .choosing import Chooser, row_ids, steering_faults
from .contract import Contract
from .drivers.driver import Driver, Function, Wanted
from .errors import ArgumentError, NotLoadedError
from .launching import Layout, Prepared, grid_of, number_faults
from .overlaps import overlap_faults, self_overlap_faults
from .tensors import NOT_TOLD, TENSORS, NotATensor, TensorView, view


class Steering(Record):
    """Which rows a call may take.  `force_row`: that row or none; `forbid_rows`: none of these."""

    __slots__ = ()

    force_row: str | None = None
    forbid_rows: tuple[str, ...] = ()


NOT_STEERED = Steering()


def steering_of(force_row: Any, forbid_rows: Any, fallback: Any = None) -> Steering:
    """What a call says of rows.  A fallback is checked here too: one that no call needs until a row is missing would
    otherwise be found out there.  Raises ArgumentError.
    """
    faults = steering_faults(force_row, forbid_rows)
    if fallback is not None and not callable(fallback):
        faults.append(Fault("fallback", repr(fallback), "what can be called with this call's arguments, or None"))
    if faults:
        raise ArgumentError(faults)
    forbidden = row_ids(forbid_rows)
    return Steering(force_row, forbidden) if force_row is not None or forbidden else NOT_STEERED


class Executor:
    """Launches the rows of one bundle on one device.  Safe to use from several threads."""

    def __init__(self, kernels: Chooser, driver: Driver | None, *, debug: bool = False):
        self.kernels = kernels
        self._driver = driver
        self.debug = debug
        self._contracts: dict[str, Contract] = {}
        self._functions: dict[str, Function] = {}
        self._used: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self._told: set[Steering] = set()

    @property
    def driver(self) -> Driver:
        """The device.  Raises NotLoadedError where the bundle was loaded for choosing rows only."""
        if self._driver is None:
            raise NotLoadedError(
                "this bundle was loaded to pick rows only; to launch, load it with a device: "
                "load(path, device='cuda:0'), 'hip:0', 'emulator' or a torch.device"
            )
        return self._driver

    def contract(self, family: str) -> Contract:
        """The family's contract.  Raises UnknownFamilyError."""
        if family not in self._contracts:
            self.kernels.fields(family)
            self._contracts[family] = Contract(family, self.kernels.contract(family))
        return self._contracts[family]

    def views(self, family: str, tensors: Mapping[str, Any]) -> dict[str, TensorView]:
        """The call's tensors, seen and on this device.  Raises ArgumentError."""
        contract = self.contract(family)
        faults, found = [], {}
        for name, tensor in tensors.items():
            try:
                seen = view(tensor)
            except NotATensor as error:
                faults.append(Fault(name, str(error), TENSORS))
                continue
            if name not in contract.pointers:
                faults.append(Fault(name, "not an argument", ", ".join(contract.pointers)))
                continue
            faults += self.place_faults(name, seen)
            if contract.pointers[name].written and seen.read_only:
                faults.append(Fault(name, "read-only memory", "memory that can be written"))
            found[name] = seen
        if faults:
            raise ArgumentError(faults)
        return found

    def place_faults(self, name: str, seen: TensorView) -> list[Fault]:
        """A tensor on another device than the kernels."""
        wanted = self.driver.tensor_device
        found = seen.device
        if found[1] == NOT_TOLD and seen.address:
            found = self.driver.device_of(seen.address) or found
        if found == wanted:
            return []
        allowed = f"{wanted[0]}:{wanted[1]}, where the kernels are"
        number = "" if found[1] == NOT_TOLD else f":{found[1]}"
        return [Fault(name, f"on {found[0]}{number}", allowed)]

    def check_overlaps(self, family: str, views: Mapping[str, TensorView]) -> None:
        """Raises ArgumentError where memory that the kernel writes is another tensor's too."""
        if faults := overlap_faults(views, self.contract(family).written):
            raise ArgumentError(faults)

    def prepare(
        self,
        family: str,
        views: Mapping[str, TensorView],
        scalars: Mapping[str, Any],
        facts: Mapping[str, Any],
        steering: Steering = NOT_STEERED,
        dims: Mapping[str, int] | None = None,
    ) -> Prepared:
        """A kernel for a call with these tensors, numbers and axis values, loaded and bound to their shapes.

        Raises ArgumentError, NoMatchError, ObjectError or a driver's error; then nothing was launched.
        """
        contract, sizes = self.contract(family), dict(dims or {})
        row = self._choose(family, views, scalars, facts, steering, sizes)
        grid = grid_of(row, sizes, self.driver)
        used = self._used.setdefault(row.id, [0])
        return Prepared(row, self.function(row), self.driver, Layout(contract, row, views), grid, used)

    def chosen(
        self,
        family: str,
        views: Mapping[str, TensorView],
        scalars: Mapping[str, Any],
        facts: Mapping[str, Any],
        steering: Steering = NOT_STEERED,
    ) -> tuple[Row, Function]:
        """The row that `prepare` would bind, and its kernel, loaded.  Raises as it."""
        row = self._choose(family, views, scalars, facts, steering, {})
        return row, self.function(row)

    def _choose(
        self,
        family: str,
        views: Mapping[str, TensorView],
        scalars: Mapping[str, Any],
        facts: Mapping[str, Any],
        steering: Steering,
        sizes: dict[str, int],
    ) -> Row:
        """The row for a call that keeps its contract.  Fills `sizes` in: the dimensions that the tensors tell."""
        self.driver.check_usable()
        contract = self.contract(family)
        faults = contract.shape_faults(views, sizes) + contract.element_faults(views) + contract.null_faults(views)
        faults += contract.scalar_faults(scalars)
        faults += contract.own_type_faults(views) + self_overlap_faults(views, contract.written)
        # A size that no row has, such as a head_dim of 65, may be all that is wrong with a stride: that is told first.
        unaligned = contract.fixed_alignment_faults(views)
        if faults:
            raise ArgumentError(faults + unaligned)
        known = self.kernels.fields(family)
        products = {field: math.prod(sizes[dim] for dim in dims) for field, dims in contract.products.items()}
        told = {**sizes, **products, **contract.facts(views)}
        if faults := [
            Fault(name, repr(facts[name]), f"{told[name]}, as the tensors have it")
            for name in facts.keys() & told.keys()
            if facts[name] != told[name]
        ]:
            raise ArgumentError(faults)
        request = {**told, **facts}
        row = self._select(family, {name: value for name, value in request.items() if name in known}, steering)
        if unaligned:
            raise ArgumentError(unaligned)
        self._check_row(contract, row, views, scalars, request)
        return row

    def _select(self, family: str, request: Mapping[str, Any], steering: Steering) -> Row:
        if (steering.force_row or steering.forbid_rows) and steering not in self._told:
            from .switches import warn

            self._told.add(steering)
            forbidden_now = ", ".join(steering.forbid_rows) or "none"
            warn(f"{family}: forced row {steering.force_row or 'none'}, forbidden rows {forbidden_now}")
        forbidden = steering.forbid_rows
        return self.kernels.select(family, force_row=steering.force_row, forbid_rows=forbidden, **request).row

    def _check_row(
        self,
        contract: Contract,
        row: Row,
        views: Mapping[str, TensorView],
        scalars: Mapping[str, Any],
        request: Mapping[str, Any],
    ) -> None:
        """What only the chosen row can tell.  Raises ArgumentError."""
        wanted = [a.name for a in row.arguments if a.kind == "pointer" or a.name in contract.scalars]
        faults = contract.name_faults((*views, *scalars), wanted, row.id)
        # Beside the names: scales that a BF16 row does not take are the lesser half of caches that hold codes.
        numbers = [] if faults else number_faults(contract, row, views)
        faults += contract.type_faults(views, request) + numbers
        if faults:
            raise ArgumentError(faults)

    def function(self, row: Row) -> Function:
        """The row's kernel on this device, loaded at the first call.  Raises ObjectError and the driver's errors."""
        found = self._functions.get(row.id)
        if found is not None:
            return found
        with self._lock:
            if row.id not in self._functions:
                self._functions[row.id] = self._load(row)
            return self._functions[row.id]

    def _load(self, row: Row) -> Function:
        label = f"{row.family}/{row.id} ({row.symbol})"
        target = next(target for target in self.kernels.targets if target.name == row.target)
        limit = min(target.lds_limit, self.driver.lds_limit)
        if row.lds_bytes > limit:
            raise ArgumentError([Fault(f"shared memory of {label}", f"{row.lds_bytes} bytes", f"at most {limit}")])
        arguments = tuple((a.offset, a.size) for a in row.arguments)
        threads, dependent = row.num_warps * row.wavefront_size, row.launch.get(DEPENDENT_LAUNCH) is True
        wanted = Wanted(label, row.symbol, row.lds_bytes, threads, arguments, dependent)
        return self.driver.load(self.kernels.code(row), wanted)

    def preload(self, families: Collection[str] = ()) -> int:
        """Load every row's code object of these families (all of them if none is named), so that no call has to.

        Returns how many there are.  Needed before a CUDA or HIP graph is captured: capture must not meet a load.
        """
        self.driver.check_usable()
        rows = [row for name in families or self.kernels.families() for row in self.kernels.rows(name)]
        for row in rows:
            self.function(row)
        return len(rows)

    def usage(self) -> dict[str, int]:
        """How often each row was launched, by its id."""
        return {id: count for id, (count,) in sorted(self._used.items()) if count}

    def close(self) -> None:
        """Unload everything.  Never raises; work that is queued must be done, captured graphs must not be replayed."""
        if self._driver is None:
            return
        with self._lock:
            for function in self._functions.values():
                self._driver.unload(function)
            self._functions.clear()
            self._driver.close()
