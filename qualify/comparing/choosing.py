"""The one pair that a person asks to see: by the beginning of a variant's id, or by what it is for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.bundle import Fault

from .errors import CompareError
from .records import Pair
from .rules import parse_values, value_faults

_ID = re.compile(r"[0-9a-f]{4,64}")
_LISTED = 8


def choose_pair(pairs: Sequence[Pair], wanted: str) -> Pair:
    """The pair whose id begins with `wanted` on either side, or whose facts are the NAME=VALUE[,…] of `wanted`.

    Where several fit, the only one of them that differs.  Raises CompareError: none, several, or no code on a side.
    """
    found = _by_facts(pairs, wanted) if "=" in wanted else _by_id(pairs, wanted)
    if len(found) > 1 and sum(bool(pair.differences) for pair in found) == 1:
        found = [pair for pair in found if pair.differences]
    if len(found) != 1:
        raise CompareError([Fault(f"--show {wanted}", f"fits {len(found)} variants", "one"), *_listed(found)])
    (pair,) = found
    if pair.level == "not_compared":
        raise CompareError(Fault(f"--show {wanted}", f"{_label(pair)} has no code on both sides", "two bundles' code"))
    return pair


def _by_id(pairs: Sequence[Pair], wanted: str) -> list[Pair]:
    if not _ID.fullmatch(wanted.lower()):
        raise CompareError(Fault(f"--show {wanted}", "neither an id nor NAME=VALUE[,…]", "4 to 16 digits of an id"))
    return [pair for pair in pairs if any(id.startswith(wanted.lower()) for id in _ids(pair))]


def _by_facts(pairs: Sequence[Pair], wanted: str) -> list[Pair]:
    where = f"--show {wanted}"
    values = parse_values(where, wanted)
    if faults := value_faults(where, values, [pair.entry.facts for pair in pairs]):
        raise CompareError(faults)
    return [pair for pair in pairs if all(pair.entry.facts.get(name) in options for name, options in values.items())]


def _ids(pair: Pair) -> list[str]:
    return [entry.built.row.id for entry in (pair.left, pair.right) if entry and entry.built]


def _listed(found: Sequence[Pair]) -> list[Fault]:
    faults = [Fault((_ids(pair) or ["-"])[-1], _label(pair)) for pair in found[:_LISTED]]
    return faults + ([Fault("…", f"and {len(found) - _LISTED} more")] if len(found) > _LISTED else [])


def _label(pair: Pair) -> str:
    entry = pair.entry
    return " ".join([entry.family, "on", entry.target, *(f"{name}={value}" for name, value in entry.problem)])
