"""Short names for people: axes that are the same in all rows said once, launches without their longest words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assay.codegen.records import spell

Axes = Iterable[tuple[str, Any]]
_SHORT_LAUNCH = {"num_stages": "st", "num_warps": "w"}


def spelled(axes: Axes) -> list[str]:
    """`name=value` of every axis."""
    return [f"{name}={spell(value)}" for name, value in axes]


def constant_axes(problems: Sequence[Axes]) -> list[str]:
    """Axes with one value in all of them; none of a single problem, which is named in full."""
    if len(problems) < 2:
        return []
    listed = [spelled(axes) for axes in problems]
    common = set(listed[0]).intersection(*listed[1:])
    return [item for item in listed[0] if item in common]


def problem_label(axes: Axes, constant: Iterable[str]) -> str:
    """The axes that are not constant; all of them where that would leave none."""
    parts, left_out = spelled(axes), set(constant)
    return " ".join(part for part in parts if part not in left_out) or " ".join(parts)


def launch_label(launch: Axes) -> str:
    """`block_n=128 st1 w4`."""
    return " ".join(
        f"{_SHORT_LAUNCH[name]}{spell(value)}" if name in _SHORT_LAUNCH else f"{name}={spell(value)}"
        for name, value in launch
    )


def launch_values(launch: Axes) -> str:
    """`128 st1 w4`: for a column whose title names the fields.  A flag that is set is its words' initials."""
    return " ".join(_value(name, value) for name, value in launch if value is not False)


def _value(name: str, value: Any) -> str:
    if value is True:
        return "".join(word[0] for word in name.split("_"))
    return f"{_SHORT_LAUNCH.get(name, '')}{spell(value)}"
