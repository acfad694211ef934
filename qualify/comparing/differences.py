"""What is not the same of two variants that answer the same call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.bundle.records import as_json

from .records import Aspect, Built, Difference, Entry

# Fields of a row that say how its kernel is launched, next to the launch itself.
_LAUNCH_FIELDS = ("grid", "num_warps", "wavefront_size", "lds_bytes", "arguments", "hidden_arguments", "specialisation")


def differences(left: Entry, right: Entry) -> list[Difference]:
    """Everything but the code: launch, dispatch, contract, resources, and verdicts of levels that both sides have."""
    found = list(_by_name("launch", left.launch, right.launch))
    found += _row_differences(left.built, right.built)
    found += _by_name("resources", left.figures, right.figures)
    common = left.evidence.keys() & right.evidence.keys()
    found += _by_name("evidence", _part(left.evidence, common), _part(right.evidence, common))
    return found


def notes(left: Built | None, right: Built | None) -> list[Difference]:
    """What differs and changes no kernel and no call: the source text and the kernel's name in its object."""
    if left is None or right is None:
        return []
    said = {
        "source": (left.record.source_sha256, right.record.source_sha256),
        "symbol": (left.row.symbol, right.row.symbol),
    }
    # Whatever the code is, these alone never are a difference in it.
    return [Difference("code", name, a, b) for name, (a, b) in said.items() if a != b]


def _row_differences(left: Built | None, right: Built | None) -> Iterator[Difference]:
    """Nothing where a side is a lock, which has no rows."""
    if left is None or right is None:
        return
    fields = (name for name in _LAUNCH_FIELDS if name != "num_warps" or "num_warps" not in left.row.launch)
    old, new = as_json(left.row), as_json(right.row)
    for name in fields:
        yield from _changed("launch", name, old[name], new[name])
    yield from _conditions(old["conditions"], new["conditions"])
    yield from _changed("dispatch", "preference", left.row.preference, right.row.preference)
    yield from _by_name("dispatch", as_json(left.target), as_json(right.target))
    yield from _by_name("contract", left.contract, right.contract)


def _conditions(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[Difference]:
    """By field.  Their order only decides which failed one a message names first."""

    def by_field(conditions: list[dict[str, Any]]) -> dict[str, list[list[Any]]]:
        fields: dict[str, list[list[Any]]] = {}
        for condition in conditions:
            fields.setdefault(condition["field"], []).append([condition["op"], condition["value"]])
        return {field: sorted(asked, key=repr) for field, asked in fields.items()}

    for difference in _by_name("dispatch", by_field(before), by_field(after)):
        yield Difference("dispatch", f"condition {difference.name}", difference.before, difference.after)


def _by_name(aspect: Aspect, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in [*before, *(name for name in after if name not in before)]:
        yield from _changed(aspect, name, before.get(name), after.get(name))


def _changed(aspect: Aspect, name: str, before: Any, after: Any) -> Iterator[Difference]:
    # 1 and True are equal, and are not the same condition.
    if repr(before) != repr(after):
        yield Difference(aspect, name, before, after)


def _part(evidence: Mapping[str, str], levels: set[str]) -> dict[str, str]:
    return {level: verdict for level, verdict in evidence.items() if level in levels}
