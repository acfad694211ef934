"""Probes of `assay doctor`: the compile cache, the shipped specs, and the committed locks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .findings import Finding

if TYPE_CHECKING:
    from assay.codegen.toolchain import Toolchain

    from .lock import Lock

_LEAST_FREE_BYTES = 1 << 30


def cache() -> Iterator[Finding]:
    """Where compilations are kept, whether it can be written, how much is in it."""
    from assay.codegen.cache import default_cache_directory

    folder = default_cache_directory().absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    hint = "name another with ASSAY_CACHE_DIR"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding("cache", "problem", f"{folder} cannot be written ({there} is in the way)", hint)
    else:
        entries, size = _count(folder)
        made = "" if folder.exists() else ", to be made"
        yield Finding("cache", "ok", f"{folder}{made}: {entries:,} entries, {size:,} bytes")
    free = shutil.disk_usage(there if there.is_dir() else there.parent).free
    low = free < _LEAST_FREE_BYTES
    yield Finding("cache disk", "warning" if low else "ok", f"{free:,} bytes free", "free some space" if low else "")


def _count(folder: Path) -> tuple[int, int]:
    entries = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            entries += name.endswith(".outcome")
            size += os.lstat(os.path.join(parent, name)).st_size
    return entries, size


def specs() -> Iterator[Finding]:
    """Whether what assay ships can be read."""
    from assay import kernel_specs
    from assay.codegen.specs import load_specs

    loaded = load_specs(Path(kernel_specs.DIRECTORY))
    yield Finding("targets", "ok", ", ".join(sorted(loaded.targets)))
    yield Finding("families", "ok", ", ".join(sorted(loaded.families)))
    yield Finding("profiles", "ok", ", ".join(sorted(loaded.profiles)))


def locks() -> Iterator[Finding]:
    """Every committed lock at hand against the installed compiler."""
    from assay import kernel_specs
    from assay.codegen.toolchain import installed_toolchain

    from .lock import LockError, read_lock

    roots = dict.fromkeys([Path.cwd() / "artifacts", Path(kernel_specs.DIRECTORY).resolve().parent / "artifacts"])
    paths = [path for root in roots for path in sorted(root.glob("*/qualified.*.lock"))]
    if not paths:
        yield Finding("locks", "absent", f"none in {', '.join(map(str, roots))}")
        return
    here = installed_toolchain()
    for path in paths:
        try:
            lock = read_lock(path)
        except LockError as error:
            yield Finding(f"lock {path.parent.name}", "problem", str(error.faults[0]), "restore it from git")
            continue
        if lock is not None:
            yield _lock(lock, here)


def _lock(lock: Lock, here: Toolchain) -> Finding:
    name, build = f"lock {lock.target} {lock.profile}", lock.toolchain
    if build == here:
        return Finding(name, "ok", f"{len(lock.rows)} rows, made by this compiler build")
    said = f"made by triton {build.triton_version} ({build.wheel_sha256[:12]}), not the one here"
    hint = f"assay qualify --target {lock.target} --profile {lock.profile} ends with 3 until --update-lock"
    return Finding(name, "warning", said, hint)
