"""Which faults are looked for."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_STEP_BUDGET = 50_000_000


@dataclass(frozen=True, slots=True)
class Checks:
    """Every check is on unless said otherwise. An access outside every buffer is refused whatever is set here, since
    there is nothing to read; with `bounds` off it reads zero and a write is dropped instead of raising.
    """

    bounds: bool = True
    undefined: bool = True
    """Values nobody wrote must not reach global memory, an address, a branch or EXEC."""
    in_flight: bool = True
    """Outstanding loads against `s_wait_*`; LDS stores still outstanding when a barrier is signalled."""
    barriers: bool = True
    """A wave that ends does not count as having reached a barrier that others wait at."""
    races: bool = True
    alignment: bool = True
    step_budget: int = DEFAULT_STEP_BUDGET
    """Steps, each of one instruction for one group of waves, after which a launch is taken to be endless."""
    execz_shortcut: bool = True
    """Not a check: waves without active lanes fall through a block that cannot affect them, instead of splitting."""


NO_CHECKS = Checks(
    bounds=False, undefined=False, in_flight=False, barriers=False, races=False, alignment=False, step_budget=2**62
)
