"""What a compiler's environment holds besides the compiler: the packages of this process, at its versions."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

COMPILER = "triton"
# What building and emulating need; the other extras have no part in a build.
_EXTRAS = ("build", "emulate")


def pinned_requirements(project: str = "assay") -> tuple[str, ...]:
    """`name==version`, sorted, of all that the project's extras need, directly or not, the compiler left out.

    What is not installed here stays as the project asks for it, so that the environments lack nothing that the
    evidence of a target needs.
    """
    found: dict[str, str] = {}
    _collect(project, _EXTRAS, found)
    return tuple(found[name] for name in sorted(found))


def _collect(project: str, extras: tuple[str, ...], found: dict[str, str]) -> None:
    for requirement in _needed(project, extras):
        name = canonicalize_name(requirement.name)
        if name in found or name == COMPILER:
            continue
        try:
            found[name] = f"{requirement.name}=={importlib.metadata.version(requirement.name)}"
        except importlib.metadata.PackageNotFoundError:
            found[name] = f"{requirement.name}{requirement.specifier}"
            continue
        _collect(requirement.name, tuple(sorted(requirement.extras)), found)


def _needed(project: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """The requirements of an installed project that hold on this machine, with `extras` asked for."""
    for text in importlib.metadata.requires(project) or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement
