"""One spec file from YAML to its model, with every pydantic error as a fault at file:line:column."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError

from assay.bundle.faults import Fault, did_you_mean

from .model_list import LanguageModel
from .spec_models import GRID_TERM, MNEMONIC, FamilyFile, Waiver, Workaround
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
    kind, last = error["type"], path[-1] if path else ""
    if kind == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        where = source.where(path, key=True)
        comma = "quote the text before it: a comma ends a value inside { }" if " " in str(last) else ""
        return Fault(where, f"unknown key {last!r}", ", ".join(known), did_you_mean(last, known) or comma)
    if kind == "missing":
        return Fault(source.where(path[:-1]), f"missing key {last!r}", _described(model, path))
    if "[key]" in error["loc"]:
        return Fault(source.where(path, key=True), f"key {error['input']!r}", _allowed_key(error), _hint(error))
    # What stands in a list has no key of its own: the list's key says what it is about.
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    given = f"{key}: {error['input']!r}" if key else repr(error["input"])
    return Fault(source.where(path), given[:200], _allowed(model, path, error), _hint(error))


def _pattern(model: type[BaseModel], field: str) -> str:
    return next(item.pattern for item in model.model_fields[field].metadata if item.pattern)


_SHAPES = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}
_PATTERNS = {
    _pattern(FamilyFile, "kernel"): "a name: a letter, then letters, digits and _, 48 at most",
    GRID_TERM: "a dimension, or a term such as rows*gqa/BLOCK_M",
    _pattern(FamilyFile, "template"): "the name of a file in templates/ that ends in .j2",
    _pattern(Waiver, "variant"): "16 hexadecimal digits, quoted",
    _pattern(Waiver, "expires"): "a date such as 2027-01-31",
    _pattern(Workaround, "since"): "a version such as '3.8.0', quoted",
    MNEMONIC: "an instruction's mnemonic",
    _pattern(LanguageModel, "name"): "a name: letters, digits and _.-, 80 at most",
    _pattern(LanguageModel, "config"): "a name: letters, digits and _.-/, 120 at most",
}
_SCALARS = {str: "a text", int: "an integer", float: "a number", bool: "true or false", list: "a list"}
_LENGTHS = {"too_short": "item", "too_long": "item", "string_too_short": "character", "string_too_long": "character"}


def _allowed(model: type[BaseModel], path: KeyPath, error: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _SHAPES:
        return _SHAPES[kind]
    if kind in _LENGTHS:
        bound, count = ("at least", "min_length") if "short" in kind else ("at most", "max_length")
        return f"{bound} {context[count]} {_LENGTHS[kind]}{'s' if context[count] != 1 else ''}"
    if kind == "string_pattern_mismatch" or kind.endswith("_type"):
        return _wanted(_annotation(model, path))
    if "expected" in context:
        return _listed(context["expected"])
    return error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")


def _allowed_key(error: Any) -> str:
    """What a mapping's keys may be: words of a pattern, or a few names.  `_allowed` would tell of the key's value."""
    context = error["ctx"]
    return _PATTERNS[context["pattern"]] if "pattern" in context else _listed(context["expected"])


def _listed(expected: Any) -> str:
    return str(expected).replace("'", "")


def _hint(error: Any) -> str:
    expected = error.get("ctx", {}).get("expected")
    if expected is None or not isinstance(error["input"], str):
        return ""
    words = [word.strip(" '") for word in str(expected).replace(" or ", ",").split(",")]
    return did_you_mean(error["input"], words)


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that the mapping at `path` may have, found by walking the model's annotations."""
    fields = getattr(_bare(_annotation(model, path)), "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _described(model: type[BaseModel], path: KeyPath) -> str:
    """What belongs at a key that is not there: its values where they are few, else what it is about."""
    fields = getattr(_bare(_annotation(model, path[:-1])), "model_fields", {})
    about = [field.description for name, field in fields.items() if path[-1] == (field.alias or name)]
    annotation = _annotation(model, path)
    is_choice = typing.get_origin(_bare(annotation)) is typing.Literal
    return _wanted(annotation) if is_choice or not about or about[0] is None else about[0]


def _wanted(annotation: Any) -> str:
    """What an annotation asks for, in words."""
    annotation = _without_optional(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        patterns = [item.pattern for item in typing.get_args(annotation) if isinstance(item, StringConstraints)]
        return next((_PATTERNS[pattern] for pattern in patterns if pattern), "") or _wanted(_bare(annotation))
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(str(value) for value in typing.get_args(annotation))
    if fields := getattr(annotation, "model_fields", None):
        needed = [field.alias or name for name, field in fields.items() if field.is_required()]
        return f"a mapping with {', '.join(needed)}" if needed else "a mapping"
    return _SCALARS.get(typing.get_origin(annotation) or annotation, "a mapping")


def _annotation(model: type[BaseModel], path: KeyPath) -> Any:
    """The annotation of what stands at `path`, with its constraints."""
    annotation: Any = model
    for part in path:
        annotation = _inner(_bare(annotation), part)
    return annotation


def _inner(annotation: Any, part: str | int) -> Any:
    fields = getattr(annotation, "model_fields", None)
    if fields is not None:
        for name, field in fields.items():
            if str(part) == (field.alias or name):
                metadata = tuple(field.metadata)
                return typing.Annotated[(field.annotation, *metadata)] if metadata else field.annotation
        return None
    arguments = typing.get_args(annotation)
    return arguments[-1] if arguments else None


def _bare(annotation: Any) -> Any:
    """Without constraints and without `| None`."""
    annotation = _without_optional(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    return annotation


def _without_optional(annotation: Any) -> Any:
    choices = [item for item in typing.get_args(annotation) if item is not type(None)]
    is_optional = len(choices) == 1 and type(None) in typing.get_args(annotation)
    return choices[0] if is_optional else annotation
