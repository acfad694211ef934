"""A condition of a dispatch row: one thing the runtime can check about a call before it launches.

Typing is strict, because a wrong match launches a kernel on memory it was not compiled for: True is not 1, '128' is not
128, 1.0 is not 1. A condition that this reader does not know never holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .record import Record

OPERATORS = ("eq", "one_of", "multiple_of", "at_least", "at_most")

NOT_GIVEN = "not given"
"""What `requested` says of a field that the request lacks."""

_LEAST = {"multiple_of": 1, "at_least": 0, "at_most": 0}
_MISSING = object()


class Condition(Record):
    """`field op value`.

    `value` is text, an integer, a boolean or None for eq, a tuple of those for one_of, and an integer for the others.
    Those others speak of sizes: a number below `least` never meets one.
    """

    __slots__ = ()

    field: str
    op: str
    value: Any

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Whether the request meets it. A request that lacks the field does not. Never raises."""
        given = request.get(self.field, _MISSING)
        if given is _MISSING:
            return False
        if self.op == "eq":
            return _same(given, self.value)
        if self.op == "one_of":
            return isinstance(self.value, tuple) and any(_same(given, item) for item in self.value)
        if type(given) is not int or type(self.value) is not int:
            return False
        if given < _LEAST.get(self.op, 0):
            return False
        if self.op == "multiple_of":
            return self.value > 0 and given % self.value == 0
        if self.op == "at_least":
            return given >= self.value
        return self.op == "at_most" and given <= self.value

    @property
    def least(self) -> int | None:
        """The least value that makes sense at all: 1 for a multiple, 0 for a bounded size, None for the others."""
        return _LEAST.get(self.op)

    def required(self) -> str:
        """What is required, for a message: `128`, `one of 64, 128`, `a multiple of 16`."""
        if self.op == "eq":
            return repr(self.value)
        if self.op == "one_of" and isinstance(self.value, tuple):
            return "one of " + ", ".join(map(repr, self.value))
        words = {"multiple_of": "a multiple of", "at_least": "at least", "at_most": "at most"}
        if self.op in words:
            return f"{words[self.op]} {self.value!r}"
        return f"{self.op} {self.value!r} (an operator this version of assay does not know, so it never holds)"

    def requested(self, request: Mapping[str, Any]) -> str:
        """What the request gives for the field, for a message; `not given` where it gives nothing."""
        if self.field not in request:
            return NOT_GIVEN
        given = request[self.field]
        # numpy.int64(128) and 128, or a str subclass, look alike in a message unless the type stands beside them.
        plain = given is None or type(given) in (int, bool, str)
        return repr(given) if plain else f"{given!r} ({type(given).__name__})"


def _same(given: Any, value: Any) -> bool:
    return type(given) is type(value) and bool(given == value)
