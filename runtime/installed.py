"""Bundles that were installed as packages, found by name: `load("gfx1201")`.

A distribution offers a bundle by an entry point of group `assay.bundles`: its name is what `load` is given, its value
the package that holds `bundle.assay`. The file is looked up beside the distribution's own metadata: nothing is
imported, nothing of the package runs, and what shadows it on the import path does not count. `assay wheel` makes such
packages.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from assay.bundle.faults import BundleError, Fault, did_you_mean

ENTRY_POINT_GROUP = "assay.bundles"
BUNDLE_FILE = "bundle.assay"


def installed_path(name: str) -> Path:
    """Where the installed bundle of that name is. Raises BundleError: none of that name, or several.

    Of one distribution that is installed twice the first on `sys.path` counts, as for imports.
    """
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    # By path: what an interrupted uninstall leaves behind offers the same file once more.
    offered = {_bundle_path(point): point for point in points if point.name == name}
    if len(offered) == 1:
        return next(iter(offered))
    if offered:
        given = f"is offered by several distributions: {', '.join(sorted(map(_described, offered, offered.values())))}"
        raise BundleError(Fault(repr(name), given, "one", "uninstall all but one, or load one by its path"))
    names = sorted({point.name for point in points})
    allowed = f"a path, or an installed bundle: {', '.join(names)}" if names else "a path; no bundle is installed"
    given = "no such file in the current folder, and no installed bundle of that name"
    raise BundleError(Fault(repr(name), given, allowed, did_you_mean(name, names)))


def _bundle_path(point: importlib.metadata.EntryPoint) -> Path:
    package = point.value.partition(":")[0].strip().replace(".", "/")
    return Path(str(point.dist.locate_file(f"{package}/{BUNDLE_FILE}")))


def _described(path: Path, point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version} ({path})"
