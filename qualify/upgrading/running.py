"""The whole of `assay upgrade`: an environment a version, every target built in each, the later against the first."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.bundle import Fault

from .building import BuildRequest, Progress, build, why_unusable
from .comparing import compare_sides
from .environments import CompilerEnvironment, EnvironmentFailed, compiler_environment, linked_packages
from .reading import side_of
from .records import Side, Upgrade
from .requirements import pinned_requirements


@dataclass(frozen=True)
class UpgradeRequest:
    """versions: of the compiler, the one in use first.  out: where the artefacts of all sides stay; None: nowhere."""

    versions: tuple[str, ...]
    targets: tuple[str, ...]
    build: BuildRequest
    out: Path | None = None


def run_upgrade(
    request: UpgradeRequest, say: Callable[[str], None], progress: Callable[[str], Progress]
) -> tuple[Upgrade, ...]:
    """Each later version against the first.  `say` hears of environments; `progress` is asked once a side, by name.

    A version that cannot be imported, and kernels that fail, are results.  Raises EnvironmentFailed where an
    environment cannot be made, BuildFailed where a side ended without a report, EvidenceError where the evidence cannot
    be produced here.
    """
    environments = _environments(request, say)
    with _folder(request.out) as folder, tempfile.TemporaryDirectory(prefix="assay-upgrade-") as scratch:
        links = linked_packages(Path(scratch))
        unusable = {item.version: why_unusable(item, links) for item in environments}
        sides: dict[str, list[Side]] = {item.version: [] for item in environments}
        for target in request.targets:
            for item in environments:
                if reason := unusable[item.version]:
                    sides[item.version].append(Side(item.version, target, reason))
                    continue
                out = folder / f"triton-{item.version}"
                told = progress(f"triton {item.version}: {target} {request.build.profile}")
                report = build(item, target, request.build, links, out, told)
                sides[item.version].append(side_of(item.version, target, report))
    first, *later = environments
    return tuple(_upgrade(first, item, sides) for item in later)


def _environments(request: UpgradeRequest, say: Callable[[str], None]) -> list[CompilerEnvironment]:
    """All of them.  Raises EnvironmentFailed with every version that has none, not only the first."""
    requirements = pinned_requirements()
    made: list[CompilerEnvironment] = []
    faults: list[Fault] = []
    for version in request.versions:
        try:
            made.append(compiler_environment(version, requirements, request.build.cache, say))
        except EnvironmentFailed as error:
            faults += error.faults
    if faults:
        raise EnvironmentFailed(faults)
    return made


def _upgrade(before: CompilerEnvironment, after: CompilerEnvironment, sides: dict[str, Sequence[Side]]) -> Upgrade:
    pairs = zip(sides[before.version], sides[after.version], strict=True)
    targets = tuple(compare_sides(old, new) for old, new in pairs)
    return Upgrade(before.version, after.version, targets, (*before.warnings, *after.warnings))


@contextlib.contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="assay-upgrade-") as folder:
        yield Path(folder)
