"""What is compared of two builds: candidates, the rows that were chosen, and what changed of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["lost", "worse", "gained", "better", "changed", "same", "failed"]
# The order in which a reader should see them.
KINDS: tuple[Kind, ...] = ("lost", "worse", "gained", "better", "changed", "same", "failed")


@dataclass(frozen=True, slots=True)
class Form:
    """One candidate that a side compiled.  resources: as in report.json, None where there was no binary to read.

    ir, machine_code: SHA-256 of the normalised Triton GPU IR, and of the kernel's instructions.
    """

    variant: str
    launch: Mapping[str, Any]
    resources: Mapping[str, Any] | None
    ir: str | None
    machine_code: str | None

    def resource(self, name: str) -> int | None:
        value = (self.resources or {}).get(name)
        return None if value is None else int(value)

    def spills(self, names: tuple[str, ...]) -> int | None:
        """The sum of those figures that the binary tells; None where it tells none."""
        known = [value for name in names if (value := self.resource(name)) is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What answers a problem on one side.

    rejected: how many candidates were tried before it.  waves: resident at once, by occupancy.  instructions: in the
    binary; executed: wave instructions of all cases, None where none was counted.
    """

    form: Form
    rejected: int
    waves: int | None
    instructions: int | None
    executed: int | None
    largest_error: float | None


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem on one side.  chosen: None where no candidate qualified; nearest: why the first one did not."""

    family: str
    axes: Mapping[str, Any]
    chosen: Chosen | None
    forms: tuple[Form, ...]
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One target built by one compiler.

    unusable: why the compiler built nothing, '' where it did.  toolchain, build, evidence, workarounds: as report.json
    has them.
    """

    version: str
    target: str
    unusable: str = ""
    toolchain: Mapping[str, Any] | None = None
    build: Mapping[str, Any] | None = None
    problems: tuple[Problem, ...] = ()
    workarounds: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One figure that differs.  direction: 1 worse, -1 better, 0 neither; weight: how much, for sorting."""

    name: str
    before: Any
    after: Any
    direction: int = 0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One problem under both compilers.  ir_equal, code_equal: of the chosen variants, None where not the same."""

    kind: Kind
    family: str
    axes: Mapping[str, Any]
    before: Chosen | None
    after: Chosen | None
    changes: tuple[Change, ...]
    ir_equal: bool | None
    code_equal: bool | None
    reason: str = ""

    @property
    def weight(self) -> float:
        """How much the worst of its changes weighs; of a row that only got better, the best."""
        direction = {"worse": 1, "better": -1}.get(self.kind, 0)
        return max((change.weight for change in self.changes if change.direction == direction), default=0.0)


@dataclass(frozen=True, slots=True)
class Pair:
    """A candidate that both compilers compiled, chosen or not."""

    family: str
    axes: Mapping[str, Any]
    before: Form
    after: Form

    @property
    def ir_equal(self) -> bool:
        return self.before.ir is not None and self.before.ir == self.after.ir

    @property
    def code_equal(self) -> bool:
        return self.before.machine_code is not None and self.before.machine_code == self.after.machine_code


@dataclass(frozen=True, slots=True)
class TargetUpgrade:
    """One target under two compilers: rows, the worst change first, and all candidates that both compiled."""

    before: Side
    after: Side
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]

    @property
    def target(self) -> str:
        return self.before.target

    def count(self, *kinds: Kind) -> int:
        return sum(row.kind in kinds for row in self.rows)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """From one compiler to another on every target.  warnings: what the package index said of a version."""

    before: str
    after: str
    targets: tuple[TargetUpgrade, ...]
    warnings: tuple[str, ...] = ()

    @property
    def harmless(self) -> bool:
        """Whether no row is lost or worse, and both compilers could be used."""
        return all(
            not item.count("lost", "worse") and not item.after.unusable and not item.before.unusable
            for item in self.targets
        )
