"""The frozen records of a comparison: sides, their variants, pairs of those, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from assay.bundle import Row, TargetRecord, VariantRecord

from .trees import Tree

# What names a variant on both sides: target, family, and the spelled axes in order of name.  Not its id, which every
# edit of a template's comments changes, and not its launch, which is the build's own choice.
Key = tuple[str, str, tuple[tuple[str, str], ...]]

# What may differ, and what a rule may allow.  `renamed`: other code, which is the same after normalising.
Aspect = Literal["code", "renamed", "launch", "dispatch", "contract", "resources", "evidence", "outputs", "new", "gone"]
ASPECTS: tuple[Aspect, ...] = (
    *("code", "renamed", "launch", "dispatch", "contract", "resources", "evidence", "outputs", "new", "gone"),
)  # fmt: skip

SideKind = Literal["bundle", "lock", "revision", "working tree"]

# How alike the code of a pair is, the most alike first.
Level = Literal["identical_bytes", "identical_code_section", "identical_normalised", "changed", "not_compared"]
LEVELS: tuple[Level, ...] = (
    *("identical_bytes", "identical_code_section", "identical_normalised", "changed", "not_compared"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """What a bundle knows of a variant, and a lock does not.  contract: of its family, without words for people."""

    row: Row
    record: VariantRecord
    target: TargetRecord
    contract: Mapping[str, Any]
    code: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One variant of one side.

    launch: name -> value as the spec spells it.  figures: resources that the binary tells.  evidence: level -> verdict.
    executed: level -> mnemonic -> instructions executed over the qualification cases.
    """

    target: str
    family: str
    problem: tuple[tuple[str, str], ...]
    launch: Mapping[str, str]
    figures: Mapping[str, int]
    evidence: Mapping[str, str]
    executed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    built: Built | None = None

    @property
    def key(self) -> Key:
        return self.target, self.family, tuple(sorted(self.problem))

    @property
    def facts(self) -> dict[str, str]:
        """What rules and `--part` speak of: target, family and the axes."""
        return {"target": self.target, "family": self.family, **dict(self.problem)}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.  name: as it was asked for.  kind: what it is.  detail: commit or identity, for people.

    toolchains: by target, the compiler build that made it.  files: the bundles or the lock behind it.
    tree: what it was built from.
    """

    name: str
    kind: SideKind
    detail: str
    toolchains: Mapping[str, Mapping[str, Any]]
    entries: Mapping[Key, Entry]
    files: tuple[Path, ...] = ()
    tree: Tree | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(sorted(self.toolchains))


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides; a value is None where a side does not have it."""

    aspect: Aspect
    name: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True)
class Pair:
    """What a caller asks for, on both sides; one of them is None for a new or gone variant.

    differences: what counts.  notes: what does not, such as other source text that gave the same code.
    classes, executed: instructions in the code, and executed, by class on both sides, where both sides know and they
    differ.
    """

    left: Entry | None
    right: Entry | None
    level: Level
    differences: tuple[Difference, ...] = ()
    notes: tuple[Difference, ...] = ()
    classes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    executed: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def entry(self) -> Entry:
        """The one that there is; the right one of two."""
        found = self.right or self.left
        assert found is not None
        return found

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects in which it differs, each once, in the order of ASPECTS."""
        found = {difference.aspect for difference in self.differences}
        return tuple(aspect for aspect in ASPECTS if aspect in found)
