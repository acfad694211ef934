"""YAML text to plain data with the position of every value, and every mistake at once.

PyYAML reads YAML 1.1, where `yes` is a boolean, `1_28` and `0o200` are surprises and a later duplicate key silently
wins.  Here scalars follow the JSON schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema, without octal and
hexadecimal): anything that YAML 1.1 would have coerced differently is a fault that says how to write what was meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from assay.bundle.faults import Fault

KeyPath = tuple[str | int, ...]

# No figure of a kernel needs more digits, and Python refuses to read thousands of them.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?")
_KEYWORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
# Plain scalars that YAML 1.1 readers, this one and a human would not all read alike.
_SURPRISES = re.compile(
    r"(?i:yes|no|on|off|y|n|true|false|null)|[-+]?0[0-9]+|[-+]?0[oxb][0-9a-fA-F]+|[-+]?[0-9][0-9_]*_[0-9_]*"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.[0-9]+|[-+]?[0-9]+\.|[-+]?\.(?i:inf|nan)|[0-9]+(:[0-5]?[0-9])+"
)
# Specs are written by people: deeper nesting is a mistake or an attack on the reader's stack.
_MAX_DEPTH = 24


@dataclass
class YamlSource:
    """One parsed file: `data` (dict, list, str, int, float, bool, None), and where each value and key stands."""

    name: str
    data: Any = None
    value_marks: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    key_marks: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """`file:line:column` of a value (or of its key); of the nearest enclosing value where there is none."""
        marks = self.key_marks if key and path in self.key_marks else self.value_marks
        while path and path not in marks:
            path = path[:-1]
        line, column = marks.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"


def read_yaml_file(path: Path, name: str) -> YamlSource:
    """Read one file; what cannot be read is a fault in the result, never an exception."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else f"not UTF-8 text ({error.reason} at byte {error.start})"
        )
        return YamlSource(name, faults=[Fault(name, reason or str(error), "a readable UTF-8 file")])
    return parse_yaml(text, name)


def parse_yaml(text: str, name: str) -> YamlSource:
    """Parse one document.  All duplicate keys, surprising scalars, anchors and tags are collected in `.faults`."""
    source = YamlSource(name)
    try:
        source.faults.extend(_refused_tokens(text, name))
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        source.faults.append(Fault(where, error.problem or str(error), "valid YAML", error.context or ""))
        return source
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = f"{name}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        source.faults.append(Fault(where, f"character U+{error.character:04X}", "printable text"))
        return source
    except (yaml.YAMLError, RecursionError) as error:
        source.faults.append(Fault(name, " ".join(str(error).split()), "valid YAML"))
        return source
    if root is None:
        source.faults.append(Fault(f"{name}:1:1", "an empty file", "a mapping"))
    elif not source.faults:
        source.data = _Constructor(source).value(root, ())
    return source


def _refused_tokens(text: str, name: str) -> list[Fault]:
    """Anchors, aliases and tags: they hide where a value stands, and tags make YAML construct objects."""
    refused = {yaml.AnchorToken: "an anchor (&)", yaml.AliasToken: "an alias (*)", yaml.TagToken: "a tag (!)"}
    return [
        Fault(f"{name}:{token.start_mark.line + 1}:{token.start_mark.column + 1}", given, "plain values only")
        for token in yaml.scan(text, Loader=yaml.SafeLoader)
        if (given := refused.get(type(token)))
    ]


class _Constructor:
    def __init__(self, source: YamlSource):
        self._source = source

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._source.value_marks[path] = _position(node)
        if len(path) > _MAX_DEPTH:
            self._fault(path, "nesting without end", f"at most {_MAX_DEPTH} levels")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line, column = _position(key_node)
            where = f"{self._source.name}:{line}:{column}"
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or key in ("", "<<"):
                self._source.faults.append(Fault(where, "a key that is not a name", "a plain name as key"))
            elif key in result:
                hint = f"first given at line {self._source.key_marks[(*path, key)][0]}; remove one of the two"
                self._source.faults.append(Fault(where, f"duplicate key {key!r}", "each key once", hint))
            else:
                self._source.key_marks[(*path, key)] = (line, column)
                result[key] = self.value(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text = node.value
        if node.style in ("'", '"', "|", ">"):
            return text
        if text in _KEYWORDS:
            return _KEYWORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if _SURPRISES.fullmatch(text):
            allowed = "true, false, a decimal number, or a quoted string"
            self._fault(
                path,
                f"{text}, which YAML readers disagree about",
                allowed,
                f"quote it ('{text}') if it is text",
            )
            return None
        return text

    def _fault(self, path: KeyPath, given: str, allowed: str, hint: str = "") -> None:
        self._source.faults.append(Fault(self._source.where(path), given, allowed, hint))


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
