"""Storing rows into a paged cache and reconstructing them: what these calls need beyond their families' contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.bundle.faults import Fault

from ..errors import ArgumentError
from ..executing import Executor
from ..steering import Steering
from ..tensors import TENSORS, TensorView
from .decode_checks import integers, kv_format
from .single_launch import Call, Family, Shaped, SingleLaunch, Views

_OUTPUTS = ("k_out", "v_out")
# A cache of BF16 has none.
_SCALES = ("k_scale", "v_scale")


class KvCall:
    """The calls of one of the two families."""

    def __init__(self, executor: Executor, family: Family):
        self._calls = SingleLaunch(executor, family)

    def run(self, tensors: Mapping[str, Any], kv_format: Any, steering: Steering, stream: Any) -> None:
        """Launch.  kv_format: the caches' format where the caller names it, else None.  Raises as SingleLaunch does."""
        faults = [
            Fault(name, "None", TENSORS) for name, tensor in tensors.items() if tensor is None and name not in _SCALES
        ]
        if kv_format is not None and type(kv_format) is not str:
            faults.append(Fault("kv_format", repr(kv_format), "the name of a cache format, or None"))
        if faults:
            raise ArgumentError(faults)
        stated = {} if kv_format is None else {"kv_format": kv_format}
        self._calls.run(tensors, Call(stated, {}, {}), steering, stream, "k_cache")


def calls(executor: Executor) -> dict[str, KvCall]:
    """Both, by the family's name."""
    return {
        "kv_store": KvCall(executor, _STORE),
        "kv_reconstruct": KvCall(executor, _RECONSTRUCT),
    }


def _shaped_store(_executor: Executor, views: Views, _call: Call) -> Shaped:
    return Shaped(views, _facts(views), {}, {})


def _shaped_reconstruct(_executor: Executor, views: Views, _call: Call) -> Shaped:
    return Shaped(_first_rows(views), _facts(views), {}, {})


def _facts(views: Views) -> dict[str, Any]:
    return {"kv_format": kv_format(views), "slot_dtype": views["slots"].dtype}


def _first_rows(views: Views) -> Views:
    """The outputs cut to as many rows as there are slots: what lies behind is nobody's."""
    tokens = views["slots"].shape[0] if len(views["slots"].shape) == 1 else None
    faults, narrowed = [], dict(views)
    for name in _OUTPUTS:
        view = views[name]
        if tokens is None or len(view.shape) != 3:
            continue
        if view.shape[0] < tokens:
            faults.append(Fault(name, f"{view.shape[0]} rows", f"at least {tokens}, as slots has"))
        narrowed[name] = view._replace(shape=(tokens, *view.shape[1:]))
    if faults:
        raise ArgumentError(faults)
    return narrowed


def _check_stored(executor: Executor, views: Views, _call: Call) -> None:
    """Each slot in the cache or below 0, and none twice.  Raises ArgumentError."""
    slots = integers(executor.driver, views["slots"])
    faults = _behind(slots, views["k_cache"])
    first: dict[int, int] = {}
    for at, slot in enumerate(slots):
        if slot >= 0 and first.setdefault(slot, at) != at:
            given = f"slots[{at}]"
            faults.append(Fault(given, f"{slot}, as slots[{first[slot]}]", "each slot once", "its row would be both's"))
            break
    if faults:
        raise ArgumentError(faults)


def _check_listed(executor: Executor, views: Views, _call: Call) -> None:
    """Each slot in the cache or below 0.  Raises ArgumentError."""
    if faults := _behind(integers(executor.driver, views["slots"]), views["k_cache"]):
        raise ArgumentError(faults)


def _behind(slots: tuple[int, ...], cache: TensorView) -> list[Fault]:
    wrong = [(at, slot) for at, slot in enumerate(slots) if slot >= cache.shape[0]]
    if not wrong:
        return []
    at, slot = wrong[0]
    allowed = f"at most {cache.shape[0] - 1}, the cache's last slot; below 0 for padding"
    return [Fault(f"slots[{at}]", f"{slot} ({len(wrong)} such)", allowed)]


_STORE = Family("kv_store", _shaped_store, _check_stored)
_RECONSTRUCT = Family("kv_reconstruct", _shaped_reconstruct, _check_listed)
