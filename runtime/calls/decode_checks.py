"""What a decode call must keep beyond its contract, and the facts that dispatch asks for."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Mapping
from typing import Any

from assay.bundle.faults import Fault

from ..drivers.driver import Driver
from ..errors import ArgumentError
from ..tensors import TensorView
from .decode_call import LARGEST_CAP, LARGEST_WINDOW, SMALLEST_CAP, Options, is_cap, is_scale, is_window

_RANKS = {
    "k_cache": ("slots", "kv_heads", "head_dim"),
    "v_cache": ("slots", "kv_heads", "head_dim"),
    "indptr": ("batch + 1",),
    "indices": ("keys",),
}
# A call with one query a request may leave the dimension of the queries out.
_QUERY_RANKS = {"q": ("batch", "rows", "q_heads", "head_dim"), "q_positions": ("batch", "rows")}
_FORMATS = {"bf16": "bf16", "f16": "f16", "u16": "bf16"}
_ROW_SCALED = {"u8": "fp8_per_token_head", "e4m3fn": "fp8_per_token_head", "i8": "int8_per_token_head"}


class Sizes:
    """A call's dimensions.  keys: of all requests together."""

    __slots__ = ("batch", "head_dim", "keys", "kv_heads", "q_heads", "rows")

    def __init__(self, batch: int, rows: int, q_heads: int, kv_heads: int, head_dim: int, keys: int):
        self.batch = batch
        self.rows = rows
        self.q_heads = q_heads
        self.kv_heads = kv_heads
        self.head_dim = head_dim
        self.keys = keys


def check_call(views: Mapping[str, TensorView], window: Any, splits: Any, most_splits: int) -> Sizes:
    """The sizes of a call whose tensors fit together.  Raises ArgumentError with everything wrong.

    views: as `decode_shapes.with_rows` leaves them.
    """
    faults = [
        Fault(
            name, f"{len(views[name].shape)} dimensions",
            f"{len(words) - 1} or {len(words)}: [{', '.join(words)}], rows left out where it is 1",
        )
        for name, words in _QUERY_RANKS.items()
        if len(views[name].shape) != len(words)
    ]  # fmt: skip
    faults += [
        Fault(name, f"{len(views[name].shape)} dimensions", f"{len(words)}: [{', '.join(words)}]")
        for name, words in _RANKS.items()
        if len(views[name].shape) != len(words)
    ]
    if faults:
        raise ArgumentError(faults)
    batch, rows, q_heads, head_dim = views["q"].shape
    kv_heads = views["k_cache"].shape[1]
    if kv_heads == 0 or q_heads % kv_heads or q_heads == 0:
        faults.append(Fault("q", f"{q_heads} query heads for {kv_heads} KV heads", "a multiple of the KV heads"))
    faults += _row_scale_faults(views)
    faults += window_faults(window)
    if splits is not None and (type(splits) is not int or not 1 <= splits <= most_splits):
        faults.append(Fault("num_splits", repr(splits), f"1 to {most_splits}; decode_paged_attention takes a tensor"))
    if faults:
        raise ArgumentError(faults)
    return Sizes(batch, rows, q_heads, kv_heads, head_dim, views["indices"].shape[0])


def window_faults(window: Any) -> list[Fault]:
    """What is wrong with a window, if anything is."""
    if is_window(window):
        return []
    return [Fault("sliding_window", repr(window), f"None, or 1 to {LARGEST_WINDOW} keys (the query's own included)")]


def cap_faults(cap: Any) -> list[Fault]:
    """What is wrong with a cap, if anything is."""
    if is_cap(cap):
        return []
    return [Fault("logit_cap", f"{cap!r:.40}", f"None, or a number from {SMALLEST_CAP:g} to {LARGEST_CAP:g}")]


def scale_faults(sm_scale: Any, *, positive: bool = False) -> list[Fault]:
    """What is wrong with the scores' factor, if anything is.  positive: it must be above 0."""
    if is_scale(sm_scale) and (sm_scale > 0 or not positive):
        return []
    allowed = f"a finite number{' above 0' if positive else ''} that FP32 can hold"
    return [Fault("sm_scale", f"{sm_scale!r:.40}", allowed)]


def number_error(options: Options, sm_scale: Any) -> ArgumentError:
    """What is wrong with the numbers of a call, of which `numbers_hold` is not true."""
    return ArgumentError(window_faults(options.window) + cap_faults(options.logit_cap) + scale_faults(sm_scale))


def _row_scale_faults(views: Mapping[str, TensorView]) -> list[Fault]:
    """Codes need scales, both caches one format."""
    faults = []
    k, v = (views[name].dtype for name in ("k_cache", "v_cache"))
    if k != v:
        faults.append(Fault("v_cache", f"elements of {v}", f"{k}, as k_cache has"))
    for name in ("k_scale", "v_scale"):
        if k in _ROW_SCALED and name not in views:
            faults.append(Fault(name, "not given", f"FP32 [slots, kv_heads], as the caches hold {k} codes"))
        if k in _FORMATS and name in views:
            faults.append(Fault(name, "given", f"none: the caches hold {k}"))
    return faults


def kv_format(views: Mapping[str, TensorView]) -> str:
    """The cache format's name; an element type that is no format's stands for itself, so that dispatch refuses it."""
    dtype = views["k_cache"].dtype
    return _ROW_SCALED.get(dtype) or _FORMATS.get(dtype) or dtype


def float_name(dtype: str) -> str:
    """The element type that a numpy array of raw bits stands for."""
    return "bf16" if dtype == "u16" else dtype


def check_contents(driver: Driver, views: Mapping[str, TensorView], splits: int) -> None:
    """What only the tensors' contents tell; waits for the device.  Raises ArgumentError."""
    indptr = integers(driver, views["indptr"])
    indices = integers(driver, views["indices"])
    positions = integers(driver, views["q_positions"])
    counts = integers(driver, views["num_kv_splits"]) if "num_kv_splits" in views else ()
    slots = views["k_cache"].shape[0]
    faults = []
    if indptr[0] < 0 or any(b < a for a, b in itertools.pairwise(indptr)) or indptr[-1] > len(indices):
        faults.append(Fault("indptr", f"{_some(indptr)}", f"ascending from 0 to at most {len(indices)}"))
    else:
        used = indices[indptr[0] : indptr[-1]]
        faults += _outside("indices", used, 0, slots - 1, "slots of the caches")
    # The first of several queries stands this far before the first key of a request that has none.
    rows = math.prod(views["q_positions"].shape[1:])
    faults += _outside("q_positions", positions, -rows, 2**31 - 2, "positions")
    faults += _outside("num_kv_splits", counts, 1, splits, "splits that the partial results have room for")
    if faults:
        raise ArgumentError(faults)


def _outside(name: str, values: tuple[int, ...], low: int, high: int, what: str) -> list[Fault]:
    wrong = [(at, value) for at, value in enumerate(values) if not low <= value <= high]
    if not wrong:
        return []
    at, value = wrong[0]
    return [Fault(f"{name}[{at}]", f"{value} ({len(wrong)} such)", f"{low} to {high}, {what}")]


def _some(values: tuple[int, ...]) -> str:
    return str(list(values[:8])) + (" …" if len(values) > 8 else "")


def integers(driver: Driver, view: TensorView) -> tuple[int, ...]:
    """What a dense int32 or int64 tensor holds; waits for the device."""
    code = {"i32": "i", "i64": "q"}[view.dtype]
    count = math.prod(view.shape)
    return struct.unpack(f"<{count}{code}", driver.read(view.address, count * view.item_bytes)) if count else ()
