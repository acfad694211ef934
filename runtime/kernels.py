"""A loaded bundle: which kernel serves a call, and the calls themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.bundle.devices import ArchitectureMismatch, Device, matching_targets, pair_names
from assay.bundle.faults import BundleError, Fault
from assay.bundle.reader import Bundle
from assay.bundle.records import TargetRecord

from .choosing import Chooser
from .errors import ArchitectureError, ArgumentError, BundleLoadError, NoMatchError
from .kv_methods import KvMethods
from .limits import MOST_SPLITS

if TYPE_CHECKING:
    from .calls.decode_attention import BoundDecode, DecodeAttention
    from .calls.decode_call import Inputs, Options
    from .calls.extend_attention import ExtendAttention
    from .drivers import Driver
    from .executing import Executor, Steering

DEBUG_SWITCH = "ASSAY_DEBUG"
FORBID_SWITCH = "ASSAY_FORBID_ROWS"


def load(
    path: str | os.PathLike[str],
    device: Device | str | Any = None,
    *,
    debug: bool | None = None,
    companion: bool = False,
) -> Kernels:
    """Open the bundle at `path` for a device. A bare name, "gfx1201", that is no file is an installed bundle's name.

    device: what to launch on: 'cuda:0', 'hip:0', 'emulator', 'emulator:gfx1201' or a torch.device; or a pair of backend
    and architecture, ('hip', 'gfx1201'), to pick rows only. Without one, rows of a bundle for a single architecture
    can be picked. debug: check the contents of index tensors at each call, which waits for the device (default: the
    environment's ASSAY_DEBUG=1). companion: whether a bundle's companion will do, which `assay qualify-device` runs as
    evidence; it is refused otherwise, as nothing in it is qualified.

    Raises BundleLoadError (missing, damaged, another version), ArchitectureError (before any row is looked at) or
    NoDriverError; then no file is left open.
    """
    debug = os.environ.get(DEBUG_SWITCH) == "1" if debug is None else debug
    try:
        bundle = Bundle.open(_located(path), companion=companion)
    except BundleError as error:
        raise BundleLoadError(str(error)) from error
    driver = None
    try:
        driver = None if device is None or isinstance(device, tuple) else _driver(device, bundle)
        kernels = Kernels(bundle, _targets(bundle, device if driver is None else driver.device), driver, debug=debug)
        if forbidden := os.environ.get(FORBID_SWITCH):
            from .switches import switched_off

            kernels.switched_off = switched_off(kernels, FORBID_SWITCH, forbidden)
        return kernels
    except BaseException as error:
        bundle.close()
        if driver is not None:
            driver.close()
        if isinstance(error, ArchitectureMismatch):
            raise ArchitectureError(str(error)) from error
        raise


class Kernels(KvMethods, Chooser):
    """The kernels of one bundle on one device. Made by `load`; safe to use from several threads.

    A request, for the methods that pick rows, is the call's own facts as keywords: `head_dim=128, gqa=8,
    kv_format="bf16"`. Typing is strict ('128' is not 128, True is not 1), and `fields` says which facts there are: a
    row that needs one that is left out is passed over. `force_row` considers one row alone, whose conditions must hold
    all the same; `forbid_rows` leaves rows out. Every method raises AssayRuntimeError.
    """

    def __init__(
        self, bundle: Bundle, targets: tuple[TargetRecord, ...], driver: Driver | None = None, *, debug: bool = False
    ):
        super().__init__(bundle, targets)
        self._driver = driver
        self._debug = debug
        self._making = threading.Lock()

    def decode_attention(
        self,
        q: Any,
        k_cache: Any,
        v_cache: Any,
        indptr: Any,
        indices: Any,
        q_positions: Any,
        sm_scale: float,
        *,
        k_scale: Any = None,
        v_scale: Any = None,
        sliding_window: int | None = None,
        logit_cap: float | None = None,
        sinks: Any = None,
        num_splits: int | None = None,
        out: Any = None,
        lse: Any = None,
        workspace: Any = None,
        stream: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
        fallback: Callable[..., Any] | None = None,
    ) -> Any:
        """Attention of 1 to 8 queries a request over a paged cache; returns `out`.

        q: [batch, q_heads, head_dim] BF16, or [batch, rows, q_heads, head_dim] where requests have several queries.
        k_cache, v_cache: [slots, kv_heads, head_dim], BF16, or with k_scale, v_scale: [slots, kv_heads] FP32 E4M3FN
        codes (uint8 or float8_e4m3fn) or int8. indptr: [batch + 1] int32, and indices: [keys] int32: the slots of each
        request's keys in the order of their positions. q_positions: [batch] or [batch, rows] int64; a query sees keys
        up to its own position, at most sliding_window of them. logit_cap: scores s become cap * tanh(s / cap).
        sinks: [q_heads] FP32 logits, natural logarithm. num_splits: parts that each request's keys are cut into, 1 to
        128; chosen here where it is None. out: of q's shape, BF16 or FP16; lse: of q's shape without head_dim, FP32,
        natural logarithm. workspace: at least `workspace_size` bytes, 16-byte aligned. What is not given is allocated
        through q's framework, out as BF16.

        A request without keys gives 0 and an LSE of -inf. One KV head's row must be contiguous; padded and unaligned
        layouts are read by the generic rows. stream: a driver's handle or a framework's stream; the current one by
        default. fallback: called with the same arguments where no row serves the call.

        Raises ArgumentError (everything wrong at once), NoMatchError, or the driver's error; nothing was launched then.
        """
        inputs = self._inputs(
            q, k_cache, v_cache, k_scale, v_scale, indptr, indices, q_positions, None, sinks, None, None, out, lse,
            workspace,
        )  # fmt: skip
        options = self._options(sliding_window, logit_cap, num_splits, self._steer(force_row, forbid_rows, fallback))
        try:
            return self._decode.run(inputs, options, sm_scale, stream)
        except NoMatchError:
            if fallback is None:
                raise
        return fallback(
            q, k_cache, v_cache, indptr, indices, q_positions, sm_scale, k_scale=k_scale, v_scale=v_scale,
            sliding_window=sliding_window, logit_cap=logit_cap, sinks=sinks, num_splits=num_splits, out=out, lse=lse,
            workspace=workspace, stream=stream,
        )  # fmt: skip

    def plan(
        self,
        q: Any,
        k_cache: Any,
        v_cache: Any,
        indptr: Any,
        indices: Any,
        q_positions: Any,
        sm_scale: float,
        *,
        k_scale: Any = None,
        v_scale: Any = None,
        sliding_window: int | None = None,
        logit_cap: float | None = None,
        sinks: Any = None,
        num_splits: int | None = None,
        out: Any = None,
        lse: Any = None,
        workspace: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
    ) -> BoundDecode:
        """A `decode_attention` whose checks are done once: `.launch(stream)` starts it again on the same memory.

        The tensors' contents may change between launches; their shapes and addresses, the scale and the window may not.
        """
        inputs = self._inputs(
            q, k_cache, v_cache, k_scale, v_scale, indptr, indices, q_positions, None, sinks, None, None, out, lse,
            workspace,
        )  # fmt: skip
        options = self._options(sliding_window, logit_cap, num_splits, self._steer(force_row, forbid_rows))
        return self._decode.bind(inputs, options, sm_scale)

    def decode_paged_attention(
        self,
        q: Any,
        k_cache: Any,
        v_cache: Any,
        indptr: Any,
        indices: Any,
        q_positions: Any,
        attn_logits: Any,
        attn_lse: Any,
        num_kv_splits: Any,
        max_kv_splits: int,
        sm_scale: float,
        sliding_window: int | None = None,
        sinks: Any = None,
        out: Any = None,
        *,
        k_scale: Any = None,
        v_scale: Any = None,
        logit_cap: float | None = None,
        stream: Any = None,
    ) -> Any:
        """The paged decode call of serving engines with a CSR cache, with buffers of theirs; returns `out`.

        attn_logits: [batch, q_heads, splits, head_dim] FP32 and attn_lse: [batch, q_heads, splits] FP32 take the
        partial results, with rows behind batch where q has them; num_kv_splits: [batch] int32, from 1 to max_kv_splits,
        which is at most their `splits`.
        Everything else is as in `decode_attention`.
        """
        inputs = self._inputs(
            q, k_cache, v_cache, k_scale, v_scale, indptr, indices, q_positions, num_kv_splits, sinks, attn_logits,
            attn_lse, out, None, None,
        )  # fmt: skip
        options = self._options(sliding_window, logit_cap, max_kv_splits, self._steer(None, ()))
        return self._decode.run(inputs, options, sm_scale, stream)

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
        from .calls.frameworks import stream_handle

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
        self, *, batch: int, q_heads: int, head_dim: int, rows: int = 1, num_splits: int = MOST_SPLITS
    ) -> int:
        """Bytes that `decode_attention` needs as a workspace; for any number of splits where none is named."""
        from .calls.workspace import workspace_bytes

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
        return self._executor.usage()

    @property
    def driver(self) -> Driver:
        """The device. Raises NotLoadedError where the bundle was loaded to pick rows only."""
        return self._executor.driver

    def close(self) -> None:
        """Unload everything and close the bundle. Selections made stay valid; nothing can be launched any more."""
        if "_executor" in self.__dict__:
            self._executor.close()
        elif self._driver is not None:
            self._driver.close()
        super().close()

    @cached_property
    def _executor(self) -> Executor:
        from .executing import Executor

        # Python 3.12's cached_property lets two threads make one each, and each would load the kernels.
        with self._making:
            if "_executor" not in self.__dict__:
                self.__dict__["_executor"] = Executor(self, self._driver, debug=self._debug)
            return self.__dict__["_executor"]

    @cached_property
    def _decode(self) -> DecodeAttention:
        from .calls.decode_attention import DecodeAttention

        return DecodeAttention(self._executor)

    @cached_property
    def _extend(self) -> ExtendAttention:
        from .calls.extend_attention import ExtendAttention

        return ExtendAttention(self._executor)

    @cached_property
    def _inputs(self) -> type[Inputs]:
        from .calls.decode_call import Inputs

        return Inputs

    @cached_property
    def _options(self) -> type[Options]:
        from .calls.decode_call import Options

        return Options

    def _steer(self, force_row: str | None, forbid_rows: Collection[str], fallback: Any = None) -> Steering:
        from .executing import NOT_STEERED, steering_of

        if force_row is None and fallback is None and type(forbid_rows) is tuple and not forbid_rows:
            return NOT_STEERED
        return steering_of(force_row, forbid_rows, fallback)


def _located(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that `path` stands for. A name that exists, or has a folder in it, is a path whatever is installed."""
    is_bare = isinstance(path, str) and os.path.basename(path) == path
    if not is_bare or (os.path.lexists(path) and not os.path.isdir(path)):
        return path
    from .installed import installed_path

    return installed_path(path)


def _driver(device: Any, bundle: Bundle) -> Driver:
    from .drivers import open_driver

    archs = {target.arch for target in bundle.manifest.targets if target.backend == "hip"}
    return open_driver(device, tuple(sorted(archs)))


def _targets(bundle: Bundle, device: Device | None) -> tuple[TargetRecord, ...]:
    targets = bundle.manifest.targets
    if device is not None:
        return matching_targets(targets, device, str(bundle.path))
    if len({(target.backend, target.arch) for target in targets}) > 1:
        fault = Fault(
            str(bundle.path), "holds several architectures", ", ".join(pair_names(targets)), "name one as device="
        )
        raise ArchitectureMismatch(fault)
    return targets
