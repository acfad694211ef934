"""An error of a decode call in the words of the call that it came from."""

from __future__ import annotations

from assay.bundle.faults import Fault

from .errors import ArgumentError

# What `decode_paged_attention` calls the arguments of a decode call.
_OF_PAGED = {
    "partial_out": "attn_logits", "partial_lse": "attn_lse", "num_splits": "max_kv_splits",
    "; decode_paged_attention takes a tensor": "",
}  # fmt: skip


def as_paged(error: Exception) -> Exception:
    """The same error where it names no argument, else one that names those of `decode_paged_attention`."""
    if not isinstance(error, ArgumentError):
        return error
    return ArgumentError([Fault(*map(_renamed, fault)) for fault in error.faults])


def _renamed(text: str) -> str:
    for name, own in _OF_PAGED.items():
        text = text.replace(name, own)
    return text
