"""Builds one revision for one target: its own code and specs, in a process whose `assay` is that revision's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.bundle import Fault

from .errors import BuildEnvironmentError, CompareError
from .git import temporary_folder

# How a build ends where the revision is at fault: a gate failed, or its specs are wrong.
FAILED, BAD_INPUT = 1, 2
_PROGRESS = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] (?P<said>.*)")
_SECONDS_TO_END = 20
# Runs the command line of the `assay` that lies in sys.argv[1], and of no other.
_LAUNCH = """
import pathlib, sys
root = pathlib.Path(sys.argv.pop(1)).resolve()
from assay.qualify import entry
found = pathlib.Path(entry.__file__).resolve()
if not found.is_relative_to(root):
    print(f"assay: would build with {found}, not with what lies in {root}", file=sys.stderr)
    sys.exit(3)
sys.argv[0] = "assay"
entry.main()
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How revisions are built.  part: as of --only of assay qualify.  specs: folder inside the tree, or None for its
    assay's own."""

    profile: str
    part: tuple[tuple[str, tuple[str, ...]], ...]
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
    def specs(self) -> Path:
        return self.root / (self.recipe.specs or "kernel_specs")

    def check(self) -> None:
        """Raises CompareError where there is nothing to build."""
        if not (self.specs / "targets").is_dir():
            allowed = "a folder with targets/, families/, profiles/ and templates/"
            hint = "--specs names where it lies in the repository"
            inside = self.specs.relative_to(self.root)
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


def build(tree: Tree, target: str, out: Path, finished: Callable[[int, str], None]) -> Path:
    """The bundle of one target, below `out`.

    finished: hears how many problems there are, and a line about each that is done.  Raises CompareError where the
    revision does not qualify or its specs are wrong, BuildEnvironmentError where it could not be built here.
    """
    with temporary_folder() as site:
        root = tree.root if tree.carries_assay else Path(__file__).parents[2]
        (site / "assay").symlink_to(root.resolve(), target_is_directory=True)
        status, said = _run([*_command(tree, target, out, root)], _environment(site), finished)
    if status != 0:
        raise _failure(tree, target, status, said)
    bundles = sorted((out / target).glob("*.assay"))
    if len(bundles) != 1:
        raise CompareError(Fault(tree.name, f"wrote {len(bundles)} bundles for {target}", "one"))
    return bundles[0]


def _command(tree: Tree, target: str, out: Path, root: Path) -> list[str]:
    recipe = tree.recipe
    # -P: the folder that this was called from must not be in front of the tree.
    command = [sys.executable, "-P", "-c", _LAUNCH, str(root), "qualify", "--target", target]
    command += ["--profile", recipe.profile, "--evidence", "static", "--update-lock", "--out", str(out)]
    command += ["--jobs", str(recipe.jobs), "--json"]
    if recipe.specs is not None:
        command += ["--specs", str(tree.specs)]
    for name, values in recipe.part:
        command += ["--only", ",".join(f"{name}={value}" for value in values)]
    return command


def _environment(site: Path) -> dict[str, str]:
    """The caller's, with the tree's assay in front of any other, and lines that are not folded."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "1000", "NO_COLOR": "1"}


def _run(
    command: list[str], environment: dict[str, str], finished: Callable[[int, str], None]
) -> tuple[int, list[str]]:
    """Its exit status, and what it said on standard error other than its progress."""
    said: list[str] = []
    # What people read goes to standard error with --json; the document is in the way here.
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        assert child.stderr is not None
        for line in child.stderr:
            progress = _PROGRESS.match(line)
            if progress:
                finished(int(progress["total"]), progress["said"].strip())
            elif line.strip():
                said.append(line.strip())
        return child.wait(), said
    finally:
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    """Interrupted, the build ends first: it has processes and files of its own to put away."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    if child.stderr is not None:
        child.stderr.close()


def _failure(tree: Tree, target: str, status: int, said: list[str]) -> CompareError | BuildEnvironmentError:
    last = said[-1] if said else "it said nothing"
    where = f"{tree.name}: {target}"
    if status == BAD_INPUT:
        return CompareError(Fault(where, last))
    if status == FAILED:
        hint = f"check it out and run assay qualify --target {target} there"
        return CompareError(Fault(where, f"does not build: {last}", "a revision that qualifies", hint))
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return BuildEnvironmentError(Fault(where, f"could not be built ({how}): {last}"))
