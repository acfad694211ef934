"""Prefill attention of a ragged batch's new tokens over a contiguous history and their own chunk.

out = softmax(sm_scale * q @ K^T) @ V        for each new token over its request's history and its chunk up to itself
"""

import itertools
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from assay.bundle.faults import Fault

from ..errors import ArgumentError
from ..executing import Executor, Steering
from ..launching import Prepared
from ..tensors import TENSORS, NotATensor, TensorView
from .decode_checks import cap_faults, float_name, integers, window_faults
from .frameworks import empty, stream_handle, used_on
from .signature import Kept, signature

FAMILY = "extend_attention"
# Shapes change with every batch, but not from layer to layer.
_PREPARED_KEPT = 256
_LARGEST_F32 = 3.4028234663852886e38
_RANKS = {
    "q": ("tokens", "q_heads", "head_dim"),
    "k_new": ("tokens", "kv_heads", "head_dim"),
    "q_indptr": ("batch + 1",),
}
_HISTORY = ("k_hist", "v_hist", "hist_indptr")


class Tensors(NamedTuple):
    """The tensors of a call; None: not given.  Without a history all three of its tensors are None."""

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


class Options(NamedTuple):
    """Numbers of a call.  max_chunk: tokens of its longest chunk; window and logit_cap: None where there is none."""

    sm_scale: float
    max_chunk: int
    window: int | None
    logit_cap: float | None


class _Ready(NamedTuple):
    """A call's kernel, its query heads a KV head, and addresses of what the call itself does not bring."""

    kernel: Prepared
    gqa: int
    addresses: Mapping[str, int]


class ExtendAttention:
    """The calls of one loaded bundle.  Safe to use from several threads."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._ready: Kept[_Ready] = Kept(_PREPARED_KEPT)

    def run(self, tensors: Tensors, options: Options, steering: Steering, stream: Any) -> Any:
        """Launch the kernel; returns `out`.  Raises before anything is launched."""
        faults = _missing(tensors) + _number_faults(options)
        if faults:
            raise ArgumentError(faults)
        self._executor.driver.check_usable()
        handle = None if stream is None else stream_handle(stream, tensors.q)
        tensors = _with_outputs(tensors, handle)
        key, addresses = _key(tensors)
        key = (options.max_chunk, options.window is None, options.logit_cap is None, steering, *key)
        ready = self._ready.get(key)
        if ready is None:
            ready = self._prepare(tensors, options, steering)
            self._ready.keep(key, ready)
        if self._executor.debug:
            _check_contents(self._executor, tensors, options)
        if 0 not in ready.kernel.grid:
            numbers = {"sm_scale": options.sm_scale, "gqa": ready.gqa}
            numbers |= {"window_length": options.window, "logit_cap": options.logit_cap}
            addresses |= ready.addresses
            ready.kernel.launch(
                [addresses[name] for name in ready.kernel.pointer_names],
                [numbers[name] for name in ready.kernel.scalar_names],
                stream_handle(None, tensors.q) if handle is None else handle,
            )
        return tensors.out

    def _prepare(self, tensors: Tensors, options: Options, steering: Steering) -> _Ready:
        """Check the call, choose a row and load it.  Raises ArgumentError, NoMatchError and loading errors."""
        views = self._executor.views(FAMILY, {name: t for name, t in tensors._asdict().items() if t is not None})
        gqa = _group(views, options)
        made = {}
        if "k_hist" not in views:
            # Any rows will do where each request takes none of them.
            made = self._no_history(views)
            views |= made
        scalars = {"sm_scale": options.sm_scale, "gqa": gqa}
        scalars |= {} if options.window is None else {"window_length": options.window}
        scalars |= {} if options.logit_cap is None else {"logit_cap": options.logit_cap}
        facts = {
            "q_dtype": float_name(views["q"].dtype),
            "window": options.window is not None,
            "sinks": "sinks" in views,
            "soft_cap": options.logit_cap is not None,
        }
        dims = {"max_rows": options.max_chunk * gqa}
        kernel = self._executor.prepare(FAMILY, views, scalars, facts, steering, dims)
        # The chunk's own rows stand in for the history's: their addresses are the call's.
        return _Ready(kernel, gqa, {name: view.address for name, view in made.items() if name == "hist_indptr"})

    def _no_history(self, views: Mapping[str, TensorView]) -> dict[str, TensorView]:
        count = views["q_indptr"].shape[0]
        address = self._executor.driver.filled_i32(0, count)
        indptr = TensorView(address, "i32", (count,), (1,), views["q_indptr"].device)
        return {"k_hist": views["k_new"], "v_hist": views["v_new"], "hist_indptr": indptr}


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
    number = isinstance(options.sm_scale, int | float) and not isinstance(options.sm_scale, bool)
    # Comparisons take integers of any size, and are false for NaN.
    if not (number and 0 < options.sm_scale <= _LARGEST_F32):
        faults.append(Fault("sm_scale", f"{options.sm_scale!r:.40}", "a finite number above 0 that FP32 can hold"))
    if type(options.max_chunk) is not int or options.max_chunk < 0:
        faults.append(Fault("max_chunk", f"{options.max_chunk!r:.40}", "the tokens of the longest chunk"))
    return faults


def _group(views: Mapping[str, TensorView], options: Options) -> int:
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
    if options.max_chunk > tokens:
        faults.append(Fault("max_chunk", f"{options.max_chunk}", f"at most {tokens}, the tokens of all requests"))
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


def _key(tensors: Tensors) -> tuple[list[Hashable], dict[str, int]]:
    """All of the tensors that decides how the call is prepared, and every tensor's address."""
    parts: list[Hashable] = []
    addresses: dict[str, int] = {}
    for name, tensor in zip(Tensors._fields, tensors, strict=True):
        if tensor is None:
            parts.append(None)
            continue
        try:
            seen, addresses[name] = signature(tensor)
        except NotATensor as error:
            raise ArgumentError([Fault(name, str(error), TENSORS)]) from None
        parts.append(seen)
    if tensors.k_hist is None:
        addresses |= {"k_hist": addresses["k_new"], "v_hist": addresses["v_new"]}
    return parts, addresses


def _check_contents(executor: Executor, tensors: Tensors, options: Options) -> None:
    """What only the offsets themselves tell; waits for the device.  Raises ArgumentError."""
    given = {name: tensor for name, tensor in tensors._asdict().items() if tensor is not None}
    views = executor.views(FAMILY, given)
    faults = []
    for name, rows in (("q_indptr", "q"), ("hist_indptr", "k_hist")):
        if name not in views:
            continue
        offsets, most = integers(executor.driver, views[name]), views[rows].shape[0]
        lengths = [after - before for before, after in itertools.pairwise(offsets)]
        if offsets[0] < 0 or offsets[-1] > most or any(length < 0 for length in lengths):
            faults.append(Fault(name, f"{list(offsets[:8])}", f"ascending from 0 to at most {most}"))
        elif name == "q_indptr" and max(lengths, default=0) > options.max_chunk:
            allowed = f"at least {max(lengths)}, as q_indptr has it"
            faults.append(Fault("max_chunk", f"{options.max_chunk}", allowed))
    if faults:
        raise ArgumentError(faults)
