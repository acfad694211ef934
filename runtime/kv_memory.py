"""How many bytes a KV cache takes in each of its formats. Standard library only; loads no bundle."""

from __future__ import annotations

from assay.bundle.faults import Fault, did_you_mean
from assay.bundle.record import Record

from .errors import ArgumentError


class KVFormat(Record):
    """Bytes of one element, and of the scales that each row (one token, one KV head) of K, and of V, has besides."""

    __slots__ = ()

    element: int
    scale: int


KV_FORMATS = {
    "bf16": KVFormat(2, 0),
    "fp8_per_token_head": KVFormat(1, 4),
    "int8_per_token_head": KVFormat(1, 4),
}
_WORKSPACE = "bf16"


class KVBytes(Record):
    """Bytes of a cache for some tokens.

    elements: K and V of all layers. scales: their scales. workspace: the one BF16 workspace that all layers share, into
    which prefill reconstructs one layer's history; 0 where the cache is BF16 itself.
    """

    __slots__ = ()

    elements: int
    scales: int
    workspace: int

    @property
    def cache(self) -> int:
        """Elements and scales."""
        return self.elements + self.scales

    @property
    def total(self) -> int:
        """The cache and the workspace."""
        return self.cache + self.workspace


def kv_bytes(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    kv_format: str,
    tokens: int = 1,
    head_dim_v: int | None = None,
) -> KVBytes:
    """Bytes of the KV cache of `layers` equal layers that hold `tokens` physical rows (slots) each.

    head_dim: elements of a row of K, and of V unless head_dim_v differs. kv_format: one of KV_FORMATS. Nothing is added
    for an allocator's rounding or for indices. Raises ArgumentError, with everything wrong at once.
    """
    sizes = {"layers": (layers, 1), "kv_heads": (kv_heads, 1), "head_dim": (head_dim, 1), "tokens": (tokens, 0)}
    sizes |= {} if head_dim_v is None else {"head_dim_v": (head_dim_v, 1)}
    faults = [
        Fault(name, repr(value), f"an integer of at least {least}")
        for name, (value, least) in sizes.items()
        if type(value) is not int or value < least
    ]
    if kv_format not in KV_FORMATS:
        faults.append(Fault("kv_format", repr(kv_format), ", ".join(KV_FORMATS), did_you_mean(kv_format, KV_FORMATS)))
    if faults:
        raise ArgumentError(faults)
    rows = tokens * kv_heads
    row_elements = head_dim + (head_dim if head_dim_v is None else head_dim_v)
    element, scale = KV_FORMATS[kv_format]
    workspace = 0 if kv_format == _WORKSPACE else rows * row_elements * KV_FORMATS[_WORKSPACE].element
    return KVBytes(layers * rows * row_elements * element, layers * rows * 2 * scale, workspace)
