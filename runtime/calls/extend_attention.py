"""Prefill attention of a ragged batch's new tokens over a contiguous history and their own chunk.

out = softmax(sm_scale * q @ K^T) @ V        for each new token over its request's history and its chunk up to itself
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from assay.bundle.faults import Fault
from assay.bundle.record import Record

from ..errors import ArgumentError
from ..executing import Executor
from ..frameworks import empty, stream_handle, used_on
from ..steering import Steering
from ..tensors import TensorView
from .decode_checks import cap_faults, float_name, integers, scale_faults, window_faults
from .single_launch import Call, Family, Shaped, SingleLaunch, Views

_RANKS = {
    "q": ("tokens", "q_heads", "head_dim"),
    "k_new": ("tokens", "kv_heads", "head_dim"),
    "q_indptr": ("batch + 1",),
}
_HISTORY = ("k_hist", "v_hist", "hist_indptr")


class Tensors(Record):
    """The tensors of a call; None: not given.  Without a history all three of its tensors are None."""

    __slots__ = ()

    q: Any
    k_new: Any
    v_new: Any
    q_indptr: Any
    k_hist: Any
    v_hist: Any
    hist_indptr: Any
    sinks: Any
    out: Any
    lse: Any


class Options(Record):
    """Numbers of a call.  max_chunk: tokens of its longest chunk; window and logit_cap: None where there is none."""

    __slots__ = ()

    sm_scale: float
    max_chunk: int
    window: int | None
    logit_cap: float | None


class ExtendAttention:
    """The calls of one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._calls = SingleLaunch(executor, _FAMILY)

    def run(self, tensors: Tensors, options: Options, steering: Steering, stream: Any) -> Any:
        """Launch the kernel; returns `out`.  Raises as SingleLaunch does."""
        faults = _missing(tensors) + _number_faults(options)
        if faults:
            raise ArgumentError(faults)
        self._executor.driver.check_usable()
        handle = None if stream is None else stream_handle(stream, tensors.q)
        tensors = _with_outputs(tensors, handle)
        given = dict(zip(Tensors._fields, tensors, strict=True))
        self._calls.run(given, _call(options), steering, handle, "q")
        return tensors.out


def _call(options: Options) -> Call:
    numbers = {"sm_scale": options.sm_scale, "window_length": options.window, "logit_cap": options.logit_cap}
    facts = {"window": options.window is not None, "soft_cap": options.logit_cap is not None}
    scalars = {name: number for name, number in numbers.items() if number is not None}
    return Call(facts, scalars, {"max_chunk": options.max_chunk})


def _shaped(executor: Executor, views: Views, call: Call) -> Shaped:
    max_chunk = call.sizes["max_chunk"]
    gqa = _group(views, max_chunk)
    facts = {"q_dtype": float_name(views["q"].dtype), "sinks": "sinks" in views}
    if "k_hist" not in views:
        views = views | _no_history(executor, views)
    return Shaped(views, facts, {"gqa": gqa}, {"max_rows": max_chunk * gqa})


def _no_history(executor: Executor, views: Views) -> Views:
    """A history of no row, of which each request has none: nothing of it is read."""
    count, device = views["q_indptr"].shape[0], views["q_indptr"].device
    rows = {
        f"{name}_hist": new._replace(address=0, shape=(0, *new.shape[1:]))
        for name in "kv"
        for new in (views[f"{name}_new"],)
    }
    return {**rows, "hist_indptr": TensorView(executor.driver.filled_i32(0, count), "i32", (count,), (1,), device)}


def _missing(tensors: Tensors) -> list[Fault]:
    required = ("q", "k_new", "v_new", "q_indptr")
    faults = [Fault(name, "None", "a tensor") for name in required if getattr(tensors, name) is None]
    absent = [name for name in _HISTORY if getattr(tensors, name) is None]
    if len(absent) < len(_HISTORY):
        faults += [Fault(name, "None", f"a tensor, or none of {', '.join(_HISTORY)}") for name in absent]
    return faults


def _number_faults(options: Options) -> list[Fault]:
    """What any call must keep of its numbers."""
    faults = window_faults(options.window) + cap_faults(options.logit_cap)
    faults += scale_faults(options.sm_scale, positive=True)
    if type(options.max_chunk) is not int or options.max_chunk < 0:
        faults.append(Fault("max_chunk", f"{options.max_chunk!r:.40}", "the tokens of the longest chunk"))
    return faults


def _group(views: Mapping[str, TensorView], max_chunk: int) -> int:
    """Query heads a KV head, of a call whose sizes fit together.  Raises ArgumentError."""
    faults = [
        Fault(name, f"{len(views[name].shape)} dimensions", f"{len(words)}: [{', '.join(words)}]")
        for name, words in _RANKS.items()
        if len(views[name].shape) != len(words)
    ]
    if faults:
        raise ArgumentError(faults)
    tokens, q_heads, _ = views["q"].shape
    kv_heads = views["k_new"].shape[1]
    if kv_heads == 0 or q_heads == 0 or q_heads % kv_heads:
        faults.append(Fault("q", f"{q_heads} query heads for {kv_heads} KV heads", "a multiple of the KV heads"))
    if max_chunk > tokens:
        faults.append(Fault("max_chunk", f"{max_chunk}", f"at most {tokens}, the tokens of all requests"))
    if faults:
        raise ArgumentError(faults)
    return q_heads // kv_heads


def _with_outputs(tensors: Tensors, stream: int | None) -> Tensors:
    """Outputs that the caller did not give, made by q's framework."""
    if tensors.out is None:
        shape = tuple(tensors.q.shape) if hasattr(tensors.q, "shape") else ()
        tensors = tensors._replace(out=empty(tensors.q, shape, "bfloat16", "out", stream))
        if stream is not None:
            used_on(tensors.out, None)
    if tensors.lse is None:
        shape = tuple(tensors.out.shape[:2])
        tensors = tensors._replace(lse=empty(tensors.q, shape, "float32", "lse", stream))
    return tensors


def _check_contents(executor: Executor, views: Views, call: Call) -> None:
    """What only the offsets themselves tell; waits for the device.  Raises ArgumentError."""
    max_chunk = call.sizes["max_chunk"]
    faults = []
    for name, rows in (("q_indptr", "q"), ("hist_indptr", "k_hist")):
        if name not in views:
            continue
        offsets, most = integers(executor.driver, views[name]), views[rows].shape[0]
        lengths = [after - before for before, after in itertools.pairwise(offsets)]
        if offsets[0] < 0 or offsets[-1] > most or any(length < 0 for length in lengths):
            faults.append(Fault(name, f"{list(offsets[:8])}", f"ascending from 0 to at most {most}"))
        elif name == "q_indptr" and max(lengths, default=0) > max_chunk:
            faults.append(Fault("max_chunk", f"{max_chunk}", f"at least {max(lengths)}, as q_indptr has it"))
    if faults:
        raise ArgumentError(faults)


_FAMILY = Family("extend_attention", _shaped, _check_contents)
