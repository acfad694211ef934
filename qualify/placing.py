"""Putting a bundle in its place: it takes its name only after it was written and read back whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from assay.bundle import Bundle, BundleError, Contents, Fault, attach_evidence, write_bundle

from .device.levels import ATTESTED
from .verification import bundle_faults


def place_bundle(
    path: Path,
    contents: Contents,
    target_budgets: Mapping[str, int] | None = None,
    *,
    before_commit: Callable[[str], None] = lambda _identity: None,
) -> str:
    """Write `contents` to `path`, whose folder must exist; returns the bundle's identity.

    Evidence of devices that was attested for the very same bundle stays.

    target_budgets: target -> most bytes of its code objects as stored.  before_commit: called with the identity when
    the bundle is written and verified and has not taken its name yet; what it raises keeps it from that.  Raises
    BudgetError where a budget is exceeded and BundleError for anything else; then what stood at `path` still does, and
    nothing beside it.
    """
    with _sole_writer(path) as candidate:
        identity = write_bundle(candidate, contents, target_budgets=target_budgets)
        if kept := _attested(path, identity, contents.evidence):
            attach_evidence(candidate, kept)
        if faults := bundle_faults(candidate, companion=contents.manifest.companion is not None):
            raise BundleError(faults)
        before_commit(identity)
    return identity


def folder_fault(option: str, folder: Path) -> Fault | None:
    """Why no file can be put into a folder, which may have to be made first: told before minutes of work."""
    try:
        os.lstat(folder)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return Fault(f"{option}: {folder}", "a name too long for the file system", "a shorter one")
    # A link that leads nowhere is there as well, and no folder is made in its place.
    nearest = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    if not nearest.is_dir():
        given = "a file" if nearest.exists() else "a link to what is not there"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        given = "a folder that cannot be written"
    else:
        return None
    return Fault(f"{option}: {folder}", f"{nearest} is {given}", "a folder to write to, or to be made")


def _attested(path: Path, identity: str, made: Mapping[str, bytes]) -> dict[str, bytes]:
    """Evidence that the bundle at `path` has besides what this run made, if it is the very same bundle."""
    try:
        with Bundle.open(path) as before:
            if before.identity != identity:
                return {}
            names = [name for name in before.evidence_names() if name not in made and name.startswith(ATTESTED)]
            return {name: json.dumps(before.evidence(name)).encode() for name in names}
    except BundleError:
        return {}


@contextlib.contextmanager
def _sole_writer(path: Path) -> Iterator[Path]:
    """A name beside `path` that becomes `path` at the end.  Builders of one folder take turns, so it is always the same
    name and what a killed one left is written over.  Raises BundleError."""
    if not path.name or path.is_dir():
        raise BundleError(Fault(str(path), "cannot be written: is a folder", "the name of a file"))
    candidate = path.with_name(f".{path.name}.unverified")
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield candidate
            os.replace(candidate, path)
        finally:
            candidate.unlink(missing_ok=True)
            os.close(descriptor)
    except OSError as error:
        given = f"cannot be written: {error.strerror or error}"
        raise BundleError(Fault(str(path), given, "a file in a folder to write to")) from None
