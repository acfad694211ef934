"""One view of a tensor for every framework: address, element type, shape and strides, device.

Taken from torch tensors, numpy arrays, anything with `__cuda_array_interface__`, and DLPack.  No framework is imported:
a tensor of one can only be here if its caller has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

from assay.bundle.record import Record

from .frameworks import gpu_backend, is_torch, torch_module
from .terms import contiguous_strides

# Element types of the kernels' contracts and those that callers hold instead; sizes in bytes.
ITEM_BYTES = {
    "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "e4m3fn": 1, "e4m3fnuz": 1, "e5m2": 1, "e5m2fnuz": 1, "bool": 1,
    "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip
_NAMES = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "e4m3fn",
    "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2": "e5m2", "float8_e5m2fnuz": "e5m2fnuz", "bool": "bool",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
_TYPESTR_KINDS = {"f": "f", "i": "i", "u": "u"}


# The number of a device that an array with `__cuda_array_interface__` keeps to itself.
NOT_TOLD = -1
# What a message says is taken for a tensor.
TENSORS = "a torch tensor, a numpy array, or an object with __cuda_array_interface__ or __dlpack__"


class NotATensor(TypeError):
    """The object is none of the tensors that can be read."""


class TensorView(Record):
    """A strided tensor in some device's memory.  strides in elements; device as ('cuda', 0), ('hip', 0), ('cpu', 0).

    A device numbered NOT_TOLD: the array does not say, and the driver knows by the address.
    """

    __slots__ = ()

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: tuple[str, int]
    read_only: bool = False

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def extent_bytes(self) -> int:
        """Bytes from the lowest element to behind the highest; 0 where there is no element."""
        if 0 in self.shape:
            return 0
        steps = sum((size - 1) * abs(stride) for size, stride in zip(self.shape, self.strides, strict=True))
        return (steps + 1) * self.item_bytes

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)} with strides {list(self.strides)} on {self.device[0]}:{self.device[1]}"


def view(tensor: Any) -> TensorView:
    """The tensor as a view.  Raises NotATensor, also for what a tensor's own description trips over."""
    try:
        seen = _described(tensor)
    except NotATensor:
        raise
    except (ArithmeticError, AttributeError, BufferError, LookupError, RuntimeError, TypeError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NotATensor(f"a {type(tensor).__qualname__} that cannot be described: {said}") from error
    if len(seen.shape) != len(seen.strides) or any(size < 0 for size in seen.shape):
        raise NotATensor(f"an array of shape {list(seen.shape)} with strides {list(seen.strides)}")
    return seen


def _described(tensor: Any) -> TensorView:
    if is_torch(tensor):
        return _of_torch(tensor)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        return _of_numpy(tensor)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _of_cuda_interface(tensor.__cuda_array_interface__, tensor)
    if hasattr(tensor, "__dlpack__"):
        return _of_dlpack(tensor)
    raise NotATensor(f"a {type(tensor).__qualname__}")


def _of_torch(tensor: Any) -> TensorView:
    kind = tensor.device.type
    backend = gpu_backend(torch_module()) if kind == "cuda" else kind
    if tensor.layout is not torch_module().strided:
        raise NotATensor(f"a torch tensor of layout {tensor.layout}")
    if tensor.is_neg() or tensor.is_conj():
        raise NotATensor("a torch tensor whose memory holds the negative or conjugate; pass .resolve_neg()")
    name = str(tensor.dtype).removeprefix("torch.")
    index = max(tensor.get_device(), 0)
    return TensorView(
        tensor.data_ptr(), _dtype(name), tuple(tensor.shape), tuple(tensor.stride()), (backend, index), False
    )


def _of_numpy(array: Any) -> TensorView:
    strides = _in_elements(array.strides, array.itemsize)
    if not array.dtype.isnative:
        raise NotATensor(f"a numpy array of dtype {array.dtype}, which is not in this machine's byte order")
    if hasattr(array, "mask"):
        raise NotATensor("an array with a mask")
    address, read_only = array.__array_interface__["data"]
    return TensorView(address, _dtype(array.dtype.name), array.shape, strides, ("cpu", 0), read_only)


def _of_cuda_interface(interface: dict[str, Any], tensor: Any) -> TensorView:
    if interface.get("mask") is not None:
        raise NotATensor("an array with a mask")
    typestr = interface["typestr"]
    size = int(typestr[2:])
    kind = _TYPESTR_KINDS.get(typestr[1])
    dtype = f"{kind}{size * 8}"
    if kind is None or typestr[0] == ">" or dtype not in ITEM_BYTES:
        raise NotATensor(f"an array of type {typestr!r}")
    shape = tuple(interface["shape"])
    given = interface.get("strides")
    strides = contiguous_strides(shape) if given is None else _in_elements(given, size)
    address, read_only = interface["data"]
    index = getattr(getattr(tensor, "device", None), "id", None)
    return TensorView(
        address or 0, dtype, shape, strides, ("cuda", index if isinstance(index, int) else NOT_TOLD), read_only
    )


def _of_dlpack(tensor: Any) -> TensorView:
    from . import dlpack  # Few callers have such tensors, and it imports ctypes.

    found = dlpack.read(tensor)
    if found.dtype not in _NAMES:
        raise NotATensor(f"a DLPack tensor of type {found.dtype}")
    strides = contiguous_strides(found.shape) if found.strides is None else found.strides
    if found.copied:
        raise NotATensor(f"a {type(tensor).__qualname__} whose __dlpack__ gives a copy, not its own memory")
    return TensorView(found.address, _NAMES[found.dtype], found.shape, strides, found.device, found.read_only)


def _in_elements(strides: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    if any(stride % item_bytes for stride in strides):
        raise NotATensor(f"an array whose strides {strides} are no multiples of its elements' {item_bytes} bytes")
    return tuple(stride // item_bytes for stride in strides)


def _dtype(name: str) -> str:
    if name not in _NAMES:
        raise NotATensor(f"a tensor of dtype {name}")
    return _NAMES[name]
