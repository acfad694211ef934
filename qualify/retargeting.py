"""`assay retarget`: the PTX of a bundle's CUDA variants re-assembled for another GPU, as a companion of the bundle.

bundle ─► recompiled (its code objects must come out again) ─► PTX ─► rewritten ─► assembled ─► judged ─► companion
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, BundleError, Fault, TargetRecord, verify_bundle
from assay.codegen.spec_models import TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.toolchain import Toolchain, ToolchainError, find_toolchain
from assay.codegen.workers import Workers

from .companion_contents import companion_contents
from .device.errors import BadRequest, RetargetError
from .device.opening import open_bundle
from .device.rows import Wanted, built_rows, matching
from .finding import find_built
from .placing import place_bundle
from .reassembling import Retargeted, Steps, reassemble
from .selection import PART_SUFFIX
from .verification import file_fault, object_faults

SCHEMA = "assay.retarget/1"
_SHOWN = 3
CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetargetOptions:
    """What is asked for.  target: of the GPU at hand.  out: None: beside the bundle.  time_limit: seconds a step."""

    bundle: Path
    target: str
    out: Path | None
    only: Wanted
    cache: Path
    jobs: int
    time_limit: float

    @property
    def companion(self) -> Path:
        """Where the companion goes."""
        infix = ".only" if self.only else ""
        return self.out or self.bundle.with_suffix(f".{self.target}{infix}.companion")


@dataclass(frozen=True, slots=True)
class RetargetResult:
    """A companion that was written.  left_out: targets of the bundle that were not for this.  damaged: cache entries
    that were passed over."""

    options: RetargetOptions
    of: str
    identity: str
    arch: str
    variants: tuple[Retargeted, ...]
    left_out: tuple[str, ...]
    damaged: tuple[str, ...]

    def rewritten(self) -> dict[str, int]:
        """How often each instruction was rewritten, in all variants together."""
        total: Counter[str] = Counter()
        for item in self.variants:
            total.update(item.rewritten)
        return dict(sorted(total.items()))


def retarget(specs: SpecSet, options: RetargetOptions, begin: Callable[[int], Callable[[str], None]]) -> RetargetResult:
    """Make the companion.  `begin` hears how many variants there are; what it returns takes a line about each.

    Raises FaultsError with everything wrong, and then nothing was written: BadRequest and SpecError (bad input),
    ToolchainError (another compiler, or one that does not give the bundle's code objects again), CacheError,
    RetargetError, BundleError (the companion cannot be written).
    """
    other = specs.target(options.target)
    toolchain = find_toolchain()
    with _opened(options, other) as bundle:
        targets = [target.name for target in bundle.manifest.targets if _is_meant(target, other)]
        items = _items(bundle, specs, options, targets, toolchain)
        report = begin(len(items))
        with Workers(options.jobs) as workers:
            steps = Steps.of(options.cache, toolchain, workers, options.time_limit)
            reassemble(items, other, steps, 2 * options.jobs, report)
        specs.check_unchanged()
        if unproven := [fault for item in items for fault in item.unproven]:
            raise ToolchainError([*unproven, *(fault for item in items for fault in item.refused)])
        if refused := [fault for item in items for fault in item.refused]:
            raise RetargetError(refused)
        contents = companion_contents(bundle, other, items)
        identity = place_bundle(options.companion, contents)
        damaged = (*steps.reader.damaged, *steps.assembler.damaged)
        left_out = tuple(target.name for target in bundle.manifest.targets if target.name not in targets)
        return RetargetResult(options, bundle.identity, identity, other.arch, tuple(items), left_out, damaged)


def _opened(options: RetargetOptions, other: TargetFile) -> Bundle:
    """The bundle, whole and with something to do in it.  Raises BadRequest with everything that speaks against it."""
    unreadable = file_fault(options.bundle)
    faults = [unreadable] if unreadable else verify_bundle(options.bundle, object_faults)
    # Beside what is no file there is no place either: a folder such as . has no name.
    if options.out or not unreadable:
        faults += _place_faults(options.companion)
    if other.backend != CUDA:
        faults.append(Fault("--for", f"{other.target} is a {other.backend} target", f"a target of backend {CUDA}"))
    if faults:
        raise BadRequest(faults)
    bundle = open_bundle(options.bundle)
    targets = bundle.manifest.targets
    if not any(_is_meant(target, other) for target in targets):
        bundle.close()
        held = ", ".join(f"{target.name} ({target.backend} {target.arch})" for target in targets)
        hint = "what is of the GPU's own target runs there as it is: assay qualify-device BUNDLE"
        raise BadRequest(Fault(str(options.bundle), f"holds {held}", f"a {CUDA} target that is not {other.arch}", hint))
    return bundle


def _is_meant(target: TargetRecord, other: TargetFile) -> bool:
    return target.backend == CUDA and target.arch != other.arch


def _place_faults(path: Path) -> list[Fault]:
    """What would be lost, or cannot be written, told before minutes of work."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        return [Fault(f"--out: {path}", "cannot be written", "a file in a folder that is there")]
    if not path.exists():
        return []
    try:
        with Bundle.open(path, companion=True) as there:
            if there.manifest.companion is not None:
                return []
    except BundleError:
        pass
    return [Fault(f"--out: {path}", "is there, and is no companion", "a new file, or a companion to replace")]


def _items(
    bundle: Bundle, specs: SpecSet, options: RetargetOptions, targets: Sequence[str], toolchain: Toolchain
) -> list[Retargeted]:
    """What is selected, each as the specs make it.  Raises BadRequest and ToolchainError."""
    selected = matching(built_rows(bundle, targets), options.only, "--only")
    if bundle.manifest.toolchain != toolchain.to_dict():
        hint = "retarget with the Triton wheel that built the bundle, or build it anew"
        theirs = _named(bundle.manifest.toolchain)
        raise ToolchainError(Fault("compiler", _named(toolchain.to_dict()), f"{theirs}, as the bundle names", hint))
    records = {built.row.id: bundle.variant(built.row.id) for built in selected}
    found = find_built(specs, records.values(), bundle.manifest.profile.removesuffix(PART_SUFFIX))
    if missing := [id for id in records if id not in found]:
        raise BadRequest(_other_sources(bundle, specs, missing))
    return [Retargeted(built.row, records[built.row.id], found[built.row.id]) for built in selected]


def _named(toolchain: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {str(value)[:12]}" for name, value in toolchain.items())


def _other_sources(bundle: Bundle, specs: SpecSet, missing: Sequence[str]) -> Fault:
    sources = bundle.manifest.sources
    changed = sorted(name for name, digest in sources.items() if specs.sources.get(name) != digest)
    ids = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    given = f"{len(missing)} variants are not what the specs make: {ids}"
    hint = f"changed since it was built: {', '.join(changed)}" if changed else "give the --specs that it was built from"
    return Fault(str(bundle.path), given, "the specs that the bundle was built from", hint)


def document(result: RetargetResult) -> dict[str, Any]:
    """What `assay retarget --json` prints."""
    return {
        "schema": SCHEMA,
        "bundle": str(result.options.bundle),
        "identity": result.of,
        "companion": str(result.options.companion),
        "companion_identity": result.identity,
        "target": result.options.target,
        "arch": result.arch,
        "left_out": list(result.left_out),
        "rewritten": result.rewritten(),
        "variants": {
            item.record.id: {
                "family": item.record.family,
                "problem": item.record.problem,
                "code_sha256": item.record.code_sha256,
                "companion_sha256": item.moved_row().object,
                "rewritten": dict(item.rewritten),
            }
            for item in result.variants
        },
    }
