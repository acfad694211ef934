"""From what was asked for to two sides: files are read, revisions and the working tree are built."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.bundle import Fault
from assay.bundle.faults import did_you_mean
from assay.bundle.format import MAGIC_NAME

from ..verification import file_fault
from .building import Facts, build, planned
from .bundle_sides import bundle_entries
from .errors import CompareError
from .git import Repository, temporary_folder
from .lock_sides import lock_entries
from .records import Entry, Key, Side, SideKind
from .rules import value_faults
from .trees import Recipe, Tree

WORKING_TREE = "."
_LOCK_SCHEMA = b"schema assay.lock/"
# More than enough for the comments that may stand above a lock's schema.
_HEAD_BYTES = 4096
_ELF = b"\x7fELF"

# Begins a build: which side, which target; the callback takes the number of problems and a line about a finished one.
Progress = Callable[[str, str], contextlib.AbstractContextManager[Callable[[int, str], None]]]


@dataclass(frozen=True, slots=True)
class SideRequest:
    """What both sides are made by.  targets: all that there are where there are none."""

    left: str
    right: str | None
    targets: tuple[str, ...]
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Named:
    """A side before it is read or built: a file, a commit, or the working tree where both are None."""

    given: str
    file: Path | None = None
    commit: str | None = None


def name_sides(left: str, right: str | None) -> tuple[Named, Named]:
    """What the arguments mean.  A file goes before a revision of the same name.  Raises CompareError."""
    if right is not None:
        return _name(left), _name(right)
    dots = "..." if "..." in left else ".."
    before, found, after = left.partition(dots)
    if not found or not (before or after):  # `..` alone is a folder, and HEAD against itself
        one = left.strip(".") or "main"
        hint = f"{one}..HEAD, or {one} and . for the working tree"
        raise CompareError(Fault(left, "is one side", "two sides, or REV..REV", hint))
    before, after = before or "HEAD", after or "HEAD"
    repository = Repository(Path.cwd())
    last = repository.commit_of(after)
    if dots == "..":
        return Named(before, commit=repository.commit_of(before)), Named(after, commit=last)
    return Named(f"{before}...{after}", commit=repository.merge_base(before, after)), Named(after, commit=last)


def open_sides(
    request: SideRequest, check: Callable[[Sequence[Facts]], None], progress: Progress, stack: contextlib.ExitStack
) -> tuple[Side, Side]:
    """Both sides.  Their files are there until `stack` closes.

    check: hears of the variants that both sides have or will have, before any is built, and may raise.  Raises
    CompareError and BuildEnvironmentError.
    """
    opened = [
        _tree(side, request.recipe, stack) if side.file is None else _read(side.given, side.file)
        for side in name_sides(request.left, request.right)
    ]
    targets = _targets(request, opened)
    _require_common(opened, targets)
    variants = [_variants(side, targets) for side in opened]
    if not any(variants):
        given = " and ".join(side.name for side in opened)
        raise CompareError(Fault(given, "hold no kernel", "at least one on either side: nothing would be compared"))
    part = request.recipe.part
    if faults := value_faults("--part", part, [facts for side in variants for facts in side]):
        raise CompareError(faults)
    chosen = [[facts for facts in side if _is_in(facts, part)] for side in variants]
    check([facts for side in chosen for facts in side])
    left, right = (
        _built(side, of_side, targets, progress, stack) if isinstance(side, Tree) else _narrowed(side, targets)
        for side, of_side in zip(opened, chosen, strict=True)
    )
    return _part_of(left, part), _part_of(right, part)


def _name(given: str) -> Named:
    if given == WORKING_TREE:
        return Named(given)
    # os.path, whose answer to a name that no file can have is no.
    if os.path.isdir(given):
        hint = "name the bundle or the lock in it, or . for the working tree"
        raise CompareError(Fault(given, "is a folder", "a bundle, a lock or a revision", hint))
    if os.path.exists(given):
        return Named(given, file=Path(given))
    return Named(given, commit=_repository_for(given).commit_of(given))


def _repository_for(given: str) -> Repository:
    """The one of the current folder.  Raises CompareError that says of what a repository was needed."""
    try:
        return Repository(Path.cwd())
    except CompareError as error:
        why = f"is no file, and no revision: {error.faults[0].where}: {error.faults[0].given}"
        raise CompareError(Fault(given, why, "a bundle, a lock, or a revision inside a git repository")) from None


def _read(given: str, path: Path) -> Side:
    """A bundle or a lock, by what the file begins with."""
    if fault := file_fault(path):
        raise CompareError(fault)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise CompareError(Fault(given, f"cannot be read: {error.strerror}", "a readable file")) from None
    if head.startswith(MAGIC_NAME):
        entries, toolchains, identity = bundle_entries(path)
        return Side(given, "bundle", identity[:16], toolchains, _by_key(entries, given), (path,))
    if _LOCK_SCHEMA in head:
        entries, toolchains, detail = lock_entries(path)
        return Side(given, "lock", detail, toolchains, _by_key(entries, given), (path,))
    hint = "assay inspect reads a single code object" if head.startswith(_ELF) else ""
    raise CompareError(Fault(given, "is neither a bundle nor a lock", "a .assay bundle or a .lock file", hint))


def _by_key(entries: Sequence[Entry], name: str) -> dict[Key, Entry]:
    """Raises CompareError for two variants of one problem, of which one would not be compared."""
    found = {entry.key: entry for entry in entries}
    if len(found) < len(entries):
        twice = [key for key, number in Counter(entry.key for entry in entries).items() if number > 1]
        given = "two variants of one problem, so that neither has one to be compared with"
        raise CompareError(
            Fault(f"{name}: {family} on {target} {' '.join(map('='.join, problem))}", given, "one")
            for target, family, problem in twice
        )
    return found


def _tree(side: Named, recipe: Recipe, stack: contextlib.ExitStack) -> Tree:
    repository = Repository(Path.cwd())
    if side.commit is None:
        tree = Tree(side.given, "", repository.top, recipe)
    else:
        tree = Tree(side.given, side.commit, stack.enter_context(repository.worktree(side.commit)), recipe)
    tree.check()
    return tree


def _targets(request: SideRequest, opened: Sequence[Side | Tree]) -> tuple[str, ...]:
    """Those asked for; else those of the files; else those with a committed record; else all that the specs have."""
    known = sorted({target for side in opened for target in side.targets})
    unknown = [target for target in request.targets if target not in known]
    if unknown:
        raise CompareError(
            Fault(f"--target {name}", "on neither side", ", ".join(known), did_you_mean(name, known))
            for name in unknown
        )
    if request.targets:
        return tuple(dict.fromkeys(request.targets))
    of_files = {target for side in opened if isinstance(side, Side) for target in side.targets}
    locked = {target for side in opened if isinstance(side, Tree) for target in side.locked_targets}
    return tuple(sorted(of_files or locked or known))


def _require_common(opened: Sequence[Side | Tree], targets: Sequence[str]) -> None:
    left, right = ([target for target in targets if target in side.targets] for side in opened)
    if not set(left) & set(right):
        said = [f"{side.name} is for {', '.join(side.targets)}" for side in opened]
        raise CompareError(Fault("targets", " and ".join(said), "at least one target on both sides"))


def _variants(side: Side | Tree, targets: Sequence[str]) -> list[Facts]:
    """What each variant of these targets is for; of a tree, what it would build."""
    if isinstance(side, Tree):
        return planned(side, [target for target in targets if target in side.targets])
    return [entry.facts for entry in side.entries.values() if entry.target in targets]


def _built(
    tree: Tree, chosen: Sequence[Facts], targets: Iterable[str], progress: Progress, stack: contextlib.ExitStack
) -> Side:
    """Every target that the tree has problems of; one that it has not is new or gone on the other side."""
    out = stack.enter_context(temporary_folder())
    entries: list[Entry] = []
    toolchains: dict[str, Mapping[str, Any]] = {}
    files = []
    for target in targets:
        of_target = [facts for facts in chosen if facts["target"] == target]
        if not of_target:
            continue
        with progress(tree.name, target) as finished:
            files.append(build(tree, target, _only(of_target, tree.recipe.part), out, finished))
        built, made_by, _ = bundle_entries(files[-1])
        entries += built
        toolchains |= made_by
    kind: SideKind = "revision" if tree.commit else "working tree"
    return Side(tree.name, kind, tree.commit[:12], toolchains, _by_key(entries, tree.name), tuple(files), tree)


def _only(chosen: Sequence[Facts], part: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """The part in words of this side's specs, which may lack a family, an axis or a value that the other side has."""
    if not part:
        return {}
    known: dict[str, dict[str, None]] = {"family": {}}
    for facts in chosen:
        for name, value in facts.items():
            if name == "family" or name in part:
                known.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in known.items() if name != "target"}


def _narrowed(side: Side, targets: Iterable[str]) -> Side:
    """The side without targets that were not asked for."""
    wanted = set(targets)
    entries = {key: entry for key, entry in side.entries.items() if entry.target in wanted}
    toolchains = {target: made_by for target, made_by in side.toolchains.items() if target in wanted}
    return replace(side, entries=entries, toolchains=toolchains)


def _part_of(side: Side, part: Mapping[str, tuple[str, ...]]) -> Side:
    return replace(side, entries={key: entry for key, entry in side.entries.items() if _is_in(entry.facts, part)})


def _is_in(facts: Facts, part: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a variant has the values asked for; an axis leaves out none of a family that does not have it."""
    return all(facts.get(name, values[0]) in values for name, values in part.items())
