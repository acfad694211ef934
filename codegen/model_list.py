"""The shape of a list of language models: what each asks of decode attention and of the KV cache."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from .spec_models import SpecModel

ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,79}$")]
ConfigName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-/]{0,119}$")]
_MOST = 65_536


class Layers(SpecModel):
    """Equal layers of one model."""

    count: Annotated[int, Field(ge=1, le=_MOST, description="how many layers there are of this kind")]
    window: (
        Annotated[int, Field(ge=1, le=2**31 - 1, description="keys that a query sees; left out: all before it")] | None
    ) = None
    sinks: Annotated[bool, Field(description="each query head has a sink logit")] = False
    soft_cap: Annotated[float, Field(gt=0, description="soft cap of the attention logits")] | None = None


class LanguageModel(SpecModel):
    name: ModelName
    config: ConfigName
    q_heads: Annotated[int, Field(ge=1, le=_MOST, description="query heads of a layer")]
    kv_heads: Annotated[int, Field(ge=1, le=_MOST, description="KV heads of a layer, a divisor of q_heads")]
    head_dim: Annotated[int, Field(ge=1, le=_MOST, description="elements of a row of Q and K, and of V")]
    head_dim_v: Annotated[int, Field(ge=1, le=_MOST, description="elements of a row of V where it differs")] | None = (
        None
    )
    layers: Annotated[list[Layers], Field(min_length=1, description="the kinds of layers that have a KV cache")]


class ModelListFile(SpecModel):
    schema_: Annotated[Literal["assay.models/1"], Field(alias="schema")]
    models: Annotated[list[LanguageModel], Field(min_length=1)]
