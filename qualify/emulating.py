"""Emulated evidence for variants: kept verdicts first, then worker processes.

Nothing here imports the emulator or numpy before a verdict has to be made, so that a warm run needs neither.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault, FaultsError
from assay.codegen.records import Outcome, Variant, canonical_json, sha256_hex
from assay.codegen.spec_models import FamilyFile, TargetFile
from assay.codegen.store import Store
from assay.codegen.variants import arguments_of, dtype_of
from assay.codegen.workers import WorkerDied, Workers, finished, result_of

# A variant's cases take a few seconds; a machine that is busy with other things takes a few times that.
_TIME_LIMIT = 900.0
_NEEDED = {"numpy": "numpy", "tinygrad": "tinygrad"}


class EvidenceError(FaultsError):
    """The evidence asked for cannot be produced here; exit status 4."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """What the cases of one variant gave.  faults: (case, what was wrong).  instructions: executed, by class."""

    cases: int
    faults: tuple[tuple[str, str], ...]
    largest_error: float | None
    instructions: Mapping[str, int]

    @property
    def passed(self) -> bool:
        return self.cases > 0 and not self.faults

    def figures(self) -> dict[str, Any]:
        """What evidence and reports say of it."""
        return {
            "cases": self.cases,
            "largest_error": self.largest_error,
            "executed_instructions": dict(sorted(self.instructions.items())),
        }


class Emulations:
    """Verdicts on variants, on the workers of a run; equal work is done once."""

    def __init__(self, store: Store, workers: Workers):
        self._store = store
        self._workers = workers
        self._futures: dict[str, Future[Emulation]] = {}

    def submit(self, variant: Variant, outcome: Outcome, family: FamilyFile) -> Future[Emulation]:
        """A future of the verdict; it raises only CacheError and ToolchainError."""
        request = _request(variant, outcome, family)
        key = _key(request)
        if key not in self._futures:
            known = self._store.get(key)
            self._futures[key] = finished(_decoded(known)) if known else self._start(key, request)
        return self._futures[key]

    def _start(self, key: str, request: dict[str, Any]) -> Future[Emulation]:
        work = self._workers.submit(_run, [request], _TIME_LIMIT)
        result: Future[Emulation] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, result))
        return result

    def _finish(self, key: str, work: Future[dict[str, Any]], result: Future[Emulation]) -> None:
        try:
            try:
                given = result_of(work, _TIME_LIMIT)
            except WorkerDied as death:
                fault = [{"case": "all", "largest_error": None, "fault": f"the emulator process {death}"}]
                result.set_result(_decoded({"cases": fault, "instructions": {}}))
                return
            self._store.put(key, given)
            result.set_result(_decoded(given))
        except BaseException as error:
            result.set_exception(error)


def require_emulation(target: TargetFile, families: list[str]) -> None:
    """Raises EvidenceError when variants of the target and families cannot be emulated on this machine."""
    faults = []
    if target.backend != "hip" or not target.arch.startswith("gfx12"):
        given = f"{target.backend} {target.arch} has no emulator"
        hint = "ask for --evidence static"
        faults.append(Fault(f"evidence emulated on {target.target}", given, "targets of gfx12", hint))
    for module, package in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            hint = "install the emulate extra: pip install '.[build,emulate]'"
            faults.append(Fault("evidence emulated", f"{package} is not installed", package, hint))
    for family in families:
        if importlib.util.find_spec(f"assay.reference.{family}") is None:
            hint = f"add reference/{family}.py, or ask for --evidence static"
            faults.append(Fault(f"evidence emulated of {family}", "no reference says what it computes", "", hint))
    if faults:
        raise EvidenceError(faults)


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """In the worker: only there the emulator is imported."""
    from .emulation import emulate_in_worker

    return emulate_in_worker(request)


def _request(variant: Variant, outcome: Outcome, family: FamilyFile) -> dict[str, Any]:
    axes = dict(variant.candidate.problem.axes)
    pointers = {argument.name: argument for argument in family.arguments if argument.kind == "pointer"}
    arguments = []
    for argument in arguments_of(family, variant.candidate.problem.axes):
        shape = pointers[argument.of].shape if argument.of else None
        dim = shape.index(argument.dim) if shape and argument.dim else None
        arguments.append((argument.name, argument.kind, dtype_of(argument, axes), argument.of, dim))
    return {
        "code": outcome.code,
        "symbol": outcome.symbol,
        "num_warps": variant.request.num_warps,
        "lds_bytes": outcome.shared_bytes or 0,
        "family": family.family,
        "axes": axes,
        "arguments": tuple(arguments),
        "grid": tuple(tuple(dims) for dims in family.grid),
        "tolerance": (family.tolerance.absolute, family.tolerance.relative),
    }


def _key(request: dict[str, Any]) -> str:
    """Hash of the request, with the code by its own hash, and of everything that judges it."""
    code = hashlib.sha256(request["code"]).hexdigest()
    # Decimal text: canonical JSON holds no floats.
    tolerance = [repr(limit) for limit in request["tolerance"]]
    return sha256_hex(canonical_json({**request, "code": code, "tolerance": tolerance, "judged_by": judged_by()}))


@functools.cache
def judged_by() -> dict[str, str]:
    """The decoder's tables, and hashes of the sources of emulator, references and comparison: any edit judges anew."""
    here = Path(__file__).parent
    folders = [importlib.util.find_spec(name) for name in ("assay.emulator", "assay.reference")]
    roots = [Path(root) for spec in folders if spec for root in spec.submodule_search_locations or ()]
    files = [path for root in roots for path in sorted(root.rglob("*.py"))]
    digest = hashlib.sha256()
    for path in [*files, here / "emulation.py", here / "numerics.py"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return {"tinygrad": importlib.metadata.version("tinygrad"), "sources": digest.hexdigest()}


def _decoded(result: Mapping[str, Any]) -> Emulation:
    cases = result["cases"]
    errors = [case["largest_error"] for case in cases if case["largest_error"] is not None]
    faults = tuple((case["case"], case["fault"]) for case in cases if case["fault"])
    return Emulation(len(cases), faults, max(errors, default=None), dict(result["instructions"]))
