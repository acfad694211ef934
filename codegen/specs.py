"""A spec directory, read whole: targets, profiles, families and the templates that they name.

    DIR/targets/<target>.yaml   DIR/profiles/<profile>.yaml   DIR/families/<family>.yaml   DIR/templates/*.j2
    DIR/waivers/*.yaml, which need not be there

Adding a target or a family is adding files; nothing here knows a name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from assay.bundle.faults import Fault, FaultsError, did_you_mean

from . import spec_checks
from .reach import check_reach
from .spec_models import FamilyFile, ProfileFile, TargetFile, Waiver, WaiverFile
from .spec_parse import Parsed, parse_model
from .workaround_checks import check_workarounds
from .yaml_source import read_yaml_file

_KINDS = ("targets", "profiles", "families", "templates", "waivers")

Model = TypeVar("Model", bound=BaseModel)


class SpecError(FaultsError):
    """Specs that are not as documented; carries every fault, each with file:line:column."""


@dataclass(frozen=True)
class SpecSet:
    """All specs of one directory, checked one by one and against each other.  sources: SHA-256 of each file."""

    directory: Path
    targets: Mapping[str, Parsed[TargetFile]]
    profiles: Mapping[str, Parsed[ProfileFile]]
    families: Mapping[str, Parsed[FamilyFile]]
    sources: Mapping[str, str]
    waivers: tuple[Waiver, ...] = ()

    @property
    def templates(self) -> Path:
        return self.directory / "templates"

    def target(self, name: str) -> TargetFile:
        """The target called `name`.  Raises SpecError with the known names and the nearest."""
        return _named("target", name, self.targets)

    def profile(self, name: str) -> ProfileFile:
        """The profile called `name`.  Raises SpecError with the known names and the nearest."""
        return _named("profile", name, self.profiles)

    def check_unchanged(self) -> None:
        """Raises SpecError when a file is not what was loaded: what was built would not be what is recorded."""
        now = source_hashes(self.directory)
        changed = sorted(name for name in {*now, *self.sources} if now.get(name) != self.sources.get(name))
        if changed:
            given, allowed = f"changed during the run: {', '.join(changed)}", "specs that stay as they are meanwhile"
            raise SpecError(Fault(display_path(self.directory), given, allowed, "run again"))


def _readable_sources(directory: Path) -> dict[str, str]:
    try:
        return source_hashes(directory)
    except OSError:
        return {}  # the file that cannot be read is a fault of its own


def source_hashes(directory: Path) -> dict[str, str]:
    """SHA-256 of every spec and template, by its name relative to the directory."""
    files = [path for kind in _KINDS for path in _files(directory, kind)]
    return {path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def load_specs(directory: Path) -> SpecSet:
    """Read and check everything below `directory`.  Raises SpecError with all faults of all files."""
    if not directory.is_dir():
        raise SpecError(
            Fault(str(directory), "no such directory", "a directory with targets/, profiles/ and families/")
        )
    faults: list[Fault] = []
    sources = _readable_sources(directory)
    targets = _load(directory, "targets", TargetFile, faults)
    target_models = [] if faults else [parsed.model for parsed in targets.values()]
    profiles = _load(directory, "profiles", ProfileFile, faults)
    families = _load(directory, "families", FamilyFile, faults)
    specs = SpecSet(directory, targets, profiles, families, sources)
    faults += [fault for parsed in targets.values() for fault in spec_checks.check_target(parsed)]
    for parsed in families.values():
        faults += spec_checks.check_family(parsed, target_models, specs.templates)
        faults += check_workarounds(parsed, target_models)
    # A profile is judged against families that could be read; where one could not, its own faults come first.
    if not faults:
        family_models = {name: parsed.model for name, parsed in families.items()}
        faults += [fault for parsed in profiles.values() for fault in spec_checks.check_profile(parsed, family_models)]
    if not faults:
        faults += [fault for parsed in families.values() for fault in check_reach(parsed, target_models)]
    waiver_files = _load_waivers(directory, faults)
    faults += spec_checks.check_waivers(waiver_files, targets, profiles)
    if faults:
        raise SpecError(sorted(faults, key=_position))
    return dataclasses.replace(specs, waivers=tuple(w for parsed in waiver_files for w in parsed.model.waivers))


def _misnamed(directory: Path, kind: str) -> list[Fault]:
    said = ("a .yml file, which is not read", "a .yaml file", "rename it")
    return [Fault(display_path(path), *said) for path in sorted((directory / kind).glob("*.yml"))]


def _load_waivers(directory: Path, faults: list[Fault]) -> list[Parsed[WaiverFile]]:
    files = []
    faults += _misnamed(directory, "waivers")
    for path in _files(directory, "waivers"):
        parsed, wrong = parse_model(read_yaml_file(path, display_path(path)), WaiverFile)
        faults.extend(wrong)
        if parsed is not None:
            files.append(parsed)
    return files


def _load(directory: Path, kind: str, model: type[Model], faults: list[Fault]) -> dict[str, Parsed[Model]]:
    found: dict[str, Parsed[Model]] = {}
    files = _files(directory, kind)
    faults += _misnamed(directory, kind)
    if not files:
        faults.append(Fault(display_path(directory / kind), "no .yaml file", "at least one"))
    for path in files:
        source = read_yaml_file(path, display_path(path))
        parsed, wrong = parse_model(source, model)
        faults.extend(wrong)
        if parsed is None:
            continue
        key = kind.removesuffix("s") if kind != "families" else "family"
        name = getattr(parsed.model, key)
        if name != path.stem:
            where = source.where((key,))
            faults.append(
                Fault(
                    where,
                    f"{key} {name!r} in a file called {path.name}",
                    f"{name}.yaml",
                    "rename the file, or the name in it",
                )
            )
        found[path.stem] = parsed
    return found


def display_path(path: Path) -> str:
    """The path as a person at this working directory would write it."""
    try:
        return os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path)
    except OSError:  # the working directory was deleted
        return str(path)


def _files(directory: Path, kind: str) -> list[Path]:
    pattern = "*.j2" if kind == "templates" else "*.yaml"
    return sorted((directory / kind).glob(pattern))


def _position(fault: Fault) -> tuple[str, int, int]:
    name, _, rest = fault.where.partition(":")
    line, _, column = rest.partition(":")
    return name, int(line) if line.isdigit() else 0, int(column) if column.isdigit() else 0


def _named(kind: str, name: str, known: Mapping[str, Parsed[Model]]) -> Model:
    if name in known:
        return known[name].model
    inside = [item for item in sorted(known) if item.lower() in name.lower()]
    hint = f"did you mean {inside[0]}?" if inside else did_you_mean(name, known)
    if ":" in name:
        hint = (
            "leave feature suffixes such as :xnack- out: gfx12 has no XNACK, and a target file names one architecture"
        )
    raise SpecError(Fault(f"{kind} {name!r}", f"not a known {kind}", ", ".join(sorted(known)), hint))
