"""The calls of other families than decode attention, and what serves an engine around its calls, for `Kernels`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.bundle.faults import Fault

from .errors import ArgumentError, NoMatchError
from .limits import MOST_SPLITS

if TYPE_CHECKING:
    from .calls.extend_attention import ExtendAttention
    from .drivers import Driver
    from .executing import Executor
    from .prepared import Loaded
    from .steering import Steering


class MoreCalls:
    """Part of `Kernels`, which says what every method may raise."""

    # Kernels' own.
    _driver: Driver | None
    _executor: Executor
    _loaded: Loaded
    _steer: Callable[..., Steering]
    _check_fields: Callable[[str, Mapping[str, Any]], None]

    def extend_attention(
        self,
        q: Any,
        k_new: Any,
        v_new: Any,
        q_indptr: Any,
        sm_scale: float,
        *,
        max_chunk: int,
        k_hist: Any = None,
        v_hist: Any = None,
        hist_indptr: Any = None,
        sliding_window: int | None = None,
        sinks: Any = None,
        logit_cap: float | None = None,
        out: Any = None,
        lse: Any = None,
        stream: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
        fallback: Callable[..., Any] | None = None,
    ) -> Any:
        """Prefill attention of a ragged batch's new tokens over their history and their own chunk; returns `out`.

        q: [tokens, q_heads, head_dim] BF16; k_new, v_new: [tokens, kv_heads, head_dim] BF16 of the same tokens;
        q_indptr: [batch + 1] int32, where each request's chunk starts and ends. k_hist, v_hist: [rows, kv_heads,
        head_dim] BF16 and hist_indptr: [batch + 1] int32, likewise, of what stands before the chunks; all three, or
        none without a history. max_chunk: tokens of the longest chunk, to all of q's. A token sees its request's
        history and its chunk up to itself, at most sliding_window keys. sinks: [q_heads] FP32 logits, natural
        logarithm. logit_cap: scores s become cap * tanh(s / cap). sm_scale: above 0. out: [tokens, q_heads, head_dim]
        BF16; lse: [tokens, q_heads] FP32, natural logarithm. Outputs not given are allocated through q's framework;
        rows of tokens that belong to no request are not written. Addresses and strides of BF16 tensors are multiples of
        16 bytes.
        stream, fallback and what is raised: as in `decode_attention`.
        """
        from .calls.extend_attention import Options, Tensors

        tensors = Tensors(q, k_new, v_new, q_indptr, k_hist, v_hist, hist_indptr, sinks, out, lse)
        options = Options(sm_scale, max_chunk, sliding_window, logit_cap)
        steering = self._steer(force_row, forbid_rows, fallback)
        try:
            return self._extend.run(tensors, options, steering, stream)
        except NoMatchError:
            if fallback is None:
                raise
        return fallback(
            q, k_new, v_new, q_indptr, sm_scale, max_chunk=max_chunk, k_hist=k_hist, v_hist=v_hist,
            hist_indptr=hist_indptr, sliding_window=sliding_window, sinks=sinks, logit_cap=logit_cap, out=out, lse=lse,
            stream=stream,
        )  # fmt: skip

    def launch(
        self,
        family: str,
        tensors: Mapping[str, Any],
        scalars: Mapping[str, int | float] | None = None,
        facts: Mapping[str, Any] | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        stream: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
    ) -> str:
        """One kernel of any family on exactly the tensors of its contract; returns the row's id.

        facts: the values of the family's axes that tensors do not tell (window=False, soft_cap=False). They must be
        true of the call; one that the tensors contradict is refused. dims: the sizes that no tensor has, for a family
        that asks for some. What is written must be given: nothing is allocated.
        """
        from .frameworks import stream_handle

        executor = self._executor
        self._check_fields(family, facts or {})
        views = executor.views(family, tensors)
        if faults := executor.contract(family).dimension_faults(dims or {}):
            raise ArgumentError(faults)
        steering = self._steer(force_row, forbid_rows)
        prepared = executor.prepare(family, views, scalars or {}, facts or {}, steering, dims)
        executor.check_overlaps(family, views)
        handle = stream_handle(stream, next(iter(tensors.values()), None))
        addresses = [views[name].address for name in prepared.pointer_names]
        # A call without a request has an empty grid, which drivers refuse.
        if 0 not in prepared.grid:
            prepared.launch(addresses, [(scalars or {})[name] for name in prepared.scalar_names], handle)
        return prepared.row.id

    def workspace_size(
        self, *, batch: int, q_heads: int, head_dim: int, rows: int = 1, num_splits: int | None = None
    ) -> int:
        """Bytes that `decode_attention` needs as a workspace; for any number of splits where none is named."""
        from .calls.workspace import workspace_bytes

        num_splits = MOST_SPLITS if num_splits is None else num_splits
        sizes = {
            "batch": (batch, 0, None),
            "rows": (rows, 1, None),
            "q_heads": (q_heads, 1, None),
            "head_dim": (head_dim, 1, None),
        }
        faults = [
            Fault(name, repr(value), f"an integer of at least {least}" + (f", at most {most}" if most else ""))
            for name, (value, least, most) in {**sizes, "num_splits": (num_splits, 1, MOST_SPLITS)}.items()
            if type(value) is not int or value < least or (most is not None and value > most)
        ]
        if faults:
            raise ArgumentError(faults)
        return workspace_bytes(batch=batch, rows=rows, q_heads=q_heads, head_dim=head_dim, splits=num_splits)

    def preload(self, families: Collection[str] = (), *, num_splits: int | None = None, max_batch: int = 0) -> int:
        """Load every row's code object of these families (all of them if none is named), so that no call has to.

        Before a CUDA or HIP graph is captured: capture must not meet a lazy load. num_splits and max_batch, where
        given, make the split counts for calls of up to that many requests too. Returns how many rows were loaded.
        """
        if num_splits is not None and max_batch:
            self._executor.driver.filled_i32(num_splits, max_batch)
        return self._executor.preload(families)

    def usage(self) -> dict[str, int]:
        """How often each row was launched, by its id."""
        return {} if self._driver is None else self._loaded.usage()

    @property
    def driver(self) -> Driver:
        """The device. Raises NotLoadedError where the bundle was loaded to pick rows only."""
        return self._executor.driver

    @cached_property
    def _extend(self) -> ExtendAttention:
        from .calls.extend_attention import ExtendAttention

        return ExtendAttention(self._executor)
