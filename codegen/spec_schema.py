"""JSON Schemas of the spec files, for editors: made from the models, so that they cannot say something else.

What JSON Schema cannot see stays with `assay plan`: names that exist in another place, values that an axis has.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from .model_list import ModelListFile
from .predicates import INTEGER_OPERATORS, OPERATORS
from .spec_checks import TARGET_FACTS
from .spec_models import AxisValue, FamilyFile, Name, ProfileFile, TargetFile, WaiverFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[str, type[BaseModel]] = {
    "target": TargetFile,
    "family": FamilyFile,
    "profile": ProfileFile,
    "waivers": WaiverFile,
    "models": ModelListFile,
}

_REFERENCE = "#/$defs/{}"
_AXIS_VALUE = TypeAdapter(AxisValue).json_schema()
_VALUE = {"$ref": _REFERENCE.format("AxisValue")}
_VALUES = {"type": "array", "minItems": 1, "items": _VALUE}
_OPERANDS: dict[str, Any] = {
    "not": {"description": "none of these", "anyOf": [_VALUE, _VALUES]},
    "contains": {"description": "a list that has this, as target.features is", **_VALUE},
    "lacks": {"description": "a list that does not have this", **_VALUE},
    **{name: {"type": "integer"} for name in INTEGER_OPERATORS},
    "multiple_of": {"type": "integer", "minimum": 1},
}
# Where schemas stand inside a schema: one, a list of them, or a mapping to them.
_ONE, _LISTS = ("items", "additionalProperties", "propertyNames"), ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs")


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one of KINDS."""
    described = KINDS[kind].model_json_schema()
    described = _rewrite(described, _exact)
    definitions = {**described.pop("$defs", {})}
    used = json.dumps([described, definitions])
    if _REFERENCE.format("Predicate") in used:
        definitions |= {"Predicate": _predicate(), "Test": _test()}
    if _REFERENCE.format("AxisValue") in json.dumps([described, definitions]):
        definitions["AxisValue"] = _AXIS_VALUE
    return {"$schema": DIALECT, **described, "title": f"assay {kind} file", "$defs": dict(sorted(definitions.items()))}


def schema_text(kind: str) -> str:
    """The schema as it is written to `kernel_specs/schemas/<kind>.schema.json`."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def _rewrite(described: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """`described` with every schema inside it, and then itself, changed.  Names of properties are no schemas."""
    if not isinstance(described, dict):
        return described  # `true` or `false`
    result = dict(described)
    for key in _ONE:
        if key in result:
            result[key] = _rewrite(result[key], change)
    for key in _LISTS:
        if key in result:
            result[key] = [_rewrite(item, change) for item in result[key]]
    for key in _MAPS:
        if key in result:
            result[key] = {name: _rewrite(item, change) for name, item in result[key].items()}
    return change(result)


def _exact(described: dict[str, Any]) -> dict[str, Any]:
    """What pydantic leaves vague: free mappings, keys that match no pattern, titles that repeat the name."""
    title = described.pop("title", None)
    if title == "Predicate":
        about = {key: described[key] for key in ("description", "default") if key in described}
        return {"$ref": _REFERENCE.format("Predicate"), **about}
    if described == _AXIS_VALUE:
        return dict(_VALUE)
    if described.get("additionalProperties") is True:
        described["additionalProperties"] = _VALUE
    if "patternProperties" in described:
        described.setdefault("additionalProperties", False)
    default = described.pop("default", None)
    if isinstance(default, dict):
        default = {name: value for name, value in default.items() if value is not None}
    return described if default is None else {**described, "default": default}


def _predicate() -> dict[str, Any]:
    name = TypeAdapter(Name).json_schema()["pattern"].removeprefix("^").removesuffix("$")
    facts = "|".join(fact.replace(".", r"\.") for fact in TARGET_FACTS)
    return {
        "description": "All tests must hold; an empty mapping always does.  A name is an axis, a launch field, "
        + ", ".join(TARGET_FACTS),
        "type": "object",
        "patternProperties": {f"^({name}|{facts})$": {"$ref": _REFERENCE.format("Test")}},
        "additionalProperties": False,
    }


def _test() -> dict[str, Any]:
    operators = {
        "description": "all operators must hold",
        "type": "object",
        "minProperties": 1,
        "properties": {name: _OPERANDS[name] for name in OPERATORS},
        "additionalProperties": False,
    }
    return {
        "anyOf": [
            {"description": "equal, and of the same type", **_VALUE},
            {"description": "one of these", **_VALUES},
            operators,
        ]
    }
