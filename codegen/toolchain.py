"""Which compiler build this is, found without importing it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from assay.bundle.faults import Fault, FaultsError

# Written by the installer, not part of the wheel.
_INSTALLED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")


class ToolchainError(FaultsError):
    """No usable compiler; exit status 3."""


@dataclass(frozen=True)
class Toolchain:
    """The compiler build that decides code: Triton's version and a hash of everything its wheel carries."""

    triton_version: str
    wheel_sha256: str

    def to_dict(self) -> dict[str, str]:
        return {"triton": self.triton_version, "triton_wheel_sha256": self.wheel_sha256}


def find_toolchain() -> Toolchain:
    """The installed Triton, as its wheel made it.  Raises ToolchainError with the command that installs one."""
    toolchain = installed_toolchain()
    _check_installed(importlib.metadata.distribution("triton"))
    return toolchain


def installed_toolchain() -> Toolchain:
    """What the installed Triton says it is.  Raises ToolchainError with the command that installs one.

    The hash is over the file hashes that the wheel's own RECORD lists, so it is the same in every environment that
    installed the same wheel, and another one for a wheel of another Python or platform.
    """
    try:
        distribution = importlib.metadata.distribution("triton")
    except importlib.metadata.PackageNotFoundError:
        hint = "install the build extra from a checkout: pip install '.[build]'"
        raise ToolchainError(Fault("triton", "not installed", "triton 3.8", hint)) from None
    record = distribution.read_text("RECORD")
    if not record:
        hint = "install it from a wheel: a build must be able to name its compiler"
        raise ToolchainError(Fault("triton", f"version {distribution.version} without a RECORD", "a wheel", hint))
    digest = hashlib.sha256("\n".join(sorted(_wheel_lines(record))).encode()).hexdigest()
    return Toolchain(distribution.version, digest)


def _check_installed(distribution: importlib.metadata.Distribution) -> None:
    """Raises ToolchainError where what would be imported is not what the wheel's RECORD lists: another folder in front
    of it on the path, or files that were edited (by size: hashing 600 MB at every run would cost seconds)."""
    spec = importlib.util.find_spec("triton")
    found = Path(spec.origin) if spec and spec.origin else None
    wanted = Path(str(distribution.locate_file("triton/__init__.py")))
    if found is None or not found.exists() or not wanted.exists() or not found.samefile(wanted):
        hint = "leave PYTHONPATH out: a build must know its compiler"
        raise ToolchainError(Fault("triton", f"would be imported from {found}", f"the wheel's own, {wanted}", hint))
    changed = []
    for line in _wheel_lines(distribution.read_text("RECORD") or ""):
        name, _, size = line.rsplit(",", 2)
        path = Path(str(distribution.locate_file(name)))
        if not path.is_file() or (size and path.stat().st_size != int(size)):
            changed.append(name)
    if changed:
        given = f"{len(changed)} files are not as the wheel's RECORD says, such as {changed[0]}"
        raise ToolchainError(
            Fault("triton", given, "an unchanged wheel", "install it anew: pip install --force-reinstall")
        )


def _wheel_lines(record: str) -> list[str]:
    lines = []
    for line in record.splitlines():
        name, digest, _size = line.rsplit(",", 2)
        of_installer = ".dist-info/" in name and name.rsplit("/", 1)[1] in _INSTALLED
        if digest and not name.startswith("..") and not of_installer and not name.endswith(".pyc"):
            lines.append(line)
    return lines


def python_build() -> str:
    """The Python that runs the compiler, for reports."""
    return f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()}"
