"""What a serving engine uses: load a bundle, pick kernels, launch them. No compiler, standard library only.

kernels = assay.runtime.load("sm90.assay", device="cuda:0")
kernels.require("decode_attention", head_dim=128, gqa=8, ...)       # at configuration time
out = kernels.decode_attention(q, k_cache, v_cache, indptr, indices, q_positions, sm_scale)
"""

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
from .kernels import Kernels, load

__all__ = [
    "ArchitectureError",
    "ArgumentError",
    "AssayRuntimeError",
    "BundleLoadError",
    "Kernels",
    "MissingFieldError",
    "NoMatchError",
    "NotLoadedError",
    "ObjectError",
    "UnknownFamilyError",
    "UnknownFieldError",
    "UnknownRowError",
    "load",
]
