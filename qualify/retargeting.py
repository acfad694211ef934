"""`assay retarget`: the PTX of a bundle's CUDA variants re-assembled for another GPU, as a companion of the bundle.

    bundle ─► recompiled (its code objects must come out again) ─► PTX ─► rewritten ─► assembled ─► judged ─► companion
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import objects
from assay.bundle import Bundle, BundleError, Fault, FaultsError, Row, TargetRecord, VariantRecord, verify_bundle
from assay.codegen.assembling import Assembler
from assay.codegen.cached_work import FAILURE
from assay.codegen.ptx import PtxReader
from assay.codegen.ptx_rewriting import RewritingError, rewrite
from assay.codegen.spec_models import TargetFile
from assay.codegen.specs import SpecSet
from assay.codegen.toolchain import Toolchain, ToolchainError, find_toolchain
from assay.codegen.workers import Workers

from .bundle_contents import target_record
from .companion_contents import companion_contents
from .device.errors import BadRequest
from .device.opening import open_bundle
from .device.rows import Built, Wanted, built_rows, matching
from .finding import Found, find_built
from .placing import place_bundle
from .verification import file_fault, object_faults

SCHEMA = "assay.retarget/1"
_SHOWN = 3
CUDA = "cuda"


class RetargetError(FaultsError):
    """Variants that cannot be rewritten or assembled, or do not fit the other GPU; exit status 1."""


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


@dataclass(slots=True)
class Retargeted:
    """One variant on its way.  row, record: of the bundle.  code: of the companion, b'' where there is none."""

    row: Row
    record: VariantRecord
    found: Found
    code: bytes = b""
    kernel: objects.Kernel | None = None
    rewritten: Mapping[str, int] = field(default_factory=dict)
    refused: list[Fault] = field(default_factory=list)
    unproven: list[Fault] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The variant, for messages."""
        return f"variant {self.record.id} ({self.found})"

    def moved_row(self) -> Row:
        """The row with the companion's code object."""
        return self.row._replace(object=hashlib.sha256(self.code).hexdigest())


@dataclass(frozen=True, slots=True)
class RetargetResult:
    """A companion that was written.  left_out: targets of the bundle that were not for this."""

    options: RetargetOptions
    of: str
    identity: str
    arch: str
    variants: tuple[Retargeted, ...]
    left_out: tuple[str, ...]

    def rewritten(self) -> dict[str, int]:
        """How often each instruction was rewritten, in all variants together."""
        total: Counter[str] = Counter()
        for item in self.variants:
            total.update(item.rewritten)
        return dict(sorted(total.items()))


def retarget(
    specs: SpecSet, options: RetargetOptions, begin: Callable[[int], Callable[[str], None]]
) -> RetargetResult:
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
            _run(items, other, _Steps.of(options, toolchain, workers), report)
        specs.check_unchanged()
        if unproven := [fault for item in items for fault in item.unproven]:
            raise ToolchainError([*unproven, *(fault for item in items for fault in item.refused)])
        if refused := [fault for item in items for fault in item.refused]:
            raise RetargetError(refused)
        contents = companion_contents(bundle, other, items)
        identity = place_bundle(options.companion, contents)
        left_out = tuple(target.name for target in bundle.manifest.targets if target.name not in targets)
        return RetargetResult(options, bundle.identity, identity, other.arch, tuple(items), left_out)


def _opened(options: RetargetOptions, other: TargetFile) -> Bundle:
    """The bundle, whole and with something to do in it.  Raises BadRequest with everything that speaks against it."""
    faults = [fault] if (fault := file_fault(options.bundle)) else verify_bundle(options.bundle, object_faults)
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
    found = find_built(specs, records.values(), bundle.manifest.profile)
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


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is done in worker processes."""

    reader: PtxReader
    assembler: Assembler

    @classmethod
    def of(cls, options: RetargetOptions, toolchain: Toolchain, workers: Workers) -> _Steps:
        made = (options.cache, toolchain, workers, options.time_limit)
        return cls(PtxReader(*made), Assembler(*made))


def _run(items: Sequence[Retargeted], other: TargetFile, steps: _Steps, report: Callable[[str], None]) -> None:
    """Every variant to its end; what is wrong with one is in it and stops no other."""
    reading = {steps.reader.submit(item.found.variant.request): item for item in items}
    assembling: dict[Future[dict[str, Any]], Retargeted] = {}
    for done in _as_they_end(reading, assembling):
        if done in reading:
            item = reading[done]
            if ptx := _rewritten(item, done.result(), other):
                contraction = item.found.variant.request.enable_fp_fusion
                assembling[steps.assembler.submit(ptx, other.arch, contraction=contraction)] = item
                continue
        else:
            item = assembling[done]
            _judge(item, done.result(), other)
        report(_line(item))


def _as_they_end(*groups: Mapping[Future[Any], Any]) -> Iterator[Future[Any]]:
    """Every future of the groups when it is done, those that are added meanwhile too."""
    seen: set[Future[Any]] = set()
    while pending := {future for group in groups for future in group} - seen:
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            seen.add(future)
            yield future


def _rewritten(item: Retargeted, read: Mapping[str, Any], other: TargetFile) -> str:
    """The other target's PTX, '' where there is none; then the item says why."""
    if read[FAILURE]:
        item.unproven.append(Fault(item.where, f"does not compile again: {read[FAILURE]}", "its code object"))
        return ""
    if read["code_sha256"] != item.record.code_sha256:
        given = f"compiled again, its code object has SHA-256 {read['code_sha256'][:16]}"
        hint = "this compiler or machine makes other code: retarget where the bundle was built"
        item.unproven.append(Fault(item.where, given, f"{item.record.code_sha256[:16]}, as the bundle says", hint))
        return ""
    try:
        rewritten = rewrite(read["ptx"], item.found.target.arch, other.arch, item.where)
    except RewritingError as error:
        item.refused += error.faults
        return ""
    item.rewritten = rewritten.instructions
    return rewritten.text


def _judge(item: Retargeted, assembled: Mapping[str, Any], other: TargetFile) -> None:
    """The code object is that kernel with those arguments for that GPU, and fits it."""
    if assembled[FAILURE]:
        item.refused.append(Fault(item.where, f"cannot be assembled for {other.arch}: {assembled[FAILURE]}"))
        return
    item.code = assembled["code"]
    row = item.moved_row()
    faults = object_faults(item.code, row, target_record(other))
    if not faults:
        kernels = objects.read_object(item.code, where=item.where).kernels
        item.kernel = next(kernel for kernel in kernels if kernel.name == row.symbol)
        needed = row.lds_bytes + (item.kernel.resources.lds_static_bytes or 0)
        if needed > other.limits.lds_bytes:
            given = f"needs {needed:,} bytes of shared memory"
            faults.append(Fault(item.where, given, f"at most {other.limits.lds_bytes:,} on {other.target}"))
    item.refused += faults


def _line(item: Retargeted) -> str:
    verdict = "FAILED" if item.refused or item.unproven else "ok"
    said = ", ".join(f"{count} {name}" for name, count in item.rewritten.items()) or "nothing"
    problem = item.found.variant.candidate.problem
    return f"{verdict} {problem.family} {problem.label} ({said} rewritten)"


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


__all__ = ["Built", "RetargetError", "RetargetOptions", "RetargetResult", "document", "retarget"]
