"""The one error of this package: why a file could not be read as a code object."""

from __future__ import annotations


class ObjectError(ValueError):
    """A code object (or a tool's report about one) that cannot be trusted to say what it seems to say.

    Attributes: `where` (file and place inside it), `given` (what is there), `allowed` (what would be
    accepted) and `hint` (what to do), each a string; the last two may be empty. `str(error)` is one line.
    """

    def __init__(self, where: str, given: str, allowed: str = "", hint: str = "") -> None:
        self.where = where
        self.given = given
        self.allowed = allowed
        self.hint = hint
        super().__init__(where, given, allowed, hint)

    def __str__(self) -> str:
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        hint = f"; hint: {self.hint}" if self.hint else ""
        return printable(f"{self.where}: {self.given}{allowed}{hint}")


def printable(text: str, limit: int = 2000) -> str:
    """`text` on one line: names come out of untrusted files and may hold newlines or terminal escapes."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return line if len(line) <= limit else line[:limit] + "…"
