"""What of a tensor decides how a call is prepared, apart from its address: cheap to read, and hashable."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..contract import LARGEST_ALIGNMENT
from ..tensors import NotATensor, is_torch, view

_ALIGNMENT_MASK = LARGEST_ALIGNMENT - 1


def signature(tensor: Any) -> tuple[Hashable, int]:
    """(all that decides, address).  Raises NotATensor."""
    if is_torch(tensor):
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            # A tensor without memory of its own, such as a sparse one: `view` says what it is.
            view(tensor)
            raise NotATensor(f"a {type(tensor).__qualname__} without an address") from None
        placed = address & _ALIGNMENT_MASK if address else None
        seen = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device, tensor.layout, tensor.is_neg(), placed)
        return seen, address
    seen = view(tensor)
    return (*seen[1:], seen.address & _ALIGNMENT_MASK if seen.address else None), seen.address
