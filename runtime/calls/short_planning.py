"""The short way from a decode call's tensors to both kernels: for torch tensors that keep the contract.

`ShortPlanner.make` gives the plan that `decode_planning.Planner` would, and None wherever that would raise or has more
to decide: partial buffers of the caller's, tensors of other frameworks, steered, unsplit or empty calls.  Nothing may
be planned here that is refused there, which `tests/runtime/test_short_planning.py` holds the two to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.bundle.opening import Doubt, Opened
from assay.bundle.picking import PickedRow, fields_asked, grid_size, picked

from ..frameworks import gpu_backend, torch_module
from ..limits import MOST_SPLITS
from ..prepared import Layout, Prepared
from ..steering import NOT_STEERED
from ..terms import Seen, Terms, contiguous_strides
from .decode_call import (
    ANY_ADDRESS,
    MERGE,
    MERGE_TENSORS,
    NAMES,
    STAGE_1,
    STAGE_1_TENSORS,
    UNSPLIT,
    Inputs,
    Options,
    Parts,
    Plan,
    numbers_hold,
)  # fmt: skip

if TYPE_CHECKING:
    from ..drivers.driver import Driver, Pointer
    from ..prepared import Loaded

_REQUIRED = {"q", "k_cache", "v_cache", "indptr", "indices", "q_positions", "out"}
_NOT_HERE = {"num_kv_splits", "partial_out", "partial_lse"}
_DTYPES = {
    "torch.bfloat16": ("bf16", 2), "torch.float16": ("f16", 2), "torch.float32": ("f32", 4), "torch.uint8": ("u8", 1),
    "torch.int8": ("i8", 1), "torch.int32": ("i32", 4), "torch.int64": ("i64", 8),
    "torch.float8_e4m3fn": ("e4m3fn", 1),
}  # fmt: skip
_FORMATS = {
    "bf16": "bf16", "u8": "fp8_per_token_head", "e4m3fn": "fp8_per_token_head", "i8": "int8_per_token_head"
}  # fmt: skip
# Ranks of a call that leaves out the dimension of the queries, which stands behind the requests.
_WITHOUT_ROWS = {"q": 3, "out": 3, "lse": 2, "q_positions": 1}
# What stage 1 has by KV head and the query heads that share it.
_BY_KV_HEAD = ("q", "partial_out", "partial_lse")
_LARGEST_I32 = 2**31 - 1


class ShortPlanner:
    """Plans for one loaded bundle on one device."""

    def __init__(self, opened: Opened, driver: Driver, loaded: Loaded, targets: Collection[str]):
        """targets: the names of those whose code runs on the device."""
        self._opened = opened
        self._driver = driver
        self._loaded = loaded
        self._targets = targets
        self._tables: dict[str, Any] = {}
        self._terms: dict[str, Terms] = {}

    def make(
        self, inputs: Inputs, options: Options, sm_scale: float, signatures: Sequence[Any], addresses: Sequence[int]
    ) -> Plan | None:
        """signatures, addresses: what `signature` says of the inputs, in their order.  Raises a driver's errors."""
        given = {name for name, tensor in zip(NAMES, inputs, strict=True) if tensor is not None}
        splits, steered = options.splits, options.steering is not NOT_STEERED
        if steered or not given >= _REQUIRED or given & _NOT_HERE or not numbers_hold(options, sm_scale):
            return None
        if splits is not None and not 1 <= splits <= MOST_SPLITS:
            return None
        try:
            return self._planned(self._seen(signatures, addresses), options)
        except (Doubt, AttributeError, LookupError, TypeError, ValueError):
            # All but Doubt are a manifest that is not what a builder writes; the long way decides there, too.
            return None

    def _seen(self, signatures: Sequence[Any], addresses: Sequence[int]) -> dict[str, Seen]:
        """The tensors given, with a dimension for the queries of a request.  Raises Doubt."""
        torch = torch_module()
        kind, index = self._driver.tensor_device
        hip, views = gpu_backend(torch) == "hip" if torch else False, {}
        for name, seen, address in zip(NAMES, signatures, addresses, strict=True):
            if seen is None:
                continue
            # Other frameworks' tensors have signatures of another length.
            if torch is None or len(seen) != 7:
                raise Doubt
            dtype, shape, strides, device, layout, negative, _ = seen
            here = "hip" if hip and device.type == "cuda" else device.type
            if negative or layout is not torch.strided or (here, device.index or 0) != (kind, index):
                raise Doubt
            spelled, item_bytes = _DTYPES[str(dtype)]
            shape = tuple(shape)
            if len(shape) == _WITHOUT_ROWS.get(name):
                # A stride over one element is never used.
                shape, strides = (shape[0], 1, *shape[1:]), (strides[0], 1, *strides[1:])
            views[name] = Seen(address, spelled, item_bytes, shape, strides)
        if not all(view.is_plain for view in views.values()):
            raise Doubt
        return views

    def _planned(self, given: dict[str, Seen], options: Options) -> Plan:
        views = given.copy()
        workspace = views.pop("workspace", None)
        batch, rows, q_heads, head_dim = _sizes(views["q"], 4)
        _, kv_heads, _ = _sizes(views["k_cache"], 3)
        if views["k_cache"].dtype != views["v_cache"].dtype or q_heads % kv_heads:
            raise Doubt
        facts = {
            "q_dtype": views["q"].dtype,
            "head_dim": head_dim,
            "kv_format": _FORMATS[views["k_cache"].dtype],
            "slot_dtype": views["indices"].dtype,
            "window": options.window is not None,
            "soft_cap": options.logit_cap is not None,
        }
        scalars = {"sm_scale"}
        scalars |= {"window_length"} if facts["window"] else set()
        scalars |= {"logit_cap"} if facts["soft_cap"] else set()

        def stage_1(parts: Parts, base: int, counts: int) -> _Call:
            filled = {"num_kv_splits": Seen(counts, "i32", 4, (batch,), (1,)), **_placed(parts, base)}
            tensors = {name: filled.get(name) or views[name] for name in STAGE_1_TENSORS if name in {*filled, *views}}
            return self._call(STAGE_1, _by_kv_head(tensors, kv_heads), scalars, facts, {})

        splits = options.splits
        if splits is None:
            probed = stage_1(Parts((batch, rows, q_heads, 1, head_dim), views), ANY_ADDRESS, ANY_ADDRESS)
            splits = self._splits(probed, batch, kv_heads, views["indices"].shape[0], head_dim)
        if UNSPLIT in self._opened.manifest["families"] and self._may_be_one(splits, options, views):
            # One kernel or two: what decides it is more than a row's conditions.
            raise Doubt
        parts = Parts((batch, rows, q_heads, splits, head_dim), views)
        if workspace is not None and not _is_room(workspace, parts):
            raise Doubt
        base = ANY_ADDRESS if workspace is None else workspace.address
        counts = self._driver.filled_i32(splits, batch)
        first = self._prepared(stage_1(parts, base, counts))
        tensors = {**views, **_placed(parts, base), "num_kv_splits": Seen(counts, "i32", 4, (batch,), (1,))}
        tensors = {name: tensors[name] for name in MERGE_TENSORS if name in tensors}
        dims = {"batch": batch, "rows": rows, "q_heads": q_heads, "head_dim": head_dim}
        facts = {"out_dtype": views["out"].dtype, "head_dim": head_dim, "sinks": "sinks" in views}
        merge = self._prepared(self._call(MERGE, tensors, set(), facts, dims))
        return Plan((first, merge), parts, counts, given, whole=False)

    def _splits(self, call: _Call, batch: int, kv_heads: int, keys: int, head_dim: int) -> int:
        """As many as fill the device."""
        from .splits import default_splits, worth_having

        row = call.row
        resident = self._driver.resident_groups(self._loaded.function(row))
        workgroups = self._driver.processors * worth_having(resident, row.lds_bytes)
        return default_splits(workgroups, batch, kv_heads, keys, head_dim, row.launch["block_n"])

    def _may_be_one(self, splits: int, options: Options, views: Mapping[str, Seen]) -> bool:
        """Whether one kernel may answer the call."""
        if options.splits is not None or splits == 1:
            return splits == 1
        from .splits import gains

        shape, cache, keys = views["q"].shape, views["k_cache"], views["indices"].shape[0]
        gained = gains(splits, shape, cache.shape[1], keys, cache.item_bytes, self._driver.processors)
        return shape[1] == 1 and not gained

    def _call(
        self, family: str, tensors: dict[str, Seen], scalars: set[str], facts: dict[str, Any], dims: dict[str, int]
    ) -> _Call:
        """The row for a call that keeps its contract.  Raises Doubt."""
        if family not in self._terms:
            self._tables[family] = self._opened.table(family)
            self._terms[family] = Terms(self._opened.manifest["families"][family])
        terms, table = self._terms[family], self._tables[family]
        if not tensors.keys() <= terms.pointers.keys() or not terms.shapes_hold(tensors, dims):
            raise Doubt
        told = terms.facts(tensors, dims)
        if any(told.get(name, value) != value for name, value in facts.items()):
            raise Doubt
        asked = fields_asked(table)
        request = {name: value for name, value in {**told, **facts}.items() if name in asked}
        row = picked(table, family, request, self._targets)
        if row is None or not terms.types_hold(tensors, {**told, **facts}):
            raise Doubt
        wanted = {a.name for a in row.arguments if a.kind == "pointer" or a.name in terms.scalars}
        if wanted != {*tensors, *scalars}:
            raise Doubt
        return _Call(row, terms, tensors, dims)

    def _prepared(self, call: _Call) -> Prepared:
        """The call's kernel, loaded and bound to its shapes.  Raises Doubt."""
        row, terms, tensors = call.row, call.terms, call.tensors

        def number_of(name: str) -> int:
            number = terms.number_of(name, tensors)
            if number > _LARGEST_I32 and name in short:
                raise Doubt
            return number

        short = {argument.name for argument in row.arguments if argument.kind == "i32"}
        watched = _watched(call) if self._driver.watches_memory else ()
        layout = Layout(row.arguments, terms.scalars, number_of, watched)
        x, y, z = [grid_size(axis, call.dims) for axis in row.grid] + [1] * (3 - len(row.grid))
        if any(size > limit for size, limit in zip((x, y, z), self._driver.grid_limit, strict=True)):
            raise Doubt
        function, used = self._loaded.function(row), self._loaded.used(row.id)
        return Prepared(row, function, self._driver, layout, (x, y, z), used)


class _Call:
    """A row, and what it is to be bound to."""

    __slots__ = ("dims", "row", "tensors", "terms")

    def __init__(self, row: PickedRow, terms: Terms, tensors: dict[str, Seen], dims: dict[str, int]):
        self.row = row
        self.terms = terms
        self.tensors = tensors
        self.dims = dims


def _watched(call: _Call) -> tuple[Pointer, ...]:
    """What each pointer may reach, for drivers that keep watch."""
    from ..drivers.driver import Pointer

    tensors, pointers = call.tensors, call.terms.pointers
    return tuple(
        Pointer(a.name, a.offset, tensors[a.name].extent_bytes, pointers[a.name]["role"] != "input")
        for a in call.row.arguments
        if a.kind == "pointer"
    )


def _sizes(view: Seen, rank: int) -> tuple[int, ...]:
    if len(view.shape) != rank:
        raise Doubt
    return view.shape


def _placed(parts: Parts, base: int) -> dict[str, Seen]:
    return {
        name: Seen(address, "f32", 4, shape, contiguous_strides(shape))
        for name, (address, shape) in parts.placed(base).items()
    }


def _is_room(workspace: Seen, parts: Parts) -> bool:
    """Whether a caller's workspace is dense, aligned and large enough."""
    dense = workspace.strides == contiguous_strides(workspace.shape)
    return dense and workspace.extent_bytes >= parts.size and workspace.address % 16 == 0


def _by_kv_head(views: Mapping[str, Seen], kv_heads: int) -> dict[str, Seen]:
    """What stage 1 takes: [.., q_heads, ..] as [.., kv_heads, gqa, ..]."""
    return {name: _split(view, kv_heads) if name in _BY_KV_HEAD else view for name, view in views.items()}


def _split(view: Seen, kv_heads: int) -> Seen:
    (batch, rows, heads, *rest), (per_batch, per_row, stride, *inner) = view.shape, view.strides
    gqa = heads // kv_heads
    shape, strides = (batch, rows, kv_heads, gqa, *rest), (per_batch, per_row, gqa * stride, stride, *inner)
    return Seen(view.address, view.dtype, view.item_bytes, shape, strides)
