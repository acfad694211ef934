"""Decode attention as an operator of PyTorch, so that `torch.compile` and graph capture see one opaque call.

    handle = torch_ops.register(kernels)
    out = torch.ops.assay.decode_attention(handle, q, k_cache, v_cache, indptr, indices, q_positions, sm_scale)

Imports torch; nothing else of the runtime does.
"""

from __future__ import annotations

import itertools
import threading
import weakref

import torch

from .errors import AssayRuntimeError
from .kernels import Kernels

_registered: weakref.WeakValueDictionary[int, Kernels] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_lock = threading.Lock()


class UnknownHandleError(AssayRuntimeError):
    """The operator was called with a number that `register` did not give, or whose kernels are gone."""


def register(kernels: Kernels) -> int:
    """A number that stands for loaded kernels in the operator's calls, which take no Python objects.

    The same kernels always get the same number.  They are not kept alive by it.
    """
    with _lock:
        for handle, known in _registered.items():
            if known is kernels:
                return handle
        # Never given again: a compiled graph may still hold the number of kernels that are gone.
        handle = next(_numbers)
        _registered[handle] = kernels
        return handle


@torch.library.custom_op("assay::decode_attention", mutates_args=())
def decode_attention(
    kernels: int,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indptr: torch.Tensor,
    indices: torch.Tensor,
    q_positions: torch.Tensor,
    sm_scale: float,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    sliding_window: int | None = None,
    sinks: torch.Tensor | None = None,
    num_splits: int | None = None,
    logit_cap: float | None = None,
) -> torch.Tensor:
    """`Kernels.decode_attention` of the kernels that `register` gave the number for; returns a new tensor."""
    loaded = _registered.get(kernels)
    if loaded is None:
        raise UnknownHandleError(f"no kernels are registered under {kernels}: call torch_ops.register, and keep them")
    return loaded.decode_attention(
        q, k_cache, v_cache, indptr, indices, q_positions, sm_scale, k_scale=k_scale, v_scale=v_scale,
        sliding_window=sliding_window, logit_cap=logit_cap, sinks=sinks, num_splits=num_splits,
    )  # fmt: skip


@decode_attention.register_fake
def _fake(
    kernels: int,  # noqa: ARG001 - the operator's own signature
    q: torch.Tensor,
    *rest: object,  # noqa: ARG001
    **more: object,  # noqa: ARG001
) -> torch.Tensor:
    """What comes out, without computing it: BF16 of q's shape, dense."""
    return torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
