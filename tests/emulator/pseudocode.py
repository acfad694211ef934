"""Evaluates the ISA document's pseudocode for one lane: slow, literal, and independent of the emulator.

Covered: assignments, if/elsif/else, for loops over ranges, bit slices, casts, the conditional operator and the float
helpers that vector and scalar ALU opcodes use.  Anything else raises Untranslatable.

A number is a pair of kind and bits: kinds are `u`, `i`, `b` and `f` with a width, as in the document.
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise

from tinygrad.runtime.autogen.amd.rdna4.str_pcode import PCODE

from .pseudonumbers import Number, Untranslatable, call, convert, integer
from .pseudoparser import TOKEN, Parser


@functools.cache
def _vector_pseudocode() -> dict[str, str]:
    return {member.name.lower().removesuffix("_e64").removesuffix("_e32"): text for member, text in PCODE.items()}


class Evaluator:
    """One lane. `variables` maps names such as S0, D0, SCC to Numbers."""

    def __init__(self, variables: dict[str, Number]):
        self.variables = dict(variables)

    def run(self, text: str) -> None:
        statements = [line.strip().rstrip(";").strip() for line in _without_comments(text)]
        self._block([line for line in statements if line], 0, len(statements))

    # -- statements

    def _block(self, lines: list[str], start: int, stop: int) -> bool:
        """Runs lines[start:stop]; true if a `break` was met."""
        at = start
        stop = min(stop, len(lines))
        while at < stop:
            line = lines[at]
            if line.startswith("if "):
                end = _matching(lines, at, "if ", "endif")
                if self._conditional(lines, at, end):
                    return True
                at = end + 1
            elif line.startswith("for "):
                end = _matching(lines, at, "for ", "endfor")
                self._loop(lines, at, end)
                at = end + 1
            elif line == "break":
                return True
            else:
                self._assign(line)
                at += 1
        return False

    def _conditional(self, lines: list[str], start: int, end: int) -> bool:
        marks = [start]
        depth = 0
        for number in range(start + 1, end):
            depth += lines[number].startswith("if ")
            depth -= lines[number] == "endif"
            if depth == 0 and (lines[number].startswith("elsif ") or lines[number] == "else"):
                marks.append(number)
        marks.append(end)
        for first, last in pairwise(marks):
            line = lines[first]
            if line == "else" or self.expression(line.split(" ", 1)[1].removesuffix(" then")).bits:
                return self._block(lines, first + 1, last)
        return False

    def _loop(self, lines: list[str], start: int, end: int) -> None:
        match = re.fullmatch(r"for (\w+) in (.+?) : (.+) do", lines[start])
        if match is None:
            raise Untranslatable(lines[start])
        first, last = (self.expression(part).value for part in match.groups()[1:])
        for value in range(first, last + 1):
            self.variables[match[1]] = integer("i", 32, value)
            if self._block(lines, start + 1, end):
                return

    def _assign(self, line: str) -> None:
        if line.startswith("declare "):
            return
        match = re.fullmatch(r"(\w+)((?:\[[^\]=]+\]|\.\w+)*)\s*(\+|\||-)?=\s*(.+)", line)
        if match is None:
            raise Untranslatable(line)
        name, path, operator, right = match.groups()
        value = self.expression(f"{name}{path} {operator} ({right})" if operator else right)
        if name == "TRAPSTS":
            return
        old = self.variables.get(name)
        span = re.search(r"\[([^\]]+)\]", path)
        kind = re.search(r"\.([uibf])(?:f?)(\d+)", path)
        if kind:
            value = convert(value, kind[1], int(kind[2]))
        if span is None:
            self.variables[name] = value
            return
        low, width = self._span(span[1])
        old = old or integer("u", 64, 0)
        mask = ((1 << width) - 1) << low
        self.variables[name] = Number(old.kind, old.width, old.bits & ~mask | value.bits << low & mask)

    def _span(self, text: str) -> tuple[int, int]:
        if "+:" in text:
            low, width = (self.expression(part).value for part in text.split("+:"))
            return low, width
        if ":" in text and "?" not in text:
            high, low = (self.expression(part).value for part in text.rsplit(" : ", 1))
            return low, high - low + 1
        return self.expression(text).value, 1

    # -- expressions

    def call(self, name: str, arguments: list[Number]) -> Number:
        """A named function, or `v_min_i32(a, b)`: the pseudocode of another opcode."""
        text = _vector_pseudocode().get(name) if name.startswith("v_") else None
        if text is None:
            return call(name, arguments)
        inner = Evaluator({f"S{place}": value for place, value in enumerate(arguments)})
        inner.run(text)
        return inner.variables["D0"]

    def expression(self, text: str) -> Number:
        tokens, at = [], 0
        text = text.strip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                raise Untranslatable(text[at:])
            tokens.append(match)
            at = match.end()
        parser = Parser(self, tokens)
        result = parser.conditional()
        if parser.at != len(tokens):
            raise Untranslatable(text)
        return result


def _without_comments(text: str) -> list[str]:
    joined: list[str] = []
    for line in text.split("\n"):
        line = line.split("//")[0].strip()
        if not line:
            continue
        if joined and joined[-1].count("(") > joined[-1].count(")"):
            joined[-1] += " " + line
        else:
            joined.append(line)
    return joined


def _matching(lines: list[str], start: int, opening: str, closing: str) -> int:
    depth = 0
    for number in range(start, len(lines)):
        depth += lines[number].startswith(opening)
        depth -= lines[number] == closing
        if depth == 0:
            return number
    raise Untranslatable(f"no {closing}")
