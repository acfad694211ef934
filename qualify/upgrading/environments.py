"""One isolated virtual environment a compiler version, made once and kept below the cache folder.

    compilers/<key>/             a virtual environment without the system's or the user's packages
    compilers/<key>/ready.json   what pip had to say of the compiler; written last, so an environment without it is half
                                 made and is made again
    compilers/<key>.lock         held while one is made: of two processes, the second finds what the first made

The key holds all that decides what is in there: the compiler's version, the Python that runs it, the other packages.
assay itself is not installed: a folder of links to the packages of the running process (`linked_packages`) is the one
thing that a command there finds besides what pip installed, so that both compilers are driven by the same code.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.bundle.faults import Fault, FaultsError
from assay.codegen.records import canonical_json, sha256_hex
from assay.codegen.toolchain import python_build

from .requirements import COMPILER

_LAYOUT = 1
_READY = "ready.json"
_KEY_DIGITS = 16
# The sub-packages of assay, as pyproject.toml lists them.
PACKAGES = ("kernel_specs", "objects", "bundle", "reference", "codegen", "emulator", "runtime", "qualify")
# What would let the caller's environment into another one.  PIP_* stays: it says where the user gets packages from.
_SCRUBBED_PREFIXES = ("PYTHON", f"{COMPILER.upper()}_")
_SCRUBBED = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__"})
# Lines of pip's that are of use to a reader: why it failed, and that a version was withdrawn.
_SHOWN_ERRORS = 4
_LONGEST_REASON = 600
_LOCK_POLL_SECONDS = 0.2


class EnvironmentFailed(FaultsError):
    """A compiler's environment that cannot be made; exit status 3."""


@dataclass(frozen=True)
class CompilerEnvironment:
    """version: of the compiler.  python: its interpreter.  warnings: what pip said, such as that it was withdrawn."""

    version: str
    folder: Path
    warnings: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def compiler_environment(
    version: str, requirements: Sequence[str], cache: Path, say: Callable[[str], None]
) -> CompilerEnvironment:
    """The environment of one version, made where there is none.  `say` hears what takes long.

    Raises EnvironmentFailed with pip's own reason: no such version, no network, no room.
    """
    folder = cache / "compilers" / environment_key(version, requirements)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _sole_maker(folder.with_name(f"{folder.name}.lock"), lambda: say(_waiting(version))):
            if _said_when_made(folder) is None:
                say(f"{COMPILER} {version}: making an environment of its own in {folder}")
                _make(folder, version, requirements)
            warnings = _said_when_made(folder) or []
    except OSError as error:
        hint = "name another folder with ASSAY_CACHE_DIR"
        given = f"cannot be made: {error.strerror or error}"
        raise EnvironmentFailed(Fault(str(folder), given, "a folder with room", hint)) from None
    return CompilerEnvironment(version, folder, tuple(warnings))


def _said_when_made(folder: Path) -> list[str] | None:
    """The warnings of an environment that is there; None of one that is not, or that a lost page left half written."""
    try:
        warnings = json.loads((folder / _READY).read_bytes())["warnings"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None
    return warnings if isinstance(warnings, list) and all(isinstance(line, str) for line in warnings) else None


def environment_key(version: str, requirements: Sequence[str]) -> str:
    """The folder's name: readable, and another one for whatever would be in there."""
    decided_by = {
        "layout": _LAYOUT,
        "version": version,
        "python": f"{python_build()} {sys.base_prefix}",
        "requirements": sorted(requirements),
    }
    return f"{COMPILER}-{version}-{sha256_hex(canonical_json(decided_by))[:_KEY_DIGITS]}"


def scrubbed(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a process of another environment gets: nothing by which it would find ours."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_SCRUBBED_PREFIXES) and name not in _SCRUBBED
    }


def linked_packages(folder: Path) -> Path:
    """Fill `folder` so that on a module path it offers the assay of this process, by its name and version too, and
    nothing else; returns it."""
    (folder / "assay").mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        source = Path(importlib.import_module(f"assay.{name}").__file__ or "").resolve().parent
        link = folder / "assay" / name
        link.unlink(missing_ok=True)
        link.symlink_to(source, target_is_directory=True)
    ours = importlib.metadata.distribution("assay")
    about = folder / f"assay-{ours.version}.dist-info" / "METADATA"
    about.parent.mkdir(exist_ok=True)
    about.write_text(ours.read_text("METADATA") or ours.read_text("PKG-INFO") or "", encoding="utf-8")
    return folder


def _waiting(version: str) -> str:
    return f"{COMPILER} {version}: another process makes the environment; waiting for it"


@contextlib.contextmanager
def _sole_maker(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """The system releases the lock of a process that died, so that nothing waits for one."""
    with path.open("w") as file:
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    on_wait()
                waited = True
                time.sleep(_LOCK_POLL_SECONDS)
        yield


def _make(folder: Path, version: str, requirements: Sequence[str]) -> None:
    """Raises EnvironmentFailed, and OSError; then nothing is left in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run(version, [sys.executable, "-m", "venv", str(folder)])
        said = _run(version, _pip_install(folder, version, requirements))
        warnings = [line for line in said.splitlines() if "yanked" in line.lower()]
        temporary = folder / f".{_READY}"
        temporary.write_text(json.dumps({"warnings": warnings}) + "\n")
        os.replace(temporary, folder / _READY)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _pip_install(folder: Path, version: str, requirements: Sequence[str]) -> list[str]:
    """Wheels of the compiler alone: one built from source would be another compiler under the same version."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    wheel = ["--only-binary", COMPILER, f"{COMPILER}=={version}"]
    return [str(folder / "bin" / "python"), "-m", "pip", "install", *quiet, *wheel, *requirements]


def _run(version: str, command: list[str]) -> str:
    """What a command printed.  Raises EnvironmentFailed with its reason."""
    done = subprocess.run(command, env=scrubbed(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = f"{done.stdout}\n{done.stderr}"
    if done.returncode:
        hint = "`pip index versions triton` lists what your index serves" if "No matching" in said else ""
        raise EnvironmentFailed(Fault(f"{COMPILER} {version}", f"cannot be installed: {_reason(said)}", "", hint))
    return said


def _reason(said: str) -> str:
    """pip's errors, and the first warning of a connection that failed: that one alone tells of the network."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    network = [line for line in lines if line.startswith("WARNING: Retrying")][:1]
    shown = [*network, *errors[:_SHOWN_ERRORS]] or lines[-_SHOWN_ERRORS:] or ["no reason was given"]
    return "; ".join(shown)[:_LONGEST_REASON]
