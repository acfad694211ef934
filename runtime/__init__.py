"""What a serving engine uses: load a bundle, ask which kernel serves a call. No compiler, standard library only.

kernels = assay.runtime.load("gfx1201.assay", device=("hip", "gfx1201"))
kernels.supports("decode_attention", head_dim=128, gqa=8, ...)
selection = kernels.select("decode_attention", head_dim=128, gqa=8, ...)
"""

from .errors import (
    ArchitectureError,
    AssayRuntimeError,
    BundleLoadError,
    NoMatchError,
    ObjectError,
    UnknownFamilyError,
    UnknownFieldError,
    UnknownRowError,
)
from .kernels import Kernels, load

__all__ = [
    "ArchitectureError",
    "AssayRuntimeError",
    "BundleLoadError",
    "Kernels",
    "NoMatchError",
    "ObjectError",
    "UnknownFamilyError",
    "UnknownFieldError",
    "UnknownRowError",
    "load",
]
