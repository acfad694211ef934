"""From a call's tensors to a launch: checks, dispatch, lazy loading.  The same for every family."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from assay.bundle.faults import Fault
from assay.bundle.records import Row

from .choosing import Chooser
from .contract import Contract
from .drivers.driver import Driver, Function
from .errors import ArgumentError, NotLoadedError
from .launching import grid_of, layout_of, number_faults
from .overlap_faults import overlap_faults, self_overlap_faults
from .prepared import Loaded, Prepared
from .steering import NOT_STEERED, Steering
from .tensors import NOT_TOLD, TENSORS, NotATensor, TensorView, view


class Executor:
    """Launches the rows of one bundle on one device.  Safe to use from several threads."""

    def __init__(self, kernels: Chooser, driver: Driver | None, loaded: Loaded | None, *, debug: bool = False):
        """loaded: None where there is no driver."""
        self.kernels = kernels
        self._driver = driver
        self._loaded = loaded
        self.debug = debug
        self._contracts: dict[str, Contract] = {}
        self._told: set[Steering] = set()

    @property
    def driver(self) -> Driver:
        """The device.  Raises NotLoadedError where the bundle was loaded for choosing rows only."""
        if self._driver is None:
            raise _not_loaded()
        return self._driver

    @property
    def loaded(self) -> Loaded:
        """What is loaded on the device.  Raises NotLoadedError as `driver`."""
        if self._loaded is None:
            raise _not_loaded()
        return self._loaded

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
        used = self.loaded.used(row.id)
        return Prepared(row, self.function(row), self.driver, layout_of(contract, row, views), grid, used)

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
        # A tensor left out may leave a dimension untold; a row that asks for it then says so.
        known_dims = {field: dims for field, dims in contract.products.items() if sizes.keys() >= set(dims)}
        products = {field: math.prod(sizes[dim] for dim in dims) for field, dims in known_dims.items()}
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
        return self.loaded.function(row)

    def preload(self, families: Collection[str] = ()) -> int:
        """Load every row's code object of these families (all of them if none is named), so that no call has to.

        Returns how many there are.  Needed before a CUDA or HIP graph is captured: capture must not meet a load.
        """
        self.driver.check_usable()
        rows = [row for name in families or self.kernels.families() for row in self.kernels.rows(name)]
        for row in rows:
            self.function(row)
        return len(rows)


def _not_loaded() -> NotLoadedError:
    return NotLoadedError(
        "this bundle was loaded to pick rows only; to launch, load it with a device: "
        "load(path, device='cuda:0'), 'hip:0', 'emulator' or a torch.device"
    )
