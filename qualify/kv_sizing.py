"""`assay kv-size`: the bytes of a model's KV cache, by format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault, FaultsError
from assay.codegen.models import SHIPPED, load_models, pick_models
from assay.runtime import KV_FORMATS, ArgumentError, KVBytes, kv_bytes

from .verification import file_fault

SCHEMA = "assay.kv-size/1"
_BASELINE = "bf16"
_NEEDED = ("layers", "kv_heads", "head_dim")


@dataclass(frozen=True, slots=True)
class KVSizing:
    """What a cache takes.  sizes: by format, of one token and of all of them.  baseline: all in BF16, bytes."""

    model: str | None
    shape: Mapping[str, int]
    tokens: int
    sizes: Mapping[str, tuple[KVBytes, KVBytes]]
    baseline: int

    def saved_percent(self, size: KVBytes) -> float:
        """How much less than a BF16 cache this one takes with its workspace; negative where it is more."""
        return round(100 * (1 - size.total / self.baseline), 2)


def size_kv(
    model: str | None,
    models: Path | None,
    numbers: Mapping[str, int | None],
    *,
    tokens: int = 1,
    formats: Sequence[str] = (),
) -> KVSizing:
    """The sizes for a model of a list, or for `numbers`: layers, kv_heads, head_dim and, where it differs, head_dim_v.

    models: the list, assay's own where it is None.  formats: all that are known where there are none.
    Raises FaultsError with everything wrong at once.
    """
    given = {name: value for name, value in numbers.items() if value is not None}
    if model is None:
        shape, faults = given, _number_faults(given, models)
    else:
        model, shape, faults = _listed(model, models, given)
    # What is missing or wrong so far counts as 1, so that the rest is judged as well.
    whole = {**dict.fromkeys(_NEEDED, 1), **shape}
    sizes = {}
    for kv_format in dict.fromkeys((*(formats or KV_FORMATS), _BASELINE)):
        try:
            one = kv_bytes(**whole, kv_format=kv_format)
            sizes[kv_format] = one, kv_bytes(**whole, kv_format=kv_format, tokens=max(tokens, 1))
        except ArgumentError as error:
            faults += [fault._replace(where=_option(fault.where)) for fault in error.faults]
    if tokens < 1:
        faults.append(Fault("--tokens", str(tokens), "an integer of at least 1"))
    if faults:
        raise FaultsError(faults)
    shown = {kv_format: sizes[kv_format] for kv_format in formats or KV_FORMATS}
    return KVSizing(model, shape, tokens, shown, sizes[_BASELINE][1].cache)


def document(sizing: KVSizing) -> dict[str, Any]:
    """What `--json` prints; everything but the percentage is a count or bytes."""
    return {
        "schema": SCHEMA,
        "model": sizing.model,
        **sizing.shape,
        "tokens": sizing.tokens,
        "formats": [
            {
                "kv_format": kv_format,
                "bytes_per_token": one.cache,
                "element_bytes_per_token": one.elements,
                "scale_bytes_per_token": one.scales,
                "cache_bytes": size.cache,
                "workspace_bytes": size.workspace,
                "total_bytes": size.total,
                "saved_percent": sizing.saved_percent(size),
            }
            for kv_format, (one, size) in sizing.sizes.items()
        ],
    }


def _listed(name: str, path: Path | None, given: Mapping[str, int]) -> tuple[str, dict[str, int], list[Fault]]:
    """Name and numbers of a model of the list, and what is wrong."""
    faults = [Fault(_option(option), str(value), f"nothing: {name} says it") for option, value in given.items()]
    try:
        if path is not None and (unreadable := file_fault(path)):
            raise FaultsError(unreadable)
        (found,) = pick_models(load_models(SHIPPED if path is None else path), [name], "MODEL")
    except FaultsError as error:
        return name, {}, faults + list(error.faults)
    layers = sum(kind.count for kind in found.layers)
    shape = {"layers": layers, "kv_heads": found.kv_heads, "head_dim": found.head_dim}
    return found.name, shape | ({} if found.head_dim_v is None else {"head_dim_v": found.head_dim_v}), faults


def _number_faults(given: Mapping[str, int], models: Path | None) -> list[Fault]:
    missing = [
        Fault(_option(name), "not given", "an integer, or a MODEL in place of all")
        for name in _NEEDED
        if name not in given
    ]
    return missing + ([] if models is None else [Fault("--models", str(models), "a list and the name of a MODEL")])


def _option(keyword: str) -> str:
    """The option that a keyword of `kv_bytes` comes from."""
    return "--format" if keyword == "kv_format" else f"--{keyword.replace('_', '-')}"
