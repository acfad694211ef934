"""From a decode call's tensors to both kernels, loaded and bound to their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from assay.bundle.faults import Fault, did_you_mean
from assay.bundle.record import Record

from ..errors import ArgumentError, NoMatchError, UnknownRowError
from ..executing import Executor
from ..limits import MOST_SPLITS
from ..overlap_faults import overlap_faults
from ..prepared import Prepared
from ..steering import Steering
from ..tensors import TENSORS, NotATensor, TensorView, view
from . import decode_checks
from .decode_call import (
    ANY_ADDRESS,
    MERGE,
    MERGE_TENSORS,
    NAMES,
    REQUIRED,
    STAGE_1,
    STAGE_1_TENSORS,
    UNSPLIT,
    UNSPLIT_TENSORS,
    WRITTEN,
    Inputs,
    Options,
    Parts,
    Plan,
)  # fmt: skip
from .decode_shapes import HEADS, by_kv_head, with_rows
from .splits import default_splits, gains, worth_having
from .workspace import check_workspace, part_views


class _Call(Record):
    """A call that was checked.

    views: its tensors but the workspace, partial buffers cut to the splits in use; given: all of them, as they came.
    """

    __slots__ = ()

    views: dict[str, TensorView]
    given: Mapping[str, TensorView]
    workspace: TensorView | None
    sizes: decode_checks.Sizes
    options: Options
    sm_scale: float


class Planner:
    """Plans for one loaded bundle."""

    def __init__(self, executor: Executor):
        self._executor = executor

    def make(self, inputs: Inputs, options: Options, sm_scale: float) -> Plan | None:
        """Check the call, choose rows and load them.  Raises ArgumentError, NoMatchError and loading errors."""
        if missing := [name for name in REQUIRED if getattr(inputs, name) is None]:
            raise ArgumentError([Fault(name, "None", "a tensor") for name in missing])
        views, workspace = self.views(inputs)
        views = with_rows(views)
        try:
            sizes = decode_checks.check_call(views, options.window, options.splits, MOST_SPLITS)
        except ArgumentError as error:
            raise ArgumentError([*error.faults, *self._further_faults(views)]) from None
        if options.splits is None and "num_kv_splits" in views:
            raise ArgumentError([Fault("max_kv_splits", "None", "the most that num_kv_splits holds")])
        given = views if workspace is None else {**views, "workspace": workspace}
        views = _first_splits(views, options.splits)
        if sizes.batch == 0:
            self._check_without_requests(views, sizes, options)
            return None
        call = _Call(views, given, workspace, sizes, options, sm_scale)
        try:
            splits = self._splits(call)
            return self._unsplit(call, splits) or self._split(call, splits)
        except NoMatchError:
            # No row of a stage serves the call; one that does not split may.
            if options.splits is None and (plan := self._unsplit(call, 1)):
                return plan
            raise

    def _further_faults(self, views: Mapping[str, TensorView]) -> list[Fault]:
        """What is wrong with the tensors beside q, where q's heads or a rank are wrong already."""
        stage_1, q = self._executor.contract(STAGE_1), views["q"]
        seen = {
            name: views[name]
            for name in STAGE_1_TENSORS
            if name in views and name not in HEADS and len(views[name].shape) == len(stage_1.pointers[name].shape)
        }
        dims = dict(zip(("batch", "rows"), q.shape, strict=False)) if len(q.shape) == 4 else {}
        return stage_1.shape_faults(seen, dims) + stage_1.own_type_faults(seen)

    def _check_without_requests(
        self, views: dict[str, TensorView], sizes: decode_checks.Sizes, options: Options
    ) -> None:
        """What is wrong with a call that launches nothing: an engine that warms up on one must not take it for right.

        Raises ArgumentError, UnknownRowError.
        """
        self._owners(options)
        self._executor.kernels.check_forbidden(options.steering.forbid_rows)
        stage_1, merge = self._executor.contract(STAGE_1), self._executor.contract(MERGE)
        read = by_kv_head({name: views[name] for name in STAGE_1_TENSORS if name in views}, sizes.kv_heads)
        results = {name: views[name] for name in ("sinks", "out", "lse") if name in views}
        dims = {"batch": 0, "rows": sizes.rows, "q_heads": sizes.q_heads, "head_dim": sizes.head_dim}
        faults = stage_1.shape_faults(read, {}) + stage_1.own_type_faults(read)
        if faults := faults + merge.shape_faults(results, dims) + merge.own_type_faults(results):
            raise ArgumentError(faults)

    def _split(self, call: _Call, splits: int) -> Plan:
        """The plan of both stages."""
        views, sizes, workspace = call.views, call.sizes, call.workspace
        parts = Parts((sizes.batch, sizes.rows, sizes.q_heads, splits, sizes.head_dim), views)
        if workspace is not None:
            check_workspace(parts, workspace)
        counts = 0
        if "num_kv_splits" not in views:
            counts = self._executor.driver.filled_i32(splits, sizes.batch)
        base = workspace.address if workspace is not None else ANY_ADDRESS
        views = self._with_parts(call, parts, base, counts)
        stage_1 = self._executor.prepare(*self._stage_1(call, views))
        merge = self._merge(views, call.options, sizes)
        return Plan((stage_1, merge), parts, counts, call.given, whole=True)

    def _unsplit(self, call: _Call, splits: int) -> Plan | None:
        """The plan of one kernel; None where both stages must answer: the call is split, the caller has split counts
        or buffers for partial results, the output has another type than q, no such row serves the call.  Raises where
        that row is forced.
        """
        sizes, options = call.sizes, call.options
        owners = self._owners(options)
        forced = UNSPLIT in owners
        if (owners and not forced) or not self._executor.kernels.rows_if_any(UNSPLIT):
            return None
        # Nobody asked for splits, and they gain nothing.
        free = options.splits is None and not self._gain(call, splits)
        if fault := _must_split(call.views, 1 if free else splits):
            if forced:
                raise ArgumentError([fault])
            return None
        parts = Parts((sizes.batch, sizes.rows, sizes.q_heads, 0, sizes.head_dim), call.views)
        # The workspace is judged behind the row: where none serves the call, the stages need more of it.
        views = {**part_views(parts, ANY_ADDRESS, self._executor.driver.tensor_device), **call.views}
        tensors = by_kv_head({name: views[name] for name in UNSPLIT_TENSORS if name in views}, sizes.kv_heads)
        facts = {**_facts(call), "sinks": "sinks" in views}
        try:
            kernel = self._executor.prepare(UNSPLIT, tensors, _scalars(call), facts, self._steering(options, UNSPLIT))
        except (NoMatchError, ArgumentError):
            # What is wrong with the call at all is told by the stages, in the words of their contract.
            if forced:
                raise
            return None
        if self._gain(call, splits, lds_bytes=kernel.row.lds_bytes):
            return None
        if call.workspace is not None:
            check_workspace(parts, call.workspace)
        return Plan((kernel,), parts, 0, call.given, whole=True)

    def views(self, inputs: Inputs) -> tuple[dict[str, TensorView], TensorView | None]:
        """Every tensor given, as a view; the workspace apart.  Raises ArgumentError."""
        given = {name: tensor for name, tensor in zip(NAMES, inputs, strict=True) if tensor is not None}
        workspace = given.pop("workspace", None)
        faults: list[Fault] = []
        views: dict[str, TensorView] = {}
        for family, names in ((STAGE_1, STAGE_1_TENSORS), (MERGE, ("sinks", "out", "lse"))):
            try:
                views |= self._executor.views(family, {name: given[name] for name in names if name in given})
            except ArgumentError as error:
                faults += error.faults
        seen = None
        if workspace is not None:
            try:
                seen = view(workspace)
                faults += self._executor.place_faults("workspace", seen)
            except NotATensor as error:
                faults.append(Fault("workspace", str(error), TENSORS))
        if faults:
            raise ArgumentError(faults)
        return views, seen

    def check_overlaps(self, inputs: Inputs) -> None:
        """Raises ArgumentError where memory that the kernels write is another tensor's too."""
        views, workspace = self.views(inputs)
        given = views if workspace is None else {**views, "workspace": workspace}
        if faults := overlap_faults(given, WRITTEN):
            raise ArgumentError(faults)

    def _splits(self, call: _Call) -> int:
        """As many as asked for, none for a forced row that makes none, or as fill the device."""
        if call.options.splits is not None:
            return call.options.splits
        if UNSPLIT in self._owners(call.options):
            return 1
        sizes, driver = call.sizes, self._executor.driver
        parts = Parts((sizes.batch, sizes.rows, sizes.q_heads, 1, sizes.head_dim), call.views)
        probe = self._with_parts(call, parts, ANY_ADDRESS, ANY_ADDRESS)
        row, function = self._executor.chosen(*self._stage_1(call, probe))
        workgroups = driver.processors * worth_having(driver.resident_groups(function), row.lds_bytes)
        tile = int(row.launch["block_n"])
        return default_splits(workgroups, sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim, tile)

    def _gain(self, call: _Call, splits: int, **of_row: int) -> bool:
        """Whether so many splits are better than none; of_row: as `gains` takes it."""
        sizes, item_bytes = call.sizes, call.views["k_cache"].item_bytes
        shape = (sizes.batch, sizes.rows, sizes.q_heads, sizes.head_dim)
        return gains(splits, shape, sizes.kv_heads, sizes.keys, item_bytes, self._executor.driver.processors, **of_row)

    def _with_parts(self, call: _Call, parts: Parts, base: int, counts: int) -> dict[str, TensorView]:
        """The call's tensors and those that the workspace and the split counts stand for."""
        device = self._executor.driver.tensor_device
        filled = {"num_kv_splits": TensorView(counts, "i32", (call.sizes.batch,), (1,), device)}
        return {**filled, **part_views(parts, base, device), **call.views}

    def _stage_1(
        self, call: _Call, views: Mapping[str, TensorView]
    ) -> tuple[str, dict[str, TensorView], dict[str, Any], dict[str, Any], Steering]:
        """What the executor takes for stage 1.  views: with the buffers for partial results."""
        tensors = {name: views[name] for name in STAGE_1_TENSORS if name in views}
        tensors = by_kv_head(tensors, call.sizes.kv_heads)
        return STAGE_1, tensors, _scalars(call), _facts(call), self._steering(call.options, STAGE_1)

    def _merge(self, views: Mapping[str, TensorView], options: Options, sizes: decode_checks.Sizes) -> Prepared:
        out_dtype = decode_checks.float_name(views["out"].dtype)
        facts = {"out_dtype": out_dtype, "head_dim": sizes.head_dim, "sinks": "sinks" in views}
        tensors = {name: views[name] for name in MERGE_TENSORS if name in views}
        # Named here, so that no fault is told by a part of the workspace, which the caller does not know.
        dims = {"batch": sizes.batch, "rows": sizes.rows, "q_heads": sizes.q_heads, "head_dim": sizes.head_dim}
        return self._executor.prepare(MERGE, tensors, {}, facts, self._steering(options, MERGE), dims)

    def _steering(self, options: Options, family: str) -> Steering:
        """Of a family, as a forced row is one family's.  Raises UnknownRowError where it is none's of these."""
        if options.steering.force_row is None or family in self._owners(options):
            return options.steering
        return options.steering._replace(force_row=None)

    def _owners(self, options: Options) -> list[str]:
        """The families that the forced row is of; none without one.  Raises UnknownRowError for a row of another."""
        forced, kernels = options.steering.force_row, self._executor.kernels
        if forced is None:
            return []
        families = (STAGE_1, MERGE, UNSPLIT)
        ids = {name: [row.id for row in kernels.rows_if_any(name)] for name in families}
        owners = [name for name in families if forced in ids[name]]
        if not owners:
            hint = did_you_mean(forced, chain.from_iterable(ids.values()))
            raise UnknownRowError(str(Fault("force_row", f"no row {forced!r} of {', '.join(families)}", hint=hint)))
        return owners

    def check_contents(self, inputs: Inputs, plan: Plan) -> None:
        """What only the contents of index tensors tell; waits for the device.  Raises ArgumentError."""
        views, _ = self.views(inputs)
        if "num_kv_splits" not in views and plan.counts:
            batch = views["q"].shape[0]
            device = self._executor.driver.tensor_device
            views["num_kv_splits"] = TensorView(plan.counts, "i32", (batch,), (1,), device)
        decode_checks.check_contents(self._executor.driver, views, max(1, plan.parts.shape[3]))


def _scalars(call: _Call) -> dict[str, Any]:
    """The numbers that the kernels of a call take."""
    scalars: dict[str, Any] = {"sm_scale": call.sm_scale}
    if call.options.window is not None:
        scalars["window_length"] = call.options.window
    if call.options.logit_cap is not None:
        scalars["logit_cap"] = call.options.logit_cap
    return scalars


def _facts(call: _Call) -> dict[str, Any]:
    """The axis values of stage 1 that tensors do not tell by their shapes."""
    views, options = call.views, call.options
    return {
        "q_dtype": decode_checks.float_name(views["q"].dtype),
        "head_dim": call.sizes.head_dim,
        "kv_format": decode_checks.kv_format(views),
        "slot_dtype": views["indices"].dtype,
        "window": options.window is not None,
        "soft_cap": options.logit_cap is not None,
    }


def _first_splits(views: Mapping[str, TensorView], splits: int | None) -> dict[str, TensorView]:
    """Partial buffers of the caller's, cut to the splits in use.  Raises ArgumentError where they have fewer."""
    cut, faults = dict(views), []
    for name in ("partial_out", "partial_lse"):
        whole = views.get(name)
        if whole is None or splits is None or len(whole.shape) < 4:
            continue
        if whole.shape[3] < splits:
            faults.append(Fault(f"{name}, dimension splits", f"{whole.shape[3]} elements", f"at least {splits}"))
        cut[name] = whole._replace(shape=(*whole.shape[:3], splits, *whole.shape[4:]))
    if faults:
        raise ArgumentError(faults)
    return cut


def _must_split(views: Mapping[str, TensorView], splits: int) -> Fault | None:
    """Why one kernel cannot answer the call, whatever rows there are."""
    if splits != 1:
        return Fault("num_splits", str(splits), "1: the forced row splits nothing")
    if "partial_out" in views or "partial_lse" in views:
        return Fault("partial buffers", "given", "none: the forced row has no partial results")
    if "num_kv_splits" in views:
        # The stages hold it to their contract: a tensor of a caller's is never passed over unseen.
        return Fault("num_kv_splits", "given", "none: the forced row splits nothing")
    dtypes = {name: decode_checks.float_name(views[name].dtype) for name in ("q", "out")}
    if dtypes["q"] != dtypes["out"]:
        return Fault("out", f"elements of {dtypes['out']}", f"{dtypes['q']}, as the forced row has it")
    return None
