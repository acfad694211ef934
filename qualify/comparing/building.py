"""Builds one revision for one target: its own code and specs, in a process whose `assay` is that revision's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.bundle import Fault
from assay.codegen.records import spell

from ..planning import SCHEMA
from .errors import BuildEnvironmentError, CompareError
from .git import temporary_folder
from .trees import Tree

# How a build ends where the revision is at fault: a gate failed, or its specs are wrong.
FAILED, BAD_INPUT = 1, 2
_PROGRESS = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] (?P<said>.*)")
_SECONDS_TO_END = 20
# What CI sets so that logs have colours; a build would then draw bars, where lines are read here.
_AS_A_TERMINAL = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"})
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

Facts = Mapping[str, str]


def planned(tree: Tree, targets: Iterable[str]) -> list[Facts]:
    """Target, family and axes of each problem that the tree would build; nothing is compiled.

    Raises CompareError where its specs are wrong, BuildEnvironmentError where its assay does not run here.
    """
    asked = [option for target in targets for option in ("--target", target)]
    if not asked:
        return []
    with temporary_folder() as site:
        done = subprocess.run(
            _command(tree, "plan", *asked, "--profile", tree.recipe.profile, "--json"),
            env=child_environment(linked_site(site, tree.code)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    if done.returncode != 0:
        raise _failure(tree, "plan", done.returncode, done.stderr.splitlines())
    try:
        return [_facts(target, item) for target, of_target in json.loads(done.stdout)["targets"].items()
                for item in of_target["problems"]]  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CompareError(Fault(f"{tree.name}: plan", "says something else than this assay reads", SCHEMA)) from None


def _facts(target: str, item: Mapping[str, Any]) -> Facts:
    return {"target": target, "family": item["family"], **{name: spell(v) for name, v in item["problem"].items()}}


def build(
    tree: Tree, target: str, only: Mapping[str, Sequence[str]], out: Path, finished: Callable[[int, str], None]
) -> Path:
    """The bundle of one target, below `out`; only: as of `assay qualify`, of what its specs know.

    finished: hears how many problems there are, and a line about each that is done.  Raises CompareError where the
    revision does not qualify, BuildEnvironmentError where it could not be built here.
    """
    options = ["--target", target, "--profile", tree.recipe.profile, "--jobs", str(tree.recipe.jobs)]
    # What people read goes to standard error with --json.
    options += ["--evidence", "static", "--update-lock", "--out", str(out), "--json"]
    for name, values in only.items():
        options += ["--only", ",".join(f"{name}={value}" for value in values)]
    with temporary_folder() as site:
        environment = child_environment(linked_site(site, tree.code))
        status, said = _run(_command(tree, "qualify", *options), environment, finished)
    if status != 0:
        raise _failure(tree, target, status, said)
    bundles = sorted((out / target).glob("*.assay"))
    if len(bundles) != 1:
        raise CompareError(Fault(tree.name, f"wrote {len(bundles)} bundles for {target}", "one"))
    return bundles[0]


def linked_site(folder: Path, root: Path) -> Path:
    """`folder`, in which `assay` leads to `root`: to be put in front of what Python imports from."""
    (folder / "assay").symlink_to(root, target_is_directory=True)
    return folder


def _command(tree: Tree, *arguments: str) -> list[str]:
    """A command line of the assay that builds the tree."""
    specs = () if tree.recipe.specs is None else ("--specs", str(tree.specs))
    # -P: the folder that this was called from must not be in front of the tree.
    return [sys.executable, "-P", "-c", _LAUNCH, str(tree.code), *arguments, *specs]


def child_environment(site: Path) -> dict[str, str]:
    """The caller's, with the tree's assay in front of any other, and lines that are not folded."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in _AS_A_TERMINAL}
    return {**kept, "PYTHONPATH": path, "COLUMNS": "1000", "NO_COLOR": "1"}


def _run(
    command: list[str], environment: dict[str, str], finished: Callable[[int, str], None]
) -> tuple[int, list[str]]:
    """Its exit status, and what it said on standard error other than its progress."""
    said: list[str] = []
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


def _failure(tree: Tree, what: str, status: int, said: Sequence[str]) -> CompareError | BuildEnvironmentError:
    """what: the target that was built."""
    last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
    where = f"{tree.name}: {what}"
    if status == BAD_INPUT:
        return CompareError(Fault(where, last))
    if status == FAILED:
        hint = f"check it out and run assay qualify --target {what} there"
        return CompareError(Fault(where, f"does not build: {last}", "a revision that qualifies", hint))
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return BuildEnvironmentError(Fault(where, f"could not be built ({how}): {last}"))
