"""The public calls that store and reconstruct cache rows, for `Kernels`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .errors import NoMatchError

if TYPE_CHECKING:
    from .calls.kv_rows import KvCall
    from .executing import Executor
    from .steering import Steering


class KvMethods:
    """Part of `Kernels`, which says what every method may raise."""

    # Kernels' own.
    _executor: Executor
    _steer: Callable[[str | None, Collection[str], Any], Steering]

    def kv_store(
        self,
        k: Any,
        v: Any,
        slots: Any,
        k_cache: Any,
        v_cache: Any,
        *,
        k_scale: Any = None,
        v_scale: Any = None,
        kv_format: str | None = None,
        stream: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
        fallback: Callable[..., Any] | None = None,
    ) -> Any:
        """Write new K and V rows into their slots of a paged cache: docs/families.md defines every code and scale.

        k, v: [tokens, kv_heads, head_dim] BF16. slots: [tokens] int32 or int64; a token whose slot is below 0 or behind
        the cache is skipped (debug mode refuses the latter). k_cache, v_cache: [slots, kv_heads, head_dim]: BF16 takes
        the rows as they are, uint8 or float8_e4m3fn E4M3FN codes, int8 INT8 ones; codes need k_scale, v_scale: [slots,
        kv_heads] FP32. kv_format: the format by its name, to be checked against the caches' type. head_dim: up to 512.

        Rows of other slots stay as they are. What is written must share no memory with another tensor of the call.
        fallback: called with the same arguments where no row serves the call; what it returns is returned, else None.
        Raises ArgumentError (everything wrong at once), NoMatchError, or the driver's error; nothing was launched then.
        """
        tensors = {
            "k": k, "v": v, "slots": slots, "k_cache": k_cache, "v_cache": v_cache, "k_scale": k_scale,
            "v_scale": v_scale,
        }  # fmt: skip
        steering = self._steer(force_row, forbid_rows, fallback)
        try:
            return self._kv_calls["kv_store"].run(tensors, kv_format, steering, stream)
        except NoMatchError:
            if fallback is None:
                raise
        return fallback(
            k, v, slots, k_cache, v_cache, k_scale=k_scale, v_scale=v_scale, kv_format=kv_format, stream=stream
        )

    def kv_reconstruct(
        self,
        k_cache: Any,
        v_cache: Any,
        k_scale: Any,
        v_scale: Any,
        slots: Any,
        k_out: Any,
        v_out: Any,
        *,
        kv_format: str | None = None,
        stream: Any = None,
        force_row: str | None = None,
        forbid_rows: Collection[str] = (),
        fallback: Callable[..., Any] | None = None,
    ) -> Any:
        """Rows of a paged cache, in the order of `slots`, as BF16: docs/families.md says how codes round.

        Caches and scales as in `kv_store`: rows of BF16 have no scales (None) and are copied, every bit. slots:
        [tokens] int32 or int64. k_out, v_out: [rows, kv_heads, head_dim] BF16, of at least as many rows as there are
        slots; those behind, and those of slots that are skipped, stay.

        fallback, and what is raised: as in `kv_store`.
        """
        tensors = {
            "k_cache": k_cache, "v_cache": v_cache, "k_scale": k_scale, "v_scale": v_scale, "slots": slots,
            "k_out": k_out, "v_out": v_out,
        }  # fmt: skip
        steering = self._steer(force_row, forbid_rows, fallback)
        try:
            return self._kv_calls["kv_reconstruct"].run(tensors, kv_format, steering, stream)
        except NoMatchError:
            if fallback is None:
                raise
        return fallback(k_cache, v_cache, k_scale, v_scale, slots, k_out, v_out, kv_format=kv_format, stream=stream)

    @cached_property
    def _kv_calls(self) -> dict[str, KvCall]:
        from .calls.kv_rows import calls

        return calls(self._executor)
