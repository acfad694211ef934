"""What a serving engine uses: load a bundle, pick kernels, launch them. No compiler, standard library only.

kernels = assay.runtime.load("sm90.assay", device="cuda:0")
kernels.require("decode_attention", head_dim=128, gqa=8, ...)       # at configuration time
out = kernels.decode_attention(q, k_cache, v_cache, indptr, indices, q_positions, sm_scale)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kernels import Kernels, load

if TYPE_CHECKING:
    from .errors import (
        ArchitectureError,
        ArgumentError,
        AssayRuntimeError,
        BundleLoadError,
        MissingFieldError,
        NoMatchError,
        NotLoadedError,
        ObjectError,
        UnknownFamilyError,
        UnknownFieldError,
        UnknownRowError,
    )
    from .kv_memory import KV_FORMATS, KVBytes, kv_bytes

__all__ = [
    "KV_FORMATS",
    "ArchitectureError",
    "ArgumentError",
    "AssayRuntimeError",
    "BundleLoadError",
    "KVBytes",
    "Kernels",
    "MissingFieldError",
    "NoMatchError",
    "NotLoadedError",
    "ObjectError",
    "UnknownFamilyError",
    "UnknownFieldError",
    "UnknownRowError",
    "kv_bytes",
    "load",
]
_OF_KV_MEMORY = frozenset({"KV_FORMATS", "KVBytes", "kv_bytes"})


def __getattr__(name: str) -> Any:
    """What no call that is served needs is imported when it is first asked for."""
    if name in _OF_KV_MEMORY:
        from . import kv_memory as home
    elif name in __all__:
        from . import errors as home
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(home, name)
    return value
