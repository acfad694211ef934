"""The files of a side that is to be built, and what there is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.bundle import Fault

from .errors import CompareError

# The folder that this assay lies in, as a revision's lies in its tree.
OWN_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How sides are built.  part: name -> values that stay.  specs: folder inside the tree; kernel_specs for None."""

    profile: str
    part: Mapping[str, tuple[str, ...]]
    jobs: int
    specs: Path | None


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one side.  name: as given.  commit: empty for the working tree.  root: its folder."""

    name: str
    commit: str
    root: Path
    recipe: Recipe

    @property
    def carries_assay(self) -> bool:
        """Whether it is built by its own code; a repository of specs alone is built by the assay that runs."""
        return (self.root / "qualify" / "entry.py").is_file()

    @property
    def code(self) -> Path:
        """The folder of the assay that builds it."""
        return self.root.resolve() if self.carries_assay else OWN_ROOT

    @property
    def specs(self) -> Path:
        """Its folder of specs."""
        return self.root / (self.recipe.specs or "kernel_specs")

    def check(self) -> None:
        """Raises CompareError where there is nothing to build, or what would be is not the tree's own."""
        allowed = "a folder with targets/, families/, profiles/ and templates/"
        inside = self.recipe.specs or Path("kernel_specs")
        if inside.is_absolute() or ".." in inside.parts:
            # Both sides would be built from one folder, and always be equal.
            raise CompareError(Fault(f"--specs {inside}", "leads out of the revision", "a path inside the repository"))
        if not (self.specs / "targets").is_dir():
            hint = "--specs names where it lies in the repository"
            raise CompareError(Fault(f"{self.name}: {inside}", "holds no specs", allowed, hint))

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that its specs have, sorted."""
        return tuple(sorted(path.stem for path in (self.specs / "targets").glob("*.yaml")))

    @property
    def locked_targets(self) -> tuple[str, ...]:
        """Those of them with a record of the profile under artifacts/."""
        name = f"qualified.{self.recipe.profile}.lock"
        return tuple(t for t in self.targets if (self.root / "artifacts" / t / name).is_file())
