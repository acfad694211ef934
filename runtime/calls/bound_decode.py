"""A decode call whose checks are done, to be launched again and again on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..frameworks import stream_handle, used_on
from .decode_call import Inputs

if TYPE_CHECKING:
    from ..prepared import Prepared


class BoundDecode:
    """A call with its checks done: `launch()` starts it again on the same memory.  Keeps its tensors alive.

    The tensors' contents may change between launches, and indptr, indices and positions with them; shapes and addresses
    may not.  `out` and `workspace` are the tensors in use.  Of each kernel (stage 1 and the merge, or the unsplit one;
    none where there is no request) `starts` launch one, given a stream's handle, and `stages` tell row, function, grid.
    """

    __slots__ = ("_inputs", "_streams", "stages", "starts")

    def __init__(self, inputs: Inputs, starts: tuple[Callable[[int], None], ...], stages: tuple[Prepared, ...]):
        self._inputs = inputs
        self.starts = starts
        self.stages = stages
        # Streams that the framework was told of: once is enough, it waits for them when the memory is given back.
        self._streams: set[int] = set()

    def __repr__(self) -> str:
        return f"<decode call: {', '.join(map(repr, self.stages)) or 'no request'}>"

    @property
    def out(self) -> Any:
        """The output, of q's shape."""
        return self._inputs.out

    @property
    def workspace(self) -> Any:
        """The workspace; None where the caller gave all buffers."""
        return self._inputs.workspace

    def launch(self, stream: Any = None) -> Any:
        """Start the kernels; returns `out`.  stream: as the call takes it."""
        handle = stream_handle(stream, self._inputs.q)
        if stream is not None and handle not in self._streams:
            used_on(self._inputs.out, handle)
            used_on(self._inputs.workspace, handle)
            self._streams.add(handle)
        for start in self.starts:
            start(handle)
        return self._inputs.out
