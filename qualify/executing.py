"""Verdicts of executing variants, at any level of evidence: kept ones first, then worker processes.

Nothing here imports what executes, or numpy, before a verdict has to be made, so that a warm run needs neither.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault, FaultsError
from assay.codegen.records import Outcome, Variant, canonical_json, sha256_hex
from assay.codegen.spec_models import FamilyFile
from assay.codegen.store import Store
from assay.codegen.variants import arguments_of, dtype_of
from assay.codegen.workers import WorkerDied, Workers, finished, result_of

# A variant's cases take a few seconds; a machine that is busy with other things takes a few times that.
_TIME_LIMIT = 900.0
PASS, FAIL, NOT_INTERPRETABLE = "pass", "fail", "not_interpretable"


class EvidenceError(FaultsError):
    """The evidence asked for cannot be produced here; exit status 4."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What the cases of one variant gave at one level.  cases: that ran.  faults: (case, what was wrong).

    refusal: why the level cannot execute this variant, '' where it can; never a pass.  instructions: executed, by
    class, None where the level knows none.
    """

    level: str
    cases: int
    faults: tuple[tuple[str, str], ...]
    largest_error: float | None
    refusal: str = ""
    instructions: Mapping[str, int] | None = None

    @property
    def verdict(self) -> str:
        """`pass`, `fail` or `not_interpretable`; a fault that was seen weighs more than what could not be run."""
        if self.faults:
            return FAIL
        if self.refusal:
            return NOT_INTERPRETABLE
        return PASS if self.cases else FAIL

    def figures(self) -> dict[str, Any]:
        """What evidence and reports say of it."""
        figures: dict[str, Any] = {"cases": self.cases, "largest_error": self.largest_error}
        if self.refusal:
            figures["refusal"] = self.refusal
        if self.instructions is not None:
            figures["executed_instructions"] = dict(sorted(self.instructions.items()))
        return figures


@dataclass(frozen=True, slots=True)
class Level:
    """How one level of evidence is made.

    executor: what executes, for messages.  request: all that decides a verdict, as plain data, next to judged_by:
    versions and hashes of what judges.  run: a module-level function for the worker; returns {cases: [{case,
    largest_error, fault}], instructions?, refusal?}.
    """

    name: str
    executor: str
    request: Callable[[Variant, Outcome, FamilyFile], dict[str, Any]]
    judged_by: Callable[[], dict[str, str]]
    run: Callable[[dict[str, Any]], dict[str, Any]]


class Executions:
    """Verdicts of one level on the variants of a run; equal work is done once."""

    def __init__(self, level: Level, store: Store, workers: Workers):
        self._level = level
        self._store = store
        self._workers = workers
        self._futures: dict[str, Future[Execution]] = {}

    def submit(self, variant: Variant, outcome: Outcome, family: FamilyFile) -> Future[Execution]:
        """A future of the verdict; it raises only CacheError and ToolchainError."""
        request = self._level.request(variant, outcome, family)
        key = _key(self._level, request)
        if key not in self._futures:
            known = self._store.get(key)
            self._futures[key] = finished(self._decoded(known)) if known else self._start(key, request)
        return self._futures[key]

    def _start(self, key: str, request: dict[str, Any]) -> Future[Execution]:
        work = self._workers.submit(self._level.run, [request], _TIME_LIMIT)
        result: Future[Execution] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, result))
        return result

    def _finish(self, key: str, work: Future[dict[str, Any]], result: Future[Execution]) -> None:
        try:
            try:
                given = result_of(work, _TIME_LIMIT)
            except WorkerDied as death:
                fault = f"the {self._level.executor} process {death}"
                result.set_result(self._decoded({"cases": [{"case": "all", "largest_error": None, "fault": fault}]}))
                return
            self._store.put(key, given)
            result.set_result(self._decoded(given))
        except BaseException as error:
            result.set_exception(error)

    def _decoded(self, result: Mapping[str, Any]) -> Execution:
        cases = result["cases"]
        errors = [case["largest_error"] for case in cases if case["largest_error"] is not None]
        return Execution(
            self._level.name,
            len(cases),
            tuple((case["case"], case["fault"]) for case in cases if case["fault"]),
            max(errors, default=None),
            result.get("refusal", ""),
            result.get("instructions"),
        )


def call_request(variant: Variant, family: FamilyFile) -> dict[str, Any]:
    """The fields of case_runs.CallRequest: what calls of a variant look like, whatever executes them."""
    axes = dict(variant.candidate.problem.axes)
    pointers = {argument.name: argument for argument in family.arguments if argument.kind == "pointer"}
    arguments = []
    for argument in arguments_of(family, variant.candidate.problem.axes):
        shape = pointers[argument.of].shape if argument.of else None
        dim = shape.index(argument.dim) if shape and argument.dim else None
        arguments.append((argument.name, argument.kind, dtype_of(argument, axes), argument.of, dim))
    return {
        "family": family.family,
        "axes": axes,
        "arguments": tuple(arguments),
        "grid": variant.grid,
        "tolerance": (family.tolerance.absolute, family.tolerance.relative),
    }


def _key(level: Level, request: Mapping[str, Any]) -> str:
    """Hash of the request, with code by its own hash, and of everything that judges it."""
    plain = {
        name: hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value
        for name, value in request.items()
    }
    # Decimal text: canonical JSON holds no floats.
    plain["tolerance"] = [repr(limit) for limit in request["tolerance"]]
    return sha256_hex(canonical_json({**plain, "level": level.name, "judged_by": level.judged_by()}))


def hash_of_sources(packages: Iterable[str], modules: Iterable[str]) -> str:
    """SHA-256 over the sources of whole packages and of modules of this folder; any edit judges anew."""
    files = [path for package in packages for root in _folders_of(package) for path in sorted(root.rglob("*.py"))]
    digest = hashlib.sha256()
    for path in [*files, *(Path(__file__).with_name(f"{name}.py") for name in modules)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _folders_of(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []


def cannot_import(level: str, error: ImportError) -> EvidenceError:
    """A package that is installed and cannot be imported, as seen in a worker."""
    said = f"{error.name or 'a package that it needs'} cannot be imported: {error}"
    return EvidenceError(Fault(f"evidence {level}", said, "", "install it anew"))


def missing_packages(level: str, needed: Mapping[str, str], extra: str) -> list[Fault]:
    """A fault for each module of `needed` ({module: package}) that is not installed, without importing any."""
    hint = f"install the {extra} extra: pip install '.[build,{extra}]'"
    return [
        Fault(f"evidence {level}", f"{package} is not installed", package, hint)
        for module, package in needed.items()
        if importlib.util.find_spec(module) is None
    ]


def missing_references(level: str, families: Iterable[str]) -> list[Fault]:
    """A fault for each family that no reference computes, without importing any."""
    folders = _folders_of("assay.reference")
    return [
        Fault(
            f"evidence {level} of {family}",
            "no reference says what it computes",
            "",
            f"add reference/{family}.py, or ask for --evidence static",
        )
        for family in families
        if not any((folder / f"{family}.py").is_file() for folder in folders)
    ]
