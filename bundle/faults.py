"""One thing wrong, as data: where it is, what was given, what is allowed, and a hint.

A validator collects every `Fault` and raises them together in one `FaultsError`; it never stops at the first. The other
folders reuse both, so that a bad spec, a bad bundle and a bad call read alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from .record import Record


class Fault(Record):
    """One thing wrong. `str` gives it on one line: `where: given; allowed: ...; hint`.

    where: the place a reader can go to (file:line:column, a file and a section, a row).
    given: what stands there. allowed: what may stand there. hint: what to do about it. The last three may be empty.
    """

    __slots__ = ()

    where: str
    given: str = ""
    allowed: str = ""
    hint: str = ""

    def __str__(self) -> str:
        parts = [self.given, f"allowed: {self.allowed}" if self.allowed else "", self.hint]
        said = "; ".join(part for part in parts if part)
        line = f"{self.where}: {said}" if self.where and said else self.where or said
        return line.replace("\r", "\\r").replace("\n", "\\n")


class FaultsError(ValueError):
    """Everything found wrong, in the order it was collected and each fault once: `.faults`. `str` lists them all."""

    def __init__(self, faults: Fault | Iterable[Fault]):
        found = (faults,) if isinstance(faults, Fault) else tuple(dict.fromkeys(faults))
        if not found:
            raise TypeError("an error about no faults at all")
        super().__init__(found)
        self.faults: tuple[Fault, ...] = found

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class BundleError(FaultsError):
    """A bundle, or what was to become one, is not as `format.py` and `rules.py` say."""


class BudgetError(BundleError):
    """A sound bundle that has more bytes than a budget allows."""


def nearest(name: object, known: Iterable[object]) -> str | None:
    """The known name closest to `name` for a hint, or None where nothing is close. Case does not count.

    The only known name that begins with `name` is closer than any other, however much longer it is.
    """
    import difflib  # Here and not above: only a failing call needs it, and a runtime's start does not.

    spelled = {str(item).lower(): str(item) for item in sorted(map(str, known), reverse=True)}
    given = str(name).lower()
    longer = [item for item in spelled if item.startswith(given)] if given else []
    close = longer if len(longer) == 1 else difflib.get_close_matches(given, sorted(spelled), n=1, cutoff=0.6)
    return spelled[close[0]] if close else None


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """`did you mean X?` for the nearest known name, or an empty string where nothing is close."""
    close = nearest(name, known)
    return f"did you mean {close}?" if close else ""
