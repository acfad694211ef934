"""What a call needs of its caller's framework: what its tensors are, its stream, and memory where none is given.

No framework is imported: a tensor of one can only be here if its caller has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from .limits import LARGEST_ALIGNMENT

_ALIGNMENT_MASK = LARGEST_ALIGNMENT - 1
# Handles below this are no addresses: 0 and 1 are the legacy default stream, 2 the thread's own.
_NAMED_STREAMS = (0, 1, 2)
_LOWEST_ADDRESS = 4096


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
    from .tensors import view  # Here and not above: calls on torch tensors do without.

    seen = view(tensor)
    return (*seen[1:], seen.address & _ALIGNMENT_MASK if seen.address else None), seen.address


def _without_address(tensor: Any) -> Exception:
    """Why a tensor has no memory of its own, such as a sparse one: `view` raises what it knows of it."""
    from .tensors import NotATensor, view

    view(tensor)
    return NotATensor(f"a {type(tensor).__qualname__} without an address")


def stream_handle(stream: Any, like: Any) -> int:
    """The stream to launch on, as the driver's handle: the one given, or the framework's current one.

    Takes a handle, a torch stream (`.cuda_stream`), or an object with `__cuda_stream__`.  Raises ArgumentError.
    """
    if stream is None:
        return _current(like)
    if hasattr(stream, "cuda_stream"):
        return stream.cuda_stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return (protocol() if callable(protocol) else protocol)[1]
    if type(stream) is int and (stream in _NAMED_STREAMS or stream >= _LOWEST_ADDRESS):
        return stream
    allowed = "a stream object, or the driver's handle (0, 1 and 2 are the default streams)"
    raise _error("stream", repr(stream), allowed, "a small number is a stream's id, not its handle")


def _current(like: Any) -> int:
    if not is_torch(like) or not like.is_cuda:
        return 0
    return torch_module()._C._cuda_getCurrentRawStream(like.get_device())


def used_on(tensor: Any, stream: int | None) -> None:
    """Memory is not given away before that stream (None: the framework's current one) has done what it has now."""
    if is_torch(tensor) and tensor.is_cuda:
        torch = torch_module()
        current = torch.cuda.current_stream(tensor.device)
        tensor.record_stream(
            current if stream is None else torch.cuda.ExternalStream(stream, device=tensor.device)
        )  # fmt: skip


def empty(like: Any, shape: tuple[int, ...], dtype: str, name: str, stream: int | None = None) -> Any:
    """A new tensor of `like`'s framework and device.  dtype as torch spells it.  Raises ArgumentError.

    stream: the one that will use it, where that is not the framework's current one: memory that the current one may
    still be working on must not be given to another.
    """
    if is_torch(like):
        torch = torch_module()
        if stream is None or not like.is_cuda:
            return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=like.device)):
            return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(like, numpy.ndarray):
        # numpy has no BF16: its bits.
        return numpy.empty(shape, numpy.dtype("uint16" if dtype == "bfloat16" else dtype))
    given = f"not given, and a {type(like).__qualname__} says nothing of how to make one"
    raise _error(name, given, "a buffer")


def _error(*fault: str) -> Exception:
    from assay.bundle.faults import Fault  # Here and not above: a call that is served does without them.

    from .errors import ArgumentError

    return ArgumentError([Fault(*fault)])
