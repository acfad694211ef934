"""Why the rows of a table serve a request or do not: for messages and for `explain`, not for a call that succeeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .conditions import NOT_GIVEN, Condition
from .faults import BundleError, Fault, did_you_mean
from .record import Record
from .records import Row
from .table import exclusion, id_set, impossible_values, in_order, known_fields

NEAREST = 8
"""How many of the rows that do not serve a request a message tells more of."""
_NAMED = 3


class Failure(Record):
    """One condition that does not hold: what the request gives for `field` and what the row requires, as text."""

    __slots__ = ()

    field: str
    requested: str
    required: str

    def __str__(self) -> str:
        requested = self.requested if self.requested == NOT_GIVEN else f"requested {self.requested}"
        return f"{self.field}: {requested}, required {self.required}"


class Verdict(Record):
    """What became of one row: every condition that failed, in the row's own order. None failed: it may serve."""

    __slots__ = ()

    row: Row
    failed: tuple[Failure, ...]
    excluded: str = ""
    """Why the caller's own `force`, `forbid` or an impossible value keeps the row out; empty where nothing does."""

    @property
    def holds(self) -> bool:
        """Whether the row may serve the request."""
        return not self.failed and not self.excluded

    def __str__(self) -> str:
        label = f"{self.row.id} ({self.row.target})"
        if self.holds:
            return f"{label}: all {len(self.row.conditions)} conditions hold"
        if not self.failed:
            return f"{label}: {self.excluded}"
        counted = f"{len(self.failed)} of {len(self.row.conditions)} conditions failed"
        return f"{label}: {counted}: {self.failed[0]}" + (f"; {self.excluded}" if self.excluded else "")


class NoMatch(BundleError):
    """No row serves the request. `.verdicts` holds every row of the family, nearest first.

    `str` says what the bundle covers, then the nearest rows, then the others by their first failed condition, one line
    for all that fail it; where the caller forced a row, that row alone.
    """

    def __init__(self, verdicts: tuple[Verdict, ...], request: Mapping[str, Any], force: str | None = None):
        faults = [_verdict_fault(verdict) for verdict in verdicts]
        super().__init__(faults or Fault("dispatch", "no row at all to choose from"))
        # What pickle hands to the constructor again, so that the error crosses a process boundary whole.
        self.args = (verdicts, dict(request), force)
        self.verdicts = verdicts
        self.request = dict(request)
        self.force = force

    def __str__(self) -> str:
        if not self.verdicts:
            return str(self.faults[0])
        rows = [verdict.row for verdict in self.verdicts]
        asked = ", ".join(f"{name}={value!r}" for name, value in self.request.items()) or "nothing"
        impossible = list(impossible_values(rows, self.request).values())
        # A value that no call can have is the whole answer: what the rows cover has nothing to do with it.
        hints = impossible or ([] if self.force is not None else covered(self.verdicts))
        for name, hint in unknown_fields(rows, self.request).items():
            hints += [f"no row asks for {name}; {hint}"] if hint else []
        if self.force is not None:
            lines = [f"{rows[0].family}: the forced row does not serve {asked}:"]
            for verdict in self.verdicts:
                if verdict.row.id == self.force:
                    lines += [f"  {verdict}", *(f"  {failure}" for failure in verdict.failed[1:])]
            return "\n".join(lines + [f"  {hint}" for hint in hints])
        lines = [f"{rows[0].family}: none of {len(rows)} rows serves {asked}"]
        lines += [f"  {said}" for said in hints]
        lines += ["  nearest first:", *(f"  {verdict}" for verdict in self.verdicts[:NEAREST])]
        if further := self.verdicts[NEAREST:]:
            lines.append(f"  … and {len(further)} more by their first failed condition (explain() lists them in full):")
            lines += [f"  {line}" for line in _grouped(further)]
        return "\n".join(lines)


def _grouped(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """A line for each first failed condition, with its rows: the first few by name."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        groups.setdefault(str(verdict.failed[0]) if verdict.failed else verdict.excluded, []).append(verdict.row.id)
    for failure, ids in groups.items():
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        yield f"{', '.join(ids[:_NAMED])}{more}: {failure}"


def explain(
    rows: Iterable[Row], request: Mapping[str, Any], *, force: str | None = None, forbid: Collection[str] = ()
) -> tuple[Verdict, ...]:
    """A verdict on every row, in the order in which they are tried: `select` takes the first that holds."""
    forbidden = id_set(forbid)
    ordered = in_order(rows)
    impossible = "; ".join(impossible_values(ordered, request).values())
    return tuple(
        Verdict(row, _failures(row, request), exclusion(row, force, forbidden) or impossible) for row in ordered
    )


def nearest_first(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts by number of failed conditions; rows equally far keep the order in which they are tried."""
    return tuple(sorted(verdicts, key=lambda verdict: len(verdict.failed)))


def unknown_fields(rows: Iterable[Row], request: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the request that are a condition of no row, each with `did you mean X?` or an empty text."""
    known = known_fields(rows)
    return {name: did_you_mean(name, known - request.keys()) for name in request if name not in known}


def covered(verdicts: Iterable[Verdict]) -> list[str]:
    """`the bundle covers FIELD: VALUES` for each field that keeps out the rows nearest to the request."""
    verdicts = tuple(verdicts)
    failed = [verdict.failed for verdict in verdicts if verdict.failed]
    least = min(map(len, failed), default=0)
    names = dict.fromkeys(failure.field for failures in failed if len(failures) == least for failure in failures)
    rows = [verdict.row for verdict in verdicts]
    return [f"the bundle covers {name}: {coverage(rows, name)}" for name in names]


def coverage(rows: Iterable[Row], field: str) -> str:
    """What the rows ask of `field`, in words: `64, 128, 256`, `multiples of 16`, `anything (rows that do not ask)`."""
    rows = list(rows)
    asked = [condition for row in rows for condition in row.conditions if condition.field == field]
    # With the type beside it, because 1 and True are one member of a set.
    exact = {(type(value).__name__, value) for condition in asked for value in _exact_values(condition)}
    plain = [
        v for _, v in sorted(exact, key=lambda pair: (pair[0], pair[1] if type(pair[1]) is int else repr(pair[1])))
    ]
    limits = sorted((c for c in asked if c.op not in ("eq", "one_of")), key=_by_size)
    other = list(dict.fromkeys(limit.required() for limit in limits))
    said = [", ".join(map(repr, plain))] if plain else []
    if any(all(condition.field != field for condition in row.conditions) for row in rows):
        other.append("anything, in rows that do not ask for it")
    return "; ".join(said + other)


def _by_size(condition: Condition) -> tuple[str, int, str]:
    """Sorts limits by their numbers: at most 8 stands before at most 16."""
    number = condition.value if type(condition.value) is int else 0
    return condition.op, number, condition.required()


def _failures(row: Row, request: Mapping[str, Any]) -> tuple[Failure, ...]:
    return tuple(
        Failure(condition.field, condition.requested(request), condition.required())
        for condition in row.conditions
        if not condition.holds(request)
    )


def _verdict_fault(verdict: Verdict) -> Fault:
    if not verdict.failed:
        return Fault(f"row {verdict.row.id}", verdict.excluded)
    first = verdict.failed[0]
    return Fault(f"row {verdict.row.id}: {first.field}", first.requested, first.required)


def _exact_values(condition: Condition) -> tuple[Any, ...]:
    if condition.op == "eq":
        return (condition.value,)
    return condition.value if condition.op == "one_of" and isinstance(condition.value, tuple) else ()
