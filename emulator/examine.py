"""What happens when an instruction touches a register that needs attention: it is in flight, or not wholly defined.

Most instructions touch neither, which costs one AND of integers; see `masks`.
"""

from __future__ import annotations

from collections.abc import Callable

from . import in_flight
from .blocks import Item
from .checks import Checks
from .poison import Rule, make_rule
from .state import Group


def examiner(checks: Checks, rules: dict[int, Rule]) -> Callable[[Group, Item], None]:
    """Called before the instruction executes; raises InFlightError or UndefinedValueError.

    `rules` keeps the rules of one program between launches, by address.
    """

    def run(g: Group, item: Item) -> None:
        if checks.in_flight and g.in_flight & item.touched:
            in_flight.check(g, item.instruction, item.masks)
        if checks.undefined and g.undefined & item.touched:
            rule = rules.get(item.instruction.address)
            if rule is None:
                rule = rules[item.instruction.address] = make_rule(item)
            rule(g)

    return run
