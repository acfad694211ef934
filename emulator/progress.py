"""How far a launch is, for whoever watches it from another thread; the launch itself pays nothing for it."""

from __future__ import annotations

from .machine import Machine


class Progress:
    """Made empty and given to `Program.launch`.  workgroups: of the whole launch, 0 before it began.  done: ended."""

    def __init__(self) -> None:
        self.workgroups = 0
        self.done = 0
        self._machine: Machine | None = None

    @property
    def steps(self) -> int:
        """Instructions executed for a group, as in `LaunchResult`."""
        machine = self._machine
        return 0 if machine is None else machine.steps

    def runs(self, machine: Machine, first: int, workgroups: int) -> None:
        """The machine for the workgroups from `first` on starts."""
        self._machine, self.done, self.workgroups = machine, first, workgroups
