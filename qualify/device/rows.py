"""The rows of a bundle that are meant: a family and values of its problems' axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.bundle import Bundle, Fault
from assay.bundle.faults import did_you_mean
from assay.bundle.records import Row

from .errors import BadRequest

# Name -> values, any of which will do, as text.
Wanted = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Built:
    """A row and the problem that it was built for."""

    row: Row
    problem: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The problem as `axis=value …`."""
        return " ".join(f"{name}={spelled(value)}" for name, value in self.problem.items())


def parse_only(text: str) -> dict[str, tuple[str, ...]]:
    """`family=decode_attention,block_m=4,block_m=8`: a name given twice means either value.  Raises BadRequest."""
    chosen: dict[str, tuple[str, ...]] = {}
    wrong = []
    for item in filter(None, text.split(",")):
        name, equals, value = item.strip().partition("=")
        if not (name and equals and value):
            wrong.append(Fault("--only", repr(item), "NAME=VALUE[,…]"))
        chosen[name] = (*chosen.get(name, ()), value)
    if wrong:
        raise BadRequest(wrong)
    return chosen


def built_rows(bundle: Bundle, targets: Iterable[str]) -> list[Built]:
    """The rows of these targets, family by family, in the order in which they are tried."""
    names = set(targets)
    rows = [row for family in bundle.families() for row in bundle.rows(family) if row.target in names]
    return [Built(row, bundle.variant(row.id).problem) for row in rows]


def matching(rows: Sequence[Built], wanted: Wanted, where: str, also: Iterable[str] = ()) -> list[Built]:
    """The rows whose problems have the wanted values.  `family` is one of the names; an axis leaves out no row of a
    family that does not have it, as in `assay qualify --only`.

    also: further names, to be told among those allowed.  Raises BadRequest, which lists what there is.
    """
    offered = _offered(rows)
    unknown = [
        Fault(where, f"{name} is no axis of these rows", ", ".join([*offered, *also]), did_you_mean(name, offered))
        for name in wanted
        if name not in offered
    ]
    unknown += [
        Fault(where, f"{name}={value}", f"{name}: {', '.join(offered[name])}", did_you_mean(value, offered[name]))
        for name, values in wanted.items()
        for value in values
        if name in offered and value not in offered[name]
    ]
    if unknown:
        raise BadRequest(unknown)
    found = [item for item in rows if _matches(item, wanted)]
    if not found:
        raise BadRequest(_none_with(rows, wanted, where))
    return found


def spelled(value: Any) -> str:
    """A value as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(item: Built) -> dict[str, str]:
    return {"family": item.row.family, **{name: spelled(value) for name, value in item.problem.items()}}


def _matches(item: Built, wanted: Wanted) -> bool:
    values = _values(item)
    return all(values[name] in allowed for name, allowed in wanted.items() if name in values)


def _offered(rows: Iterable[Built]) -> dict[str, list[str]]:
    offered: dict[str, dict[str, None]] = {}
    for item in rows:
        for name, value in _values(item).items():
            offered.setdefault(name, {})[value] = None
    return {name: sorted(values, key=_by_size) for name, values in offered.items()}


def _by_size(text: str) -> tuple[bool, int, str]:
    return (not text.isdecimal(), int(text) if text.isdecimal() else 0, text)


def _none_with(rows: Sequence[Built], wanted: Wanted, where: str) -> list[Fault]:
    """Which one of the names could be given another value, the rest being as they are."""
    faults = []
    for name, values in wanted.items():
        others = {key: value for key, value in wanted.items() if key != name}
        possible = _offered(item for item in rows if _matches(item, others)).get(name)
        if possible:
            given = f"no row has all of it; with the rest as given, {name}={' or '.join(values)}"
            faults.append(Fault(where, given, f"{name}: {', '.join(possible)}"))
    asked = " ".join(f"{name}={value}" for name, values in wanted.items() for value in values)
    return faults or [Fault(where, f"no row has all of {asked}")]
