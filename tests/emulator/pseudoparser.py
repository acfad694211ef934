"""Expressions of the ISA document's pseudocode: precedence as in C, types from the wider operand."""

from __future__ import annotations

import math
import re

from .pseudonumbers import Number, Untranslatable, apply, integer, real

TOKEN = re.compile(
    r"\s*(?:(?P<cast>\d+'[UIBF])(?=\()|(?P<sized>\d+'-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?)U?)"
    r"|(?P<number>0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?P<suffix>ULL|LL|U|F)?"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op><<|>>|<=|>=|==|!=|<>|&&|\|\||\*\*|\+:|[-+*/%&|^~!<>=?:.,(){}\[\]]))"
)
_CONSTANTS = {"INF": math.inf, "NAN": math.nan, "PI": math.pi}
_CONSTANTS |= {"UNDERFLOW_F32": 0.0, "UNDERFLOW_F64": 0.0, "OVERFLOW_F32": math.inf, "OVERFLOW_F64": math.inf}


class Parser:
    """Precedence as in C. Types: the wider operand's, signed only if both are."""

    def __init__(self, evaluator, tokens: list[re.Match]):
        self.evaluator, self.tokens, self.at = evaluator, tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at][0].strip() if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        found = self.peek()
        if expected is not None and found != expected:
            raise Untranslatable(f"{found!r} where {expected!r} should be")
        self.at += 1
        return found

    def conditional(self) -> Number:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        first = self.conditional()
        self.take(":")
        second = self.conditional()
        return first if condition.bits else second

    _LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="), ("<<", ">>"))
    _LEVELS += (("+", "-"), ("*", "/", "%"))

    def binary(self, level: int) -> Number:
        if level == len(self._LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in self._LEVELS[level]:
            operator = self.take()
            left = apply(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Number:
        match self.peek():
            case "!":
                self.take()
                return integer("u", 1, not self.unary().bits)
            case "~":
                self.take()
                value = self.unary()
                return integer(value.kind, value.width, ~value.bits)
            case "-":
                self.take()
                value = self.unary()
                if value.kind == "f":
                    return Number("f", value.width, value.bits ^ 1 << (value.width - 1))
                return integer("i" if value.width < 32 else value.kind, max(value.width, 32), -value.value)
            case "+":
                self.take()
                return self.unary()
        base = self.postfix()
        if self.peek() == "**":
            self.take()
            exponent = self.unary()
            return real(base.width, math.ldexp(1.0, max(-2000, min(1023, exponent.value))))
        return base

    def postfix(self) -> Number:
        constant = self.peek() in _CONSTANTS
        value = self.primary()
        while self.peek() in (".", "["):
            if self.take() == ".":
                if constant:
                    value = real(int(self.take()[1:]), value.float)
                    continue
                form = re.fullmatch(r"([uibf])f?(\d+)", self.take())
                if form is None:
                    raise Untranslatable("a field")
                value = Number(form[1], int(form[2]), value.bits & ((1 << int(form[2])) - 1))
            else:
                first = self.conditional()
                if self.peek() == "]":
                    low, width = first.value, 1
                else:
                    ranged = self.take() == "+:"
                    second = self.conditional()
                    low, width = (
                        (first.value, second.value) if ranged else (second.value, first.value - second.value + 1)
                    )
                    if width <= 0:  # S0[0 : 31]: the bits in reverse
                        low, width = first.value, second.value - first.value + 1
                        flipped = f"{value.bits >> low & (1 << width) - 1:0{width}b}"[::-1]
                        value = integer("u", width, int(flipped, 2))
                        low = 0
                self.take("]")
                value = integer("u", width, value.bits >> low)
        return value

    def primary(self) -> Number:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None:
            raise Untranslatable("an expression that ends early")
        if self.peek() == "(":
            self.take()
            value = self.conditional()
            self.take(")")
            return value
        if self.peek() == "{":
            return self._concatenation()
        self.at += 1
        if token["cast"]:
            width, kind = token["cast"].split("'")
            self.take("(")
            value = self.conditional()
            self.take(")")
            return _cast(value, kind.lower(), int(width))
        if token["sized"]:
            width, digits = token["sized"].split("'")
            if "." in digits:
                return real(int(width), float(digits))
            return integer("u" if digits.endswith("U") else "i", int(width), int(digits.rstrip("U"), 0))
        if token["number"]:
            return _literal(token["number"], token["suffix"] or "")
        if token["name"] and self.peek() == "(":
            self.take()
            arguments = []
            while self.peek() != ")":
                arguments.append(self.conditional())
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return self.evaluator.call(token["name"], arguments)
        if token["name"] in _CONSTANTS:
            return real(64, _CONSTANTS[token["name"]])
        if token["name"] in self.evaluator.variables:
            return self.evaluator.variables[token["name"]]
        raise Untranslatable(token[0])

    def _concatenation(self) -> Number:
        self.take("{")
        parts = [self.conditional()]
        while self.peek() == ",":
            self.take()
            parts.append(self.conditional())
        self.take("}")
        bits = width = 0
        for part in parts:
            bits, width = bits << part.width | part.bits, width + part.width
        return Number("u", width, bits)


def _literal(digits: str, suffix: str) -> Number:
    if suffix == "F" and not digits.startswith("0x"):
        return real(32, float(digits))
    if "." in digits:
        return real(64, float(digits))
    kind, width = {"ULL": ("u", 64), "LL": ("i", 64), "U": ("u", 32)}.get(suffix, ("i", 32))
    value = int(digits + (suffix if suffix == "F" else ""), 0)
    return integer(kind, 64 if value >> 32 else width, value)


def _cast(value: Number, kind: str, width: int) -> Number:
    if kind == "f":
        return value if value.kind != "f" and width <= 64 and value.bits >> 16 else real(width, value.value)
    if value.kind == "f":
        raise Untranslatable("a cast of a float to an integer")
    return integer(kind, width, value.value)
