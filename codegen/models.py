"""Reads and checks a list of language models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from assay import kernel_specs
from assay.bundle.faults import Fault, did_you_mean

from .model_list import LanguageModel, ModelListFile
from .spec_parse import Parsed, parse_model
from .specs import SpecError, display_path
from .yaml_source import read_yaml_file

SHIPPED = Path(kernel_specs.DIRECTORY) / "models" / "open_models.yaml"


def load_models(path: Path = SHIPPED) -> tuple[LanguageModel, ...]:
    """The models of one file, in its order.  Raises SpecError with every fault, each with file:line:column."""
    parsed, faults = parse_model(read_yaml_file(path, display_path(path)), ModelListFile)
    if parsed is not None:
        faults = _group_faults(parsed) + _name_faults(parsed)
    if parsed is None or faults:
        raise SpecError(faults)
    return tuple(parsed.model.models)


def pick_models(models: Sequence[LanguageModel], names: Iterable[str], asked_by: str) -> tuple[LanguageModel, ...]:
    """The models of those names, in the list's order; case does not count.

    asked_by: where the names stand, for the message.  Raises SpecError for all names that no model has.
    """
    wanted = {name.lower(): name for name in names}
    known = {model.name.lower(): model for model in models}
    allowed = f"one of {len(models)} models in the list"
    if unknown := [name for key, name in wanted.items() if key not in known]:
        said = [model.name for model in models]
        raise SpecError([Fault(asked_by, repr(name), allowed, did_you_mean(name, said)) for name in unknown])
    return tuple(model for model in models if model.name.lower() in wanted)


def _group_faults(parsed: Parsed[ModelListFile]) -> list[Fault]:
    return [
        Fault(
            parsed.source.where(("models", index, "kv_heads")),
            f"kv_heads: {model.kv_heads}",
            f"a divisor of the {model.q_heads} query heads",
        )
        for index, model in enumerate(parsed.model.models)
        if model.q_heads % model.kv_heads
    ]


def _name_faults(parsed: Parsed[ModelListFile]) -> list[Fault]:
    """Names are looked up without regard to case."""
    faults: list[Fault] = []
    first: dict[str, str] = {}
    for index, model in enumerate(parsed.model.models):
        where = parsed.source.where(("models", index, "name"))
        if model.name.lower() in first:
            given = f"a second model {model.name!r}"
            faults.append(Fault(where, given, "each name once", f"the first is at {first[model.name.lower()]}"))
        first.setdefault(model.name.lower(), where)
    return faults
