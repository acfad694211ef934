"""Decode attention over a paged cache: stage 1 and the merge, as one call.

out = softmax(sm_scale * q @ K^T) @ V        for each request over the keys that its query sees
"""

import math
import struct
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from assay.bundle.faults import Fault

from .. import fast
from ..errors import ArgumentError, UnknownRowError
from ..executing import Executor, Steering
from ..kernels import MOST_SPLITS
from ..launching import Address, FastLaunch, Prepared
from ..tensors import NotATensor, TensorView, view
from . import decode_checks
from .frameworks import empty, keep_until_used, stream_handle
from .signature import signature
from .splits import default_splits
from .workspace import ANY_ADDRESS, Parts

STAGE_1, MERGE = "decode_attention", "merge_splits"
# Shapes come and go with the batch; when this many are known the oldest half is forgotten.
_PLANS_KEPT = 2048
_LARGEST_F32 = 3.4028234663852886e38


class Inputs(NamedTuple):
    """The tensors of a call; None: not given."""

    q: Any
    k_cache: Any
    v_cache: Any
    k_scale: Any
    v_scale: Any
    indptr: Any
    indices: Any
    q_positions: Any
    num_kv_splits: Any
    sinks: Any
    partial_out: Any
    partial_lse: Any
    out: Any
    lse: Any
    workspace: Any


_NAMES = Inputs._fields
_STAGE_1_TENSORS = (
    "q", "k_cache", "v_cache", "k_scale", "v_scale", "indptr", "indices", "q_positions", "num_kv_splits",
    "partial_out", "partial_lse",
)  # fmt: skip
_MERGE_TENSORS = ("partial_out", "partial_lse", "num_kv_splits", "sinks", "out", "lse")
_REQUIRED = ("q", "k_cache", "v_cache", "indptr", "indices", "q_positions")
_INDICES, _COUNTS, _PARTIAL_OUT, _PARTIAL_LSE, _LSE, _WORKSPACE = map(
    _NAMES.index, ("indices", "num_kv_splits", "partial_out", "partial_lse", "lse", "workspace")
)


class Options(NamedTuple):
    """What steers a call apart from its tensors.  splits: of each request; None: chosen here, or told by a tensor."""

    window: int | None
    splits: int | None
    steering: Steering


class _Plan:
    """Both kernels for calls of one shape.  counts: address of the split counts where the caller gives none."""

    __slots__ = ("counts", "merge", "parts", "pick_merge", "pick_stage_1", "stage_1")

    def __init__(self, stage_1: Prepared, merge: Prepared, parts: Parts, counts: int):
        self.stage_1 = stage_1
        self.merge = merge
        self.parts = parts
        self.counts = counts
        self.pick_stage_1 = _picker(stage_1.pointer_names)
        self.pick_merge = _picker(merge.pointer_names)


class _FastPlan:
    """A plan's launches through the C path.  workspace_bytes: what a call without a workspace must allocate."""

    __slots__ = ("merge", "plan", "stage_1", "workspace_bytes")

    def __init__(self, stage_1: FastLaunch, merge: FastLaunch, plan: _Plan):
        self.stage_1 = stage_1
        self.merge = merge
        self.workspace_bytes = plan.parts.size
        self.plan = plan


class DecodeAttention:
    """The calls of one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._plans: dict[Hashable, _Plan | None] = {}
        self._fast_plans: dict[Hashable, _FastPlan | None] = {}
        self._lock = threading.Lock()
        usable = fast.module is not None and not executor.debug and not executor.driver.watches_memory
        self._read = fast.module.read if fast.module is not None and usable else None
        self._guard = executor.driver.check_usable

    def run(self, inputs: Inputs, options: Options, sm_scale: float, stream: Any) -> Any:
        """Launch both stages; returns `out`.  Raises before anything is launched."""
        if inputs.out is None and inputs.q is not None:
            inputs = inputs._replace(out=_new_out(inputs.q))
        key = None
        if self._read is not None and (read := self._read(inputs, _INDICES, 2 if options.splits is None else 1)):
            key = (read[0], options.window is None, options.splits, options.steering)
            if (found := self._fast_plans.get(key)) and self._run_fast(
                found, inputs, options, sm_scale, stream, read[1]
            ):
                return inputs.out
        given_workspace = inputs.workspace
        inputs, plan, addresses = self._ready(inputs, options, sm_scale)
        if plan is not None:
            handle = stream_handle(stream, inputs.q)
            if given_workspace is None and inputs.workspace is not None:
                keep_until_used(inputs.workspace, stream, handle)
            plan.stage_1.launch(plan.pick_stage_1(addresses), _numbers(options, sm_scale), handle)
            plan.merge.launch(plan.pick_merge(addresses), (), handle)
            if key is not None and key not in self._fast_plans:
                self._keep(self._fast_plans, key, self._fast_plan(plan))
        return inputs.out

    def _run_fast(
        self, found: _FastPlan, inputs: Inputs, options: Options, sm_scale: float, stream: Any, addresses: bytes
    ) -> bool:
        """Launch through the C path.  False: nothing was launched, and the slow path must see to it."""
        if options.window is not None and decode_checks.window_faults(options.window):
            return False
        handle = stream_handle(stream, inputs.q)
        if found.workspace_bytes and inputs.workspace is None:
            # It is the last of the tensors, and so of the addresses.
            workspace = empty(inputs.q, (found.workspace_bytes,), "uint8", "workspace")
            addresses = addresses[:-8] + signature(workspace)[1].to_bytes(8, "little")
            keep_until_used(workspace, stream, handle)
        self._guard()
        if found.stage_1(addresses, _numbers(options, sm_scale), handle):
            return False
        if found.merge(addresses, (), handle):
            filled = list(struct.unpack(f"<{len(_NAMES)}Q", addresses))
            _complete(found.plan, filled)
            found.plan.merge.launch(found.plan.pick_merge(filled), (), handle)
        return True

    def _fast_plan(self, plan: _Plan) -> _FastPlan | None:
        """The plan for the C path; None where the driver has none."""
        launches = []
        for prepared in (plan.stage_1, plan.merge):
            native = self._executor.driver.native_launch(prepared.function)
            if native is None or fast.module is None:
                return None
            sources = [_source(plan, name) for name in prepared.pointer_names]
            launches.append(FastLaunch(prepared, fast.module.launch, native, sources))
        return _FastPlan(launches[0], launches[1], plan)

    def bind(self, inputs: Inputs, options: Options, sm_scale: float) -> "BoundDecode":
        """The call with all checks done, to be launched again and again on the same memory."""
        inputs, plan, addresses = self._ready(inputs, options, sm_scale)
        if plan is None:
            return BoundDecode(inputs, ())
        stage_1 = plan.stage_1.bind(plan.pick_stage_1(addresses), _numbers(options, sm_scale))
        return BoundDecode(inputs, (stage_1, plan.merge.bind(plan.pick_merge(addresses), ())))

    def _ready(self, inputs: Inputs, options: Options, sm_scale: float) -> tuple[Inputs, _Plan | None, list[int]]:
        """Tensors with those made here, plan, and addresses.  No plan: there is no request to answer."""
        if inputs.out is None and inputs.q is not None:
            inputs = inputs._replace(out=_new_out(inputs.q))
        key, addresses = self._key(inputs, options)
        known = key in self._plans
        plan = self._plans[key] if known else self._make(inputs, options, sm_scale)
        if not known:
            self._keep(self._plans, key, plan)
        _check_numbers(options, sm_scale)
        if plan is None:
            return inputs, None, addresses
        if plan.parts.size and inputs.workspace is None:
            inputs = inputs._replace(workspace=empty(inputs.q, (plan.parts.size,), "uint8", "workspace"))
            addresses[_WORKSPACE] = signature(inputs.workspace)[1]
        _complete(plan, addresses)
        if self._executor.debug:
            self._check_contents(inputs, plan)
        return inputs, plan, addresses

    def _key(self, inputs: Inputs, options: Options) -> tuple[Hashable, list[int]]:
        """All that decides the plan, and every tensor's address (0 where there is none)."""
        parts: list[Hashable] = []
        addresses: list[int] = []
        for name, tensor in zip(_NAMES, inputs, strict=True):
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
        if inputs.indices is not None and not self._executor.driver.watches_memory:
            parts[_INDICES] = _without_length(parts[_INDICES], chosen_here=options.splits is None)
        # A window's length is a number of the call; only whether there is one decides the row.
        return (options.window is None, *options[1:], *parts), addresses

    def _keep(self, plans: dict[Hashable, Any], key: Hashable, plan: Any) -> None:
        with self._lock:
            if len(plans) >= _PLANS_KEPT:
                for old in list(plans)[: _PLANS_KEPT // 2]:
                    plans.pop(old, None)
            plans[key] = plan

    def _make(self, inputs: Inputs, options: Options, sm_scale: float) -> _Plan | None:
        """Check the call, choose rows and load them.  Raises ArgumentError, NoMatchError and loading errors."""
        if missing := [name for name in _REQUIRED if getattr(inputs, name) is None]:
            raise ArgumentError([Fault(name, "None", "a tensor") for name in missing])
        views, workspace = self._views(inputs)
        sizes = decode_checks.check_call(views, options.window, options.splits, MOST_SPLITS)
        if sizes.batch == 0:
            return None
        if options.splits is None and "num_kv_splits" in views and "partial_out" not in views:
            raise ArgumentError([Fault("num_splits", "a tensor", "partial buffers besides, whose splits it counts")])
        splits = self._splits(views, sizes, options, sm_scale)
        parts = Parts.of((sizes.batch, sizes.q_heads, splits, sizes.head_dim), views)
        if workspace is not None:
            parts.check(workspace)
        counts = 0
        if "num_kv_splits" not in views:
            counts = self._executor.driver.filled_i32(splits, sizes.batch)
        base = workspace.address if workspace is not None else ANY_ADDRESS
        views = self._with_parts(views, parts, base, sizes, counts)
        stage_1 = self._executor.prepare(*self._stage_1(views, options, sizes, sm_scale))
        merge = self._merge(views, options, sizes)
        return _Plan(stage_1, merge, parts, counts)

    def _views(self, inputs: Inputs) -> tuple[dict[str, TensorView], TensorView | None]:
        """Every tensor given, as a view; the workspace apart.  Raises ArgumentError."""
        given = {name: tensor for name, tensor in zip(_NAMES, inputs, strict=True) if tensor is not None}
        workspace = given.pop("workspace", None)
        faults: list[Fault] = []
        views: dict[str, TensorView] = {}
        for family, names in ((STAGE_1, _STAGE_1_TENSORS), (MERGE, ("sinks", "out", "lse"))):
            try:
                views |= self._executor.views(family, {name: given[name] for name in names if name in given})
            except ArgumentError as error:
                faults += error.faults
        seen = None
        if workspace is not None:
            seen = view(workspace)
            faults += self._executor.place_faults("workspace", seen)
        if faults:
            raise ArgumentError(faults)
        return views, seen

    def _splits(
        self, views: Mapping[str, TensorView], sizes: decode_checks.Sizes, options: Options, sm_scale: float
    ) -> int:
        """As many as the partial results have room for, as asked for, or as fill the device."""
        if "partial_out" in views and len(views["partial_out"].shape) == 4:
            return views["partial_out"].shape[2]
        if options.splits is not None:
            return options.splits
        parts = Parts.of((sizes.batch, sizes.q_heads, 1, sizes.head_dim), views)
        probe = self._with_parts(views, parts, ANY_ADDRESS, sizes, ANY_ADDRESS)
        driver = self._executor.driver
        resident = driver.resident_groups(self._executor.chosen(*self._stage_1(probe, options, sizes, sm_scale)))
        return default_splits(driver.processors * resident, sizes.batch, sizes.kv_heads, sizes.keys)

    def _with_parts(
        self, views: Mapping[str, TensorView], parts: Parts, base: int, sizes: decode_checks.Sizes, counts: int
    ) -> dict[str, TensorView]:
        """The call's tensors and those that the workspace and the split counts stand for."""
        device = self._executor.driver.tensor_device
        filled = {"num_kv_splits": TensorView(counts, "i32", (sizes.batch,), (1,), device)}
        return {**filled, **parts.views(base, device), **views}

    def _stage_1(
        self, views: Mapping[str, TensorView], options: Options, sizes: decode_checks.Sizes, sm_scale: float
    ) -> tuple[str, dict[str, TensorView], dict[str, Any], dict[str, Any], Steering]:
        """What the executor takes for stage 1."""
        scalars: dict[str, Any] = {"sm_scale": sm_scale}
        if options.window is not None:
            scalars["window_length"] = options.window
        facts = {
            "q_dtype": decode_checks.float_name(views["q"].dtype),
            "head_dim": sizes.head_dim,
            "gqa": sizes.q_heads // sizes.kv_heads,
            "kv_format": decode_checks.kv_format(views),
            "slot_dtype": views["indices"].dtype,
            "window": options.window is not None,
        }
        tensors = {name: views[name] for name in _STAGE_1_TENSORS if name in views}
        return STAGE_1, tensors, scalars, facts, self._steering(options, STAGE_1)

    def _merge(self, views: Mapping[str, TensorView], options: Options, sizes: decode_checks.Sizes) -> Prepared:
        out_dtype = decode_checks.float_name(views["out"].dtype)
        facts = {"out_dtype": out_dtype, "head_dim": sizes.head_dim, "sinks": "sinks" in views}
        tensors = {name: views[name] for name in _MERGE_TENSORS if name in views}
        return self._executor.prepare(MERGE, tensors, {}, facts, self._steering(options, MERGE))

    def _steering(self, options: Options, family: str) -> Steering:
        """A forced row is one of either stage.  Raises UnknownRowError where it is neither's."""
        forced = options.steering.force_row
        if forced is None:
            return options.steering
        kernels = self._executor.kernels
        owners = [name for name in (STAGE_1, MERGE) if any(row.id == forced for row in kernels.rows(name))]
        if not owners:
            raise UnknownRowError(f"force_row: no row {forced!r} of {STAGE_1} or {MERGE}")
        return options.steering if family in owners else options.steering._replace(force_row=None)

    def _check_contents(self, inputs: Inputs, plan: _Plan) -> None:
        views, _ = self._views(inputs)
        if "num_kv_splits" not in views:
            batch = views["q"].shape[0]
            device = self._executor.driver.tensor_device
            views["num_kv_splits"] = TensorView(plan.counts, "i32", (batch,), (1,), device)
        decode_checks.check_contents(self._executor.driver, views, plan.parts.shape[2])


class BoundDecode:
    """A call with its checks done: `launch()` starts it again on the same memory.  Keeps its tensors alive.

    The tensors' contents may change between launches, and indptr, indices and positions with them; shapes and addresses
    may not.  `out` and `workspace` are the tensors in use; `starts` launch one stage each, given a stream's handle.
    """

    __slots__ = ("_inputs", "starts")

    def __init__(self, inputs: Inputs, starts: tuple[Callable[[int], None], ...]):
        self._inputs = inputs
        self.starts = starts

    @property
    def out(self) -> Any:
        """The output, [batch, q_heads, head_dim]."""
        return self._inputs.out

    @property
    def workspace(self) -> Any:
        """The workspace; None where the caller gave all buffers."""
        return self._inputs.workspace

    def launch(self, stream: Any = None) -> Any:
        """Start both stages; returns `out`.  stream: as the call takes it; a driver's handle costs nothing to read."""
        handle = stream if type(stream) is int else stream_handle(stream, self._inputs.q)
        for start in self.starts:
            start(handle)
        return self._inputs.out


def _new_out(q: Any) -> Any:
    try:
        shape = view(q).shape
    except NotATensor as error:
        raise _no_tensor("q", error) from None
    return empty(q, shape, "bfloat16", "out")


def _no_tensor(name: str, error: NotATensor) -> ArgumentError:
    allowed = "a torch tensor, a numpy array, or an object with __cuda_array_interface__ or __dlpack__"
    return ArgumentError([Fault(name, str(error), allowed)])


def _without_length(seen: Any, *, chosen_here: bool) -> Hashable:
    """The signature of `indices` without its length, which changes with every token.

    Where the number of splits is chosen here the length counts, but only roughly.
    """
    dtype, shape, *rest = seen
    keys = shape[0].bit_length() if chosen_here and len(shape) == 1 else 0
    return (dtype, len(shape), keys, *rest)


def _check_numbers(options: Options, sm_scale: Any) -> None:
    """What changes from call to call without changing the plan.  Raises ArgumentError."""
    faults = decode_checks.window_faults(options.window)
    number = isinstance(sm_scale, int | float) and not isinstance(sm_scale, bool)
    if not number or not math.isfinite(sm_scale) or abs(sm_scale) > _LARGEST_F32:
        faults.append(Fault("sm_scale", repr(sm_scale), "a finite number that FP32 can hold"))
    if faults:
        raise ArgumentError(faults)


def _numbers(options: Options, sm_scale: float) -> tuple[float, ...]:
    """The scalars of stage 1, in the order of its arguments."""
    return (sm_scale,) if options.window is None else (sm_scale, options.window)


def _source(plan: _Plan, name: str) -> Address:
    """Where the C path finds a pointer."""
    if name == "num_kv_splits" and plan.counts:
        return Address(-1, plan.counts)
    offset = {"partial_out": plan.parts.partial_out, "partial_lse": plan.parts.partial_lse, "lse": plan.parts.lse}
    if offset.get(name, -1) >= 0:
        return Address(_WORKSPACE, offset[name])
    return Address(_NAMES.index(name), 0)


def _complete(plan: _Plan, addresses: list[int]) -> None:
    """Addresses of what lies in the workspace, and of the split counts."""
    base, parts = addresses[_WORKSPACE], plan.parts
    if plan.counts:
        addresses[_COUNTS] = plan.counts
    for at, offset in ((_PARTIAL_OUT, parts.partial_out), (_PARTIAL_LSE, parts.partial_lse), (_LSE, parts.lse)):
        if offset >= 0:
            addresses[at] = base + offset


def _picker(names: Sequence[str]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    return itemgetter(*(_NAMES.index(name) for name in names))
