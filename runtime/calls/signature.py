"""What of a tensor decides how a call is prepared, apart from its address; and what is kept under it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from ..limits import LARGEST_ALIGNMENT
from ..torch_here import is_torch

_ALIGNMENT_MASK = LARGEST_ALIGNMENT - 1
Value = TypeVar("Value")


def signature(tensor: Any) -> tuple[Hashable, int]:
    """(all that decides, address).  Raises NotATensor."""
    if is_torch(tensor):
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            raise _without_address(tensor) from None
        placed = address & _ALIGNMENT_MASK if address else None
        seen = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device, tensor.layout, tensor.is_neg(), placed)
        return seen, address
    from ..tensors import view  # Here and not above: calls on torch tensors do without.

    seen = view(tensor)
    return (*seen[1:], seen.address & _ALIGNMENT_MASK if seen.address else None), seen.address


def _without_address(tensor: Any) -> Exception:
    """Why a tensor has no memory of its own, such as a sparse one: `view` raises what it knows of it."""
    from ..tensors import NotATensor, view

    view(tensor)
    return NotATensor(f"a {type(tensor).__qualname__} without an address")


class Kept(dict[Hashable, Value], Generic[Value]):
    """A mapping of at most `most` entries.  Shapes come and go with the batch: when full it forgets its oldest half.

    Reading is a dictionary's own; only `keep` adds.  Safe to use from several threads.
    """

    def __init__(self, most: int):
        super().__init__()
        self._most = most
        self._lock = threading.Lock()

    def keep(self, key: Hashable, value: Value) -> None:
        """Add an entry, or replace the one of this key."""
        with self._lock:
            if len(self) >= self._most:
                for old in list(self)[: self._most // 2]:
                    self.pop(old, None)
            self[key] = value
