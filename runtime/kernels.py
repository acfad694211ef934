"""A loaded bundle: which kernel serves a call, and the calls themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.bundle.opening import Doubt, Opened, open_whole

from .later import Later

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from assay.bundle.devices import Device
    from assay.bundle.reader import Bundle
    from assay.bundle.records import TargetRecord

    from .calls.bound_decode import BoundDecode
    from .calls.decode_attention import DecodeAttention
    from .calls.decode_call import Inputs, Options
    from .choosing import Chooser
    from .drivers import Driver
    from .executing import Executor
    from .kv_methods import KvMethods
    from .more_calls import MoreCalls
    from .prepared import AnyRow, Loaded
    from .steering import Steering

    class _Parts(KvMethods, MoreCalls, Chooser):
        """Where the methods are that `Later` stands for."""
else:
    _Parts = object

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
    located = _located(path)
    # To pick rows only is not what a first result waits for.
    opened = None if device is None or isinstance(device, tuple) else open_whole(located)
    bundle: Bundle | None = None
    if opened is None:
        from .whole import whole_bundle  # Here and below, and not above: what loads as it should needs none of it.

        bundle = whole_bundle(located, companion=companion)
    driver = None
    try:
        driver = None if device is None or isinstance(device, tuple) else _driver(device, opened or bundle)
        targets = None if opened is None or driver is None else _runs_on(opened, driver.device)
        if not targets:
            from .whole import bundle_of, matching

            bundle = bundle_of(opened) if bundle is None else bundle
            opened, targets = None, matching(bundle, device if driver is None else driver.device)
        kernels = Kernels(opened or bundle, targets, driver, debug=debug)
        if forbidden := os.environ.get(FORBID_SWITCH):
            from .switches import switched_off

            kernels.switched_off = switched_off(kernels, FORBID_SWITCH, forbidden)
        return kernels
    except BaseException:
        for opening in (opened, bundle, driver):
            if opening is not None:
                opening.close()
        raise


class Kernels(_Parts):
    """The kernels of one bundle on one device. Made by `load`; safe to use from several threads.

    A request, for the methods that pick rows, is the call's own facts as keywords: `head_dim=128, gqa=8,
    kv_format="bf16"`. Typing is strict ('128' is not 128, True is not 1), and `fields` says which facts there are: a
    row that needs one that is left out is passed over. `force_row` considers one row alone, whose conditions must hold
    all the same; `forbid_rows` leaves rows out. Every method raises AssayRuntimeError.
    """

    families = Later("choosing", "Chooser")
    fields = Later("choosing", "Chooser")
    rows = Later("choosing", "Chooser")
    rows_if_any = Later("choosing", "Chooser")
    contract = Later("choosing", "Chooser")
    variant = Later("choosing", "Chooser")
    code = Later("choosing", "Chooser")
    select = Later("choosing", "Chooser")
    explain = Later("choosing", "Chooser")
    require = Later("choosing", "Chooser")
    supports = Later("choosing", "Chooser")
    _check_fields = Later("choosing", "Chooser")
    extend_attention = Later("more_calls", "MoreCalls")
    launch = Later("more_calls", "MoreCalls")
    workspace_size = Later("more_calls", "MoreCalls")
    preload = Later("more_calls", "MoreCalls")
    usage = Later("more_calls", "MoreCalls")
    driver = Later("more_calls", "MoreCalls")
    kv_store = Later("kv_methods", "KvMethods")
    kv_reconstruct = Later("kv_methods", "KvMethods")

    def __init__(
        self,
        bundle: Bundle | Opened,
        targets: tuple[TargetRecord, ...] | list[dict[str, Any]],
        driver: Driver | None = None,
        *,
        debug: bool = False,
    ):
        """targets: those of a bundle whose code runs on the device; as decoded where it was only opened."""
        self._opened = bundle if isinstance(bundle, Opened) else None
        if isinstance(bundle, Opened):
            self._lds_limits = {target["name"]: target["lds_limit"] for target in targets}
        else:
            self.__dict__.update(_bundle=bundle, targets=targets)
            self._lds_limits = {target.name: target.lds_limit for target in targets}
        self._driver = driver
        self._debug = debug
        self._making = threading.Lock()
        # Rows that are never taken, whoever asks.
        self.switched_off: tuple[str, ...] = ()
        self._rows: dict[str, Any] = {}
        self._fields: dict[str, frozenset[str]] = {}
        self._verified: set[str] = set()

    @property
    def identity(self) -> str:
        """The bundle's identity, hexadecimal."""
        return self._bundle.identity

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
        if fallback is None:
            return self._decode.run(inputs, options, sm_scale, stream)
        from .errors import NoMatchError

        try:
            return self._decode.run(inputs, options, sm_scale, stream)
        except NoMatchError:
            pass
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
        try:
            return self._decode.run(inputs, options, sm_scale, stream)
        except Exception as error:
            from .renaming import as_paged  # Here and not above: a call that is served does without.

            if (said := as_paged(error)) is error:
                raise
            raise said.with_traceback(error.__traceback__) from error.__cause__

    def close(self) -> None:
        """Unload everything and close the bundle. Selections made stay valid; nothing can be launched any more."""
        if "_loaded" in self.__dict__:
            self._loaded.close()
        elif self._driver is not None:
            self._driver.close()
        (self._opened or self._bundle).close()

    def __repr__(self) -> str:
        bundle = self._opened or self._bundle
        return f"<kernels of {bundle.path} for {', '.join(self._lds_limits)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def targets(self) -> tuple[TargetRecord, ...]:
        """Those of the bundle whose code runs on the device."""
        return tuple(target for target in self._bundle.manifest.targets if target.name in self._lds_limits)

    @cached_property
    def _bundle(self) -> Bundle:
        from .whole import bundle_of

        return bundle_of(self._opened)

    @cached_property
    def _loaded(self) -> Loaded:
        """What is loaded on the device, which there is."""
        from .prepared import Loaded

        # Python 3.12's cached_property lets two threads make one each, and each would load the kernels.
        with self._making:
            if "_loaded" not in self.__dict__:
                self.__dict__["_loaded"] = Loaded(self._driver, self._code, self._lds_limits)
            return self.__dict__["_loaded"]

    def _code(self, row: AnyRow) -> bytes:
        """The row's code object. Raises ObjectError where it is damaged."""
        if self._opened is not None:
            try:
                return self._opened.object_bytes(row.object)
            except Doubt:
                pass
        return self.code(row)

    @cached_property
    def _executor(self) -> Executor:
        from .executing import Executor

        loaded = None if self._driver is None else self._loaded
        with self._making:
            if "_executor" not in self.__dict__:
                self.__dict__["_executor"] = Executor(self, self._driver, loaded, debug=self._debug)
            return self.__dict__["_executor"]

    @cached_property
    def _decode(self) -> DecodeAttention:
        from .calls.decode_attention import DecodeAttention

        driver, short = self._driver or self._executor.driver, None
        if self._opened is not None and not self.switched_off:
            from .calls.short_planning import ShortPlanner

            short = ShortPlanner(self._opened, driver, self._loaded, self._lds_limits.keys())
        return DecodeAttention(driver, lambda: self._executor, short, debug=self._debug)

    @cached_property
    def _inputs(self) -> type[Inputs]:
        from .calls.decode_call import Inputs

        return Inputs

    @cached_property
    def _options(self) -> type[Options]:
        from .calls.decode_call import Options

        return Options

    @cached_property
    def _steer(self) -> Callable[..., Steering]:
        from .steering import steering_of

        return steering_of


def _located(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that `path` stands for. A name that exists, or has a folder in it, is a path whatever is installed."""
    is_bare = isinstance(path, str) and os.path.basename(path) == path
    if not is_bare or (os.path.lexists(path) and not os.path.isdir(path)):
        return path
    from .whole import installed

    return installed(path)


def _driver(device: Any, bundle: Opened | Bundle) -> Driver:
    from .drivers import open_driver

    if isinstance(bundle, Opened):
        archs = {target["arch"] for target in bundle.manifest["targets"] if target["backend"] == "hip"}
    else:
        archs = {target.arch for target in bundle.manifest.targets if target.backend == "hip"}
    return open_driver(device, tuple(sorted(archs)))


def _runs_on(opened: Opened, device: Device) -> list[dict[str, Any]]:
    """The targets whose code runs on the device, as `devices.matching_targets` has it."""
    backend, arch = device
    return [
        target
        for target in opened.manifest["targets"]
        if target["backend"] == backend and arch in (target["arch"], *target.get("runs_on", ()))
    ]
