"""The decode calls of models, each as the facts that an engine states of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.codegen.model_list import LanguageModel, Layers
from assay.runtime.limits import MOST_SPLITS

KV_FORMAT = "kv_format"
# What a list of models says of a call, next to the format of its cache.
MODEL_FACTS = ("head_dim", "head_dim_v", "gqa", "q_heads", "kv_heads", "window", "window_length", "sinks", "soft_cap")
# What every engine says besides, each with the values that are tried.
ENGINE_FACTS: Mapping[str, tuple[Any, ...]] = {
    "q_dtype": ("bf16",),
    "out_dtype": ("bf16",),
    "slot_dtype": ("i32",),
    "rows": (1,),
    "batch": (1, 64),
    "splits": (1, 8, 64, MOST_SPLITS),
}
# Of a fact that a contract bounds as an extent in bytes: the largest that 32 bits reach, and one well beyond.
EXTENTS = (2**31 - 1, 2**36)
# Facts that kernels may know nothing of where they are this.
_HARMLESS: Mapping[str, Any] = {"window": False, "sinks": False, "soft_cap": False}
# Facts that need not decide anything: dimensions that tensors tell, and numbers of a launch.
_OF_TENSORS = frozenset({"gqa", "q_heads", "kv_heads", "batch", "splits", "window_length"})


@dataclass(frozen=True, slots=True)
class Call:
    """Decode attention of the equal layers of one model, over a cache of one format."""

    model: str
    layers: int
    facts: Mapping[str, Any]

    @property
    def kv_format(self) -> str:
        return self.facts[KV_FORMAT]

    @property
    def shape(self) -> str:
        """What tells calls apart for a kernel: `head_dim=128 gqa=8 window`."""
        facts = self.facts
        sizes = [f"head_dim={facts['head_dim']}"]
        sizes += [f"head_dim_v={facts['head_dim_v']}"] if facts["head_dim_v"] != facts["head_dim"] else []
        flags = [name for name in ("window", "sinks", "soft_cap") if facts[name]]
        return " ".join([*sizes, f"gqa={facts['gqa']}", *flags])

    def decisive(self) -> dict[str, Any]:
        """The facts that something in a bundle must know: kernels without them would compute something else."""
        facts = {name: value for name, value in self.facts.items() if name not in _OF_TENSORS}
        if facts["head_dim_v"] == facts["head_dim"]:
            del facts["head_dim_v"]
        return {name: value for name, value in facts.items() if _HARMLESS.get(name) is not value}


def calls_of(models: Iterable[LanguageModel], formats: Sequence[str]) -> list[Call]:
    """Every call of every model, in the models' order and then by format."""
    return [
        Call(model.name, layers.count, {**_facts(model, layers), KV_FORMAT: kv_format})
        for model in models
        for layers in model.layers
        for kv_format in formats
    ]


def _facts(model: LanguageModel, layers: Layers) -> dict[str, Any]:
    length = {} if layers.window is None else {"window_length": layers.window}
    return {
        "head_dim": model.head_dim,
        "head_dim_v": model.head_dim if model.head_dim_v is None else model.head_dim_v,
        "gqa": model.q_heads // model.kv_heads,
        "q_heads": model.q_heads,
        "kv_heads": model.kv_heads,
        "window": layers.window is not None,
        "sinks": layers.sinks,
        "soft_cap": layers.soft_cap is not None,
        **length,
    }
