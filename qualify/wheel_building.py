"""Wheels of bundles: what `pip install` puts onto a serving machine, and `assay.runtime.load` finds by name there.

    assay_kernels_gfx1201-0.1.0+b622c704980142fa1.f3f1c0d2e-py3-none-any.whl
        assay_kernels_gfx1201/__init__.py       a line of text
        assay_kernels_gfx1201/bundle.assay      the bundle, byte for byte
        *.dist-info/entry_points.txt            [assay.bundles] gfx1201 = assay_kernels_gfx1201

The name is `assay-kernels-` and the bundle's targets, then the profile where it is not the core one, and `only` for a
part of a profile. It is loaded by each target's name, `gfx1201`, `gfx1201.full` or `gfx1201.only`, as `artifacts/`
names its files. The default version is that of the assay that made the bundle, and locally the first hexadecimal
digits of its identity and of the file's SHA-256: evidence and zlib change the file and not its identity, and two
wheels of one name must not differ. The letters in front keep a part that is all digits from being read as a number,
which would lose its zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from assay.bundle import Bundle, BundleError, Fault, FaultsError, Manifest
from assay.bundle.atomic import replace_file
from assay.runtime.installed import BUNDLE_FILE, ENTRY_POINT_GROUP

from .evidence_summary import EvidenceSummary, summarise_evidence
from .verification import bundle_faults, file_fault
from .wheel_archive import WheelContents, wheel_bytes

SCHEMA = "assay.wheel/1"
RUNTIME = "assay"
MOST_NAME_BYTES = 128
_CORE = "core"
_IDENTITY_DIGITS, _FILE_DIGITS = 16, 8
_VERSION = "a version as Python packages have it, such as 1.4.0"


class WheelError(FaultsError):
    """A bundle that may not ship: damaged, or without the evidence for it; exit status 1."""


class WheelUsageError(FaultsError):
    """A file that is not there, or a name or version that no wheel can have; exit status 2."""


@dataclass(frozen=True, slots=True)
class _Input:
    """A verified bundle. data: the file's bytes. made_by: the version of the assay that wrote it."""

    path: Path
    data: bytes
    identity: str
    manifest: Manifest
    made_by: Version
    families: tuple[str, ...]
    evidence: EvidenceSummary

    @property
    def loads_as(self) -> tuple[str, ...]:
        """The names that the runtime finds it by: one a target."""
        return tuple(f"{target.name}{self._profile('.')}" for target in self.manifest.targets)

    @property
    def default_name(self) -> str:
        """The distribution's name."""
        targets = "-".join(target.name for target in self.manifest.targets)
        return f"{RUNTIME}-kernels-{targets}{self._profile('-')}"

    @property
    def default_version(self) -> str:
        """The distribution's version, different for different files."""
        file_sha256 = hashlib.sha256(self.data).hexdigest()
        return f"{self.made_by.public}+b{self.identity[:_IDENTITY_DIGITS]}.f{file_sha256[:_FILE_DIGITS]}"

    def _profile(self, separator: str) -> str:
        """Nothing for the core one; `core.only` is a part of it, as `qualify --only` makes them."""
        words = [word for word in self.manifest.profile.split(".") if word != _CORE]
        return "".join(f"{separator}{word}" for word in words)


def build_wheels(
    paths: Sequence[Path], out: Path, *, name: str | None = None, version: str | None = None
) -> dict[str, Any]:
    """Write a wheel of each bundle into the folder `out`, which is made; returns what `assay wheel --json` prints.

    name, version: instead of the default ones. Equal bundles give equal bytes. Nothing is written before every bundle
    was verified; then each wheel takes its name when it is whole.
    Raises WheelUsageError or WheelError with everything wrong, BundleError where `out` cannot be written.
    """
    paths = list(dict.fromkeys(paths))
    usage = [fault for path in paths if (fault := file_fault(path))]
    if name is not None and len(paths) > 1:
        usage.append(Fault("--name", f"{len(paths)} bundles", "one", "each wheel has a name of its own"))
    if usage:
        raise WheelUsageError(usage)
    inputs = _verified(paths)
    wheels = _contents(inputs, name, version)
    _make_folder(out)
    return {"schema": SCHEMA, "wheels": [_place(out, item, made) for item, made in zip(inputs, wheels, strict=True)]}


def _verified(paths: Sequence[Path]) -> list[_Input]:
    inputs, faults = [], []
    for path in paths:
        try:
            inputs.append(_read(path))
        except BundleError as error:
            faults += error.faults
    faults += [fault for item in inputs for fault in item.evidence.faults]
    if faults:
        raise WheelError(faults)
    return inputs


def _read(path: Path) -> _Input:
    """Raises BundleError with all that `assay verify` would say."""
    data = _bytes_of(path)
    if faults := bundle_faults(path):
        raise BundleError(faults)
    with Bundle.open(path) as bundle:
        manifest, evidence = bundle.manifest, summarise_evidence(bundle)
        made_by = _made_by(path, manifest)
        read = _Input(path, data, bundle.identity, manifest, made_by, bundle.families(), evidence)
    # What was verified is what is packed, whoever replaces the file meanwhile.
    if _bytes_of(path) != data:
        raise BundleError(Fault(str(path), "changed while it was read", hint="run again when its build is finished"))
    return read


def _made_by(path: Path, manifest: Manifest) -> Version:
    try:
        return Version(manifest.assay_version)
    except InvalidVersion:
        where = f"{path}: manifest: assay_version"
        raise BundleError(Fault(where, repr(manifest.assay_version), _VERSION)) from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(Fault(str(path), f"cannot be read: {error.strerror or error}")) from None


def _contents(inputs: Sequence[_Input], name: str | None, version: str | None) -> list[WheelContents]:
    """Raises WheelUsageError with every name and version that cannot be."""
    faults: list[Fault] = []
    wheels = {}
    for item in inputs:
        distribution = _distribution_name(item, name, faults)
        released = _version(item.default_version if version is None else version, faults)
        if distribution is not None and released is not None:
            wheels[item.path] = _wheel(item, distribution, released)
    faults += _file_name_faults(wheels)
    if faults:
        raise WheelUsageError(faults)
    return list(wheels.values())


def _distribution_name(item: _Input, name: str | None, faults: list[Fault]) -> str | None:
    where, wanted = (f"{item.path}: name", item.default_name) if name is None else ("--name", name)
    try:
        found = canonicalize_name(wanted, validate=True)
    except InvalidName:
        found = None
    if found is None or found == RUNTIME:
        hint = (
            "that is the runtime itself" if found == RUNTIME else "give another one as --name" if name is None else ""
        )
        faults.append(Fault(where, repr(wanted), "ASCII letters, digits, '-', '_' and '.', as in acme-kernels", hint))
        return None
    return found


def _version(text: str, faults: list[Fault]) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        faults.append(Fault("--version", repr(text), _VERSION))
        return None


def _file_name_faults(wheels: Mapping[Path, WheelContents]) -> list[Fault]:
    faults: list[Fault] = []
    first: dict[str, Path] = {}
    for path, wheel in wheels.items():
        where = f"{path}: {wheel.file_name}"
        if (size := len(wheel.file_name)) > MOST_NAME_BYTES:
            faults.append(Fault(where, f"{size} bytes", f"at most {MOST_NAME_BYTES}", "give a shorter --name"))
        if (other := first.setdefault(wheel.file_name, path)) != path:
            faults.append(Fault(where, f"would be the wheel of {other} too", "one bundle a wheel", "leave one out"))
    return faults


def _wheel(item: _Input, name: str, version: Version) -> WheelContents:
    package = name.replace("-", "_")
    initial = f'"""GPU kernels for assay.runtime, in {BUNDLE_FILE}; nothing imports this."""\n'
    return WheelContents(
        name=package,
        version=str(version),
        metadata=_metadata(item, name, version),
        entry_points={ENTRY_POINT_GROUP: dict.fromkeys(item.loads_as, package)},
        files={f"{package}/__init__.py": initial.encode(), f"{package}/{BUNDLE_FILE}": item.data},
    )


def _metadata(item: _Input, name: str, version: Version) -> str:
    """The runtime is asked for without an upper bound: which release will raise the bundle's major version is not known
    yet, and a runtime refuses a major that is not its own at load, naming both."""
    manifest = item.manifest
    archs = ", ".join(f"{target.name} ({target.backend} {target.arch})" for target in manifest.targets)
    rows = manifest.counts["rows"]
    triton = manifest.toolchain.get("triton", "of a version not recorded")
    schema = ".".join(map(str, manifest.schema))
    loads = "\n".join(f'    assay.runtime.load("{loaded}", device=...)' for loaded in item.loads_as)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {_one_line(f'{rows} GPU kernels for {archs}; Triton {triton}; evidence: {item.evidence}')}",
        f"Requires-Dist: {RUNTIME}>={item.made_by.public}",
        "Description-Content-Type: text/markdown",
        "",
        "A bundle of qualified GPU kernels, loaded by the assay runtime:",
        "",
        loads,
        "",
        f"- targets: {archs}",
        f"- families: {', '.join(item.families)}",
        f"- rows: {rows}",
        f"- profile: {manifest.profile}",
        f"- compiled by: Triton {triton}",
        f"- evidence: {item.evidence}",
        f"- identity: {item.identity}",
        f"- schema: {schema}",
        "",
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """What a bundle says must not begin another field."""
    return " ".join(text.split())


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(Fault(str(out), f"cannot be made: {error.strerror or error}", "a folder")) from None


def _place(out: Path, item: _Input, wheel: WheelContents) -> dict[str, Any]:
    data = wheel_bytes(wheel)
    path = out / wheel.file_name
    replace_file(path, [data])
    return {
        "wheel": str(path),
        "name": wheel.name.replace("_", "-"),
        "version": wheel.version,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "loads_as": list(item.loads_as),
        "bundle": str(item.path),
        "identity": item.identity,
        "rows": item.manifest.counts["rows"],
        "evidence": item.evidence.passed,
    }
