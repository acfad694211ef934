"""torch, where the caller has imported it: a tensor of torch can only be here then."""

from __future__ import annotations

import sys
from typing import Any


def torch_module() -> Any:
    """torch where the caller has imported it, else None."""
    return sys.modules.get("torch")


def is_torch(tensor: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def gpu_backend(torch: Any) -> str:
    """What torch's 'cuda' devices are: 'hip' in a ROCm build, else 'cuda'."""
    return "hip" if getattr(torch.version, "hip", None) else "cuda"
