"""One spec file from YAML to its model, with every pydantic error as a fault at file:line:column."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from assay.bundle.faults import Fault, did_you_mean

from .yaml_source import KeyPath, YamlSource

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Parsed(Generic[Model]):
    """A valid file: its model and its source, whose positions later checks point to."""

    model: Model
    source: YamlSource


def parse_model(source: YamlSource, model: type[Model]) -> tuple[Parsed[Model] | None, list[Fault]]:
    """The model of one file, or all that is wrong with it."""
    if source.faults:
        return None, source.faults
    try:
        return Parsed(model.model_validate(source.data), source), []
    except ValidationError as error:
        return None, [_fault(source, model, item) for item in error.errors(include_url=False)]


def _fault(source: YamlSource, model: type[BaseModel], error: Any) -> Fault:
    path: KeyPath = tuple(part for part in error["loc"] if part != "[key]")
    kind, name = error["type"], path[-1] if path else ""
    if kind == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        where = source.where(path, key=True)
        comma = "quote the text before it: a comma ends a value inside { }" if " " in str(name) else ""
        return Fault(where, f"unknown key {name!r}", ", ".join(known), did_you_mean(name, known) or comma)
    if kind == "missing":
        return Fault(source.where(path[:-1]), f"no key {name!r}", f"a mapping with {name!r}")
    given = f"{name}: {error['input']!r}" if isinstance(name, str) and name else repr(error["input"])
    return Fault(source.where(path), given[:200], _allowed(error), _hint(error))


_SHAPES = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}


def _allowed(error: Any) -> str:
    if error["type"] in _SHAPES:
        return _SHAPES[error["type"]]
    context = error.get("ctx", {})
    if "expected" in context:
        return str(context["expected"]).replace("'", "")
    return error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")


def _hint(error: Any) -> str:
    expected = error.get("ctx", {}).get("expected")
    if expected is None or not isinstance(error["input"], str):
        return ""
    words = [word.strip(" '") for word in str(expected).replace(" or ", ",").split(",")]
    return did_you_mean(error["input"], words)


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that the mapping at `path` may have, found by walking the model's annotations."""
    annotation: Any = model
    for part in path:
        annotation = _inner(annotation, part)
    annotation = _without_optional(annotation)
    fields = getattr(annotation, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _inner(annotation: Any, part: str | int) -> Any:
    annotation = _without_optional(annotation)
    fields = getattr(annotation, "model_fields", None)
    if fields is not None:
        by_key = {field.alias or name: field.annotation for name, field in fields.items()}
        return by_key.get(str(part))
    arguments = typing.get_args(annotation)
    return arguments[-1] if arguments else None


def _without_optional(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    choices = [item for item in typing.get_args(annotation) if item is not type(None)]
    is_optional = len(choices) == 1 and type(None) in typing.get_args(annotation)
    return choices[0] if is_optional else annotation
