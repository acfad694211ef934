"""Triton GPU IR as text, without what printing alone decides.

Equal hashes then mean that the compiler's middle end made the same of two sources, or that two compilers made the same
of one, so that a different binary is the back end's doing.

Taken out: locations, the names of values and of layouts, where constants stand (they have no effects and no order), and
two spellings that differ between Triton 3.8 and 3.9 without another meaning (`_SPELLINGS`).  The order of all other
operations stays, as do attributes: what is not known to be printing counts as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .records import sha256_hex

# ` loc("name"(#loc3))`, ` loc(callsite(#loc1 at #loc2))`: brackets within brackets, and texts that may hold any.
_PLAIN = r"[^()\"]|\"[^\"]*\""
_LOCATION = re.compile(rf" ?\bloc\((?:{_PLAIN}|\((?:{_PLAIN}|\((?:{_PLAIN})*\))*\))*\)")
_LOCATION_ALIAS = re.compile(r"^#loc\d* = ")
_ALIAS = re.compile(r"^(#[A-Za-z]\w*) = (.*)$")
_ALIAS_USE = re.compile(r"#[A-Za-z]\w*(?![\w.])")
_CONSTANT = re.compile(r"^\s*(%[\w$.\-]+) = (arith\.constant .*)$")
_VALUE = re.compile(r"%[A-Za-z0-9_$.\-]+")
_FUNCTION = re.compile(r"^\s*tt\.func\b")
# An MLIR text, whose signs are no names: inline assembly may hold any.
_TEXT = re.compile(r"(\"(?:[^\"\\]|\\.)*\")")
_SPELLINGS = (
    # 3.9 repeats the type of the pointer, which is that of the operand.
    (re.compile(r"(\bamdg\.buffer_\w+ .* : )!tt\.ptr<[^>]*> -> "), r"\1"),
    # 3.9 says that something is not so; 3.8 says it by leaving it out.
    (re.compile(r", \"ttng\.two-ctas\" = false(?=[,}])"), ""),
)


def ir_sha256(text: str) -> str:
    """SHA-256 of the normalised text, in hexadecimal."""
    return sha256_hex(normalised_ir(text))


def normalised_ir(text: str) -> str:
    """The module with layouts and constants written out where they are used, and values numbered by their first use."""
    aliases: dict[str, str] = {}
    constants: dict[str, str] = {}
    numbers: dict[str, str] = {}
    lines = []
    for printed in text.splitlines():
        line = _LOCATION.sub("", printed).rstrip()
        if not line or _LOCATION_ALIAS.match(printed):
            continue
        if alias := _ALIAS.match(line):
            aliases[alias[1]] = _written_out(alias[2], aliases)
            continue
        if _FUNCTION.match(line):
            # Values are named anew in each function.
            constants, numbers = {}, {}
        line = _written_out(line, aliases)
        if constant := _CONSTANT.match(line):
            constants[constant[1]] = f"({constant[2]})"
            continue
        for spelling, plain in _SPELLINGS:
            line = spelling.sub(plain, line)
        lines.append(_outside_texts(line, lambda part: _numbered(part, constants, numbers)))  # noqa: B023 - called here
    return "\n".join(lines) + "\n"


def _written_out(line: str, aliases: dict[str, str]) -> str:
    return _outside_texts(line, lambda part: _ALIAS_USE.sub(lambda use: aliases.get(use[0], use[0]), part))


def _numbered(part: str, constants: dict[str, str], numbers: dict[str, str]) -> str:
    def name(use: re.Match[str]) -> str:
        return constants.get(use[0]) or numbers.setdefault(use[0], f"%{len(numbers)}")

    return _VALUE.sub(name, part)


def _outside_texts(line: str, change: Callable[[str], str]) -> str:
    parts = _TEXT.split(line)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))
