"""Evaluates the ISA document's pseudocode for one lane: slow, literal, and independent of the emulator.

Covered: assignments, if/elsif/else, for loops over ranges, bit slices, casts, the conditional operator and the float
helpers that vector and scalar ALU opcodes use.  Anything else raises Untranslatable.

A number is a pair of kind and bits: kinds are `u`, `i`, `b` and `f` with a width, as in the document.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

_TOKEN = re.compile(
    r"\s*(?:(?P<cast>\d+'[UIBF])(?=\()|(?P<sized>\d+'-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?)U?)"
    r"|(?P<number>0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?P<suffix>ULL|LL|U|F)?"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op><<|>>|<=|>=|==|!=|<>|&&|\|\||\*\*|\+:|[-+*/%&|^~!<>=?:.,(){}\[\]]))"
)
_CONSTANTS = {"INF": math.inf, "NAN": math.nan, "PI": math.pi}
_CONSTANTS |= {"UNDERFLOW_F32": 0.0, "UNDERFLOW_F64": 0.0, "OVERFLOW_F32": math.inf, "OVERFLOW_F64": math.inf}
_FLOATS = {16: (np.float16, "<H"), 32: (np.float32, "<I"), 64: (np.float64, "<Q")}


class Untranslatable(Exception):
    """Pseudocode that this evaluator does not know."""


@dataclass(frozen=True)
class Number:
    kind: str
    width: int
    bits: int

    @property
    def value(self):
        if self.kind == "f":
            return self.float
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def float(self):
        dtype, form = _FLOATS[self.width]
        return np.frombuffer(struct.pack(form, self.bits), dtype)[0]


def integer(kind: str, width: int, value: int) -> Number:
    return Number(kind, width, value & ((1 << width) - 1))


def real(width: int, value) -> Number:
    dtype, _ = _FLOATS[width]
    with np.errstate(all="ignore"):
        data = np.array(value).astype(dtype)
    return Number("f", width, int.from_bytes(data.tobytes(), "little"))


def rounded(width: int, exact: Fraction) -> Number:
    """The nearest float, ties to even, of an exact number."""
    mantissa, least = {16: (11, -24), 32: (24, -149), 64: (53, -1074)}[width]
    if exact == 0:
        return real(width, 0.0)
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** max(exponent - mantissa + 1, least)
    units = round(magnitude / unit)  # Python rounds halves to even
    value = units * unit
    limit = {16: 65504.0, 32: 3.4028234663852886e38, 64: 1.7976931348623157e308}[width]
    result = math.inf if value > Fraction(limit) else float(value)
    return real(width, -result if exact < 0 else result)


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
        for first, last in zip(marks, marks[1:], strict=False):
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

    def expression(self, text: str) -> Number:
        tokens, at = [], 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise Untranslatable(text[at:])
            tokens.append(match)
            at = match.end()
        parser = _Parser(self, tokens)
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


def convert(value: Number, kind: str, width: int) -> Number:
    """Assignment to a field: bits are kept between equal widths, numbers otherwise."""
    if value.kind == "f" and kind == "f":
        return value if value.width == width else real(width, value.float)
    if value.kind == "f":
        return integer(kind, width, value.bits)
    return integer(kind, width, value.value)


class _Parser:
    """Precedence as in C. Types: the wider operand's, signed only if both are."""

    def __init__(self, evaluator: Evaluator, tokens: list[re.Match]):
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
            return call(token["name"], arguments)
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


def apply(operator: str, a: Number, b: Number) -> Number:
    comparisons = {
        "==": lambda x, y: x == y,
        "!=": lambda x, y: x != y,
        "<>": lambda x, y: x < y or x > y,
        "<": lambda x, y: x < y,
        ">": lambda x, y: x > y,
        "<=": lambda x, y: x <= y,
        ">=": lambda x, y: x >= y,
    }
    if operator in comparisons:
        return integer("u", 1, bool(comparisons[operator](a.value, b.value)))
    if operator in ("&&", "||"):
        both = bool(a.bits) and bool(b.bits) if operator == "&&" else bool(a.bits) or bool(b.bits)
        return integer("u", 1, both)
    if operator in ("<<", ">>"):
        amount = b.value
        return integer(a.kind, a.width, a.value << amount if operator == "<<" else a.value >> amount)
    if "f" in (a.kind, b.kind):
        return _float_operation(operator, a, b)
    width = max(a.width, b.width)
    kind = "i" if a.kind == b.kind == "i" else "u"
    x, y = a.value, b.value
    if operator in ("/", "%"):
        if y == 0:
            raise Untranslatable("division by zero")
        return integer(kind, width, x // y if operator == "/" else x % y)
    return integer(kind, width, {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[operator])


def _float_operation(operator: str, a: Number, b: Number) -> Number:
    width = max(number.width for number in (a, b) if number.kind == "f")
    dtype = _FLOATS[width][0]
    x, y = dtype(a.value), dtype(b.value)
    with np.errstate(all="ignore"):
        result = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[operator]()
    return real(width, result)


def _fma(a: Number, b: Number, c: Number) -> Number:
    values = [float(number.value) for number in (a, b, c)]
    if not all(map(math.isfinite, values)) or (values[0] * values[1] == 0 and values[2] == 0):
        with np.errstate(all="ignore"):
            return real(a.width, np.float64(values[0]) * np.float64(values[1]) + np.float64(values[2]))
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    return rounded(a.width, exact)


def _to_integer(value: Number, kind: str, width: int) -> Number:
    number = float(value.value)
    low, high = (0, (1 << width) - 1) if kind == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
    if math.isnan(number):
        return integer(kind, width, 0)
    return integer(
        kind, width, max(low, min(high, math.trunc(number) if math.isfinite(number) else (high if number > 0 else low)))
    )


_PATTERN = {16: (10, 5), 32: (23, 8), 64: (52, 11)}


def call(name: str, arguments: list[Number]) -> Number:
    first = arguments[0]
    match name:
        case "isNAN" | "isQuietNAN" | "isSignalNAN":
            nan = first.kind == "f" and bool(np.isnan(first.value))
            quiet = bool(first.bits >> (_PATTERN[first.width][0] - 1) & 1)
            return integer("u", 1, nan and {"isNAN": True, "isQuietNAN": quiet, "isSignalNAN": not quiet}[name])
        case "cvtToQuietNAN":
            return Number("f", first.width, first.bits | 1 << (_PATTERN[first.width][0] - 1))
        case "sign":
            return integer("u", 1, first.bits >> (first.width - 1))
        case "exponent":
            mantissa, size = _PATTERN[first.width]
            return integer("i", 32, first.bits >> mantissa & ((1 << size) - 1))
        case "abs":
            return Number("f", first.width, first.bits & ~(1 << (first.width - 1)))
        case "signext":
            return integer("i", 64, Number("i", first.width, first.bits).value)
        case "signext_from_bit":
            size = arguments[1].value
            value = first.bits & ((1 << size) - 1)
            return integer("i", first.width, value - (1 << size) if size and value >> (size - 1) else value)
        case "fma":
            return _fma(*arguments)
        case "isEven":
            return integer("u", 1, math.isfinite(first.value) and float(first.value) % 2 == 0)
        case "ldexp":
            with np.errstate(all="ignore"):
                return real(first.width, np.ldexp(first.value, arguments[1].value))
    unary = {"trunc": np.trunc, "floor": np.floor, "fract": lambda x: x - np.floor(x), "sqrt": np.sqrt}
    if name in unary:
        with np.errstate(all="ignore"):
            return real(first.width, unary[name](first.value))
    conversion = re.fullmatch(r"(u|i|f|bf)(\d+)_to_(u|i|f)(\d+)", name)
    if conversion:
        kind, width = conversion[3], int(conversion[4])
        if conversion[1] == "bf":
            first = Number("f", 32, first.bits << 16)
        if kind == "f":
            return rounded(width, Fraction(first.value)) if first.kind != "f" else real(width, first.value)
        if first.kind == "f":
            return _to_integer(first, kind, width)
        low, high = (0, (1 << width) - 1) if kind == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
        return integer(kind, width, max(low, min(high, first.value)))
    return _named_operation(name, arguments)


@functools.cache
def _vector_pseudocode() -> dict[str, str]:
    from tinygrad.runtime.autogen.amd.rdna4.str_pcode import PCODE

    return {member.name.lower().removesuffix("_e64").removesuffix("_e32"): text for member, text in PCODE.items()}


def _named_operation(name: str, arguments: list[Number]) -> Number:
    """`v_min_i32(a, b)`: the pseudocode of another opcode."""
    text = _vector_pseudocode().get(name) if name.startswith("v_") else None
    if text is None:
        raise Untranslatable(name)
    inner = Evaluator({f"S{place}": value for place, value in enumerate(arguments)})
    inner.run(text)
    return inner.variables["D0"]
