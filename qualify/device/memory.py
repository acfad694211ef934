"""A case's tensors on a device: storage by storage, so that what lies around the elements is there too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.reference import Case, Strided

_ALIGNMENT = 256


class NoGraphs(Exception):
    """The device cannot record launches."""


class Memory(Protocol):
    """Where tensors live, in the form that the runtime takes for this device."""

    def upload(self, storage: NDArray[Any]) -> Any:
        """A copy of a one-dimensional array on the device, at an address divisible by 256."""

    def overwrite(self, stored: Any, storage: NDArray[Any]) -> None:
        """Put the array's contents into what `upload` returned."""

    def view(self, stored: Any, tensor: Strided) -> Any:
        """The tensor inside what `upload` returned."""

    def download(self, stored: Any, like: NDArray[Any]) -> NDArray[Any]:
        """A copy on the host, of the type of `like`."""

    def capture(self, launch: Callable[[], object]) -> Callable[[], object]:
        """Record what `launch` starts, without running it; returns what replays it.  Raises NoGraphs."""

    def synchronize(self) -> None:
        """Wait for all work queued on the device."""


class HostMemory:
    """This process's memory, as numpy arrays: for the emulator."""

    def upload(self, storage: NDArray[Any]) -> NDArray[Any]:
        raw = np.empty(storage.nbytes + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        stored = raw[start : start + storage.nbytes].view(storage.dtype)
        stored[:] = storage
        return stored

    def overwrite(self, stored: NDArray[Any], storage: NDArray[Any]) -> None:
        stored[:] = storage

    def view(self, stored: NDArray[Any], tensor: Strided) -> NDArray[Any]:
        return dataclasses.replace(tensor, storage=stored).view

    def download(self, stored: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
        return stored.astype(like.dtype, copy=True)

    def capture(self, launch: Callable[[], object]) -> Callable[[], object]:  # noqa: ARG002
        raise NoGraphs("the emulator has no graphs")

    def synchronize(self) -> None:
        """Launches return when they are done."""


class TorchMemory:
    """A torch device, such as 'cuda:0'.  Bits of BF16, which numpy lacks, become bfloat16."""

    def __init__(self, device: str):
        import torch

        self._torch = torch
        self._device = torch.device(device)
        # Made at the first capture; torch's own one belongs to whatever device is current then.
        self._stream: Any = None

    def upload(self, storage: NDArray[Any]) -> Any:
        return self._tensor(storage).to(self._device, copy=True)

    def overwrite(self, stored: Any, storage: NDArray[Any]) -> None:
        stored.copy_(self._tensor(storage))

    def view(self, stored: Any, tensor: Strided) -> Any:
        return self._torch.as_strided(stored, tensor.shape, tensor.strides, tensor.offset)

    def download(self, stored: Any, like: NDArray[Any]) -> NDArray[Any]:
        same_width = self._torch.int16 if stored.dtype == self._torch.bfloat16 else stored.dtype
        return np.array(stored.view(same_width).cpu().numpy().view(like.dtype))

    def capture(self, launch: Callable[[], object]) -> Callable[[], object]:
        if self._device.type != "cuda":
            raise NoGraphs(f"{self._device.type} has no graphs")
        cuda = self._torch.cuda
        self._stream = self._stream or cuda.Stream(self._device)
        graph = cuda.CUDAGraph()
        with cuda.device(self._device), cuda.graph(graph, stream=self._stream):
            launch()
        return graph.replay

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)

    def _tensor(self, storage: NDArray[Any]) -> Any:
        if storage.dtype == np.uint16:
            return self._torch.from_numpy(storage.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(storage)


class Placed:
    """A case on a device.  The case itself stays as it is; `views` are its tensors there, by name."""

    def __init__(self, memory: Memory, case: Case):
        self._memory = memory
        self._case = case
        self._stored = {name: memory.upload(tensor.storage) for name, tensor in case.tensors.items()}
        self.views = {name: memory.view(self._stored[name], tensor) for name, tensor in case.tensors.items()}

    def restore(self, names: Iterable[str]) -> None:
        """Give these tensors, and what lies around them, the contents that the case has."""
        for name in names:
            self._memory.overwrite(self._stored[name], self._case.tensors[name].storage)

    def fetched(self) -> Case:
        """The case with what the device's memory holds now."""
        tensors = {
            name: dataclasses.replace(tensor, storage=self._memory.download(self._stored[name], tensor.storage))
            for name, tensor in self._case.tensors.items()
        }
        return dataclasses.replace(self._case, tensors=tensors)
