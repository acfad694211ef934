"""Putting a whole new file in the place of an old one, or leaving the old one as it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from .faults import BundleError, Fault

try:
    import fcntl
except ImportError:  # Windows: no advisory locks, so abandoned files are left for a person to delete.
    fcntl = None  # type: ignore[assignment]


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes]) -> None:
    """Make `parts` the contents of `path`, on disk before the name points to them.

    Raises BundleError naming the path and the reason; then whatever stood there still does, and nothing new stands
    beside it. What a killed writer left is removed by the next one. Two writers at once: the later one wins, whole.
    """
    target = Path(path)
    made: Path | None = None
    try:
        _sweep(target)
        made, descriptor = _create_beside(target)
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.replace(made, target)
        made = None
        _sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BundleError(Fault(str(target), f"cannot be written: {reason}", "", _hint(error))) from error
    finally:
        if made is not None:
            with contextlib.suppress(OSError):
                made.unlink()


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _create_beside(target: Path) -> tuple[Path, int]:
    while True:
        path = target.parent / f"{_prefix(target)}{os.getpid()}-{os.urandom(4).hex()}.tmp"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        if _locked(descriptor) and path.exists():
            return path, descriptor
        os.close(descriptor)  # A sweeping writer came between creating and locking: take another name.


def _locked(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # A file system without locks: `_sweep` cannot lock there either, so nothing is swept.
    return True


def _sweep(target: Path) -> None:
    """Remove what killed writers left for this target: the kernel dropped their lock, so it can be had."""
    if fcntl is None:
        return
    for path in target.parent.glob(f"{_glob_escaped(_prefix(target))}*.tmp"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def _glob_escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _sync_folder(folder: Path) -> None:
    # So that the new name survives a power cut too. Not every file system or system can open a folder.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _hint(error: OSError) -> str:
    import errno

    if error.errno == errno.ENOSPC:
        return "free some space; the previous file is untouched"
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return "choose a folder that can be written"
    return "the folder must exist" if error.errno == errno.ENOENT else ""
