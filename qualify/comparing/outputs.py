"""Whether both sides of a comparison compute the same bits: each pair run on the same cases, emulated or on a device.

    same code   the same machine code, constants and launch: the outputs are equal by construction, nothing ran
    equal       ran on both sides, and every bit of every output is the same
    different   the first element that differs, and how many do; or a fault of one side that the other does not have
    not run     why not: no emulator for it, no cases, a fault that both have

Emulated results are kept, by the hashes of both codes, of the cases and of what executes: a second run takes seconds.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.bundle import Bundle, Fault
from assay.codegen.records import canonical_json, sha256_hex
from assay.codegen.store import Store
from assay.codegen.workers import WorkerDied, Workers, finished, result_of
from assay.objects.amd_chips import RDNA4

from ..device.errors import NotAvailable
from ..emulating import judged_by
from ..executing import cannot_import, missing_packages
from .errors import CompareError
from .launches import emulation_request, same_launch
from .records import Built, Pair, Side

if TYPE_CHECKING:
    from .output_bits import FirstDifference

Verdict = Literal["same code", "equal", "different", "not run"]
SAME_CODE, EQUAL, DIFFERENT, NOT_RUN = "same code", "equal", "different", "not run"

_KIND = "outputs"
# 32,768 keys take an emulator half a minute; a machine that is busy with other things a few times that.
_TIME_LIMIT = 1800.0
_SAME_LEVELS = ("identical_bytes", "identical_code_section")


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """What running a pair gave. cases: that ran on both sides. points: of the isolation set, by name, that the pair
    answers. difference: where both ran and differ. detail: why it was not run, or which side's fault is the difference.
    """

    verdict: Verdict
    cases: int = 0
    points: tuple[str, ...] = ()
    difference: FirstDifference | None = None
    detail: str = ""

    @property
    def said(self) -> str:
        """The difference, or why there is no answer, in words; empty where all is equal."""
        return str(self.difference) if self.difference else self.detail

    def to_dict(self) -> dict[str, Any]:
        """As `--json` has it."""
        difference = self.difference.to_dict() if self.difference else None
        document = {"verdict": self.verdict, "cases": self.cases, "difference": difference}
        document |= {"points": list(self.points)} if self.points else {}
        return document | ({"detail": self.detail} if self.detail else {})


@dataclass(frozen=True, slots=True)
class OutputsRequest:
    """device: as `assay run` takes it, or None for the emulator's worker processes. case_set: one of
    case_sets.CASE_SETS. cache: folder of kept results. jobs: processes."""

    device: str | None
    case_set: str
    cache: Path
    jobs: int


Report = Callable[[Pair, PairOutputs], None]


def compare_outputs(
    left: Side, right: Side, pairs: Iterable[Pair], request: OutputsRequest, report: Report
) -> list[tuple[Pair, PairOutputs]]:
    """Every pair that has code on both sides, in order; of the isolation set those that answer a call of it.

    report: told of each as it is done.

    Raises BadRequest for a device of no such name, CompareError for a lock, NotAvailable without the emulator's
    packages, CacheError and ToolchainError of the machine.
    """
    pairs = tuple(pairs)
    _check(left, right, pairs, request)
    wanted = with_code(pairs, request.case_set)
    with _OnDevice(left, right, request) if request.device else _Emulated(request) as runner:
        waiting = [(pair, runner.submit(pair)) for pair in wanted]
        done = []
        for pair, future in waiting:
            outputs = future.result()
            report(pair, outputs)
            done.append((pair, outputs))
    return done


def _check(left: Side, right: Side, pairs: Sequence[Pair], request: OutputsRequest) -> None:
    """Raises BadRequest for no such device, and CompareError for a lock: nothing would be run, and all of it equal."""
    if request.device is not None:
        from ..device.opening import check_device_name

        check_device_name(request.device)
    if pairs and (locks := [side.name for side in (left, right) if side.kind == "lock"]):
        allowed = "bundles or revisions"
        raise CompareError(Fault(name, "is a lock, which holds no code to run", allowed) for name in locks)


def nothing_ran(results: Sequence[tuple[Pair, PairOutputs]]) -> bool:
    """Whether there were pairs to run, and none of them could be."""
    verdicts = {outputs.verdict for _, outputs in results} - {SAME_CODE}
    return verdicts == {NOT_RUN}


def _built(pair: Pair) -> tuple[Built, Built] | None:
    if pair.left is None or pair.right is None or pair.left.built is None or pair.right.built is None:
        return None
    return pair.left.built, pair.right.built


def with_code(pairs: Iterable[Pair], case_set: str) -> list[Pair]:
    """Those that outputs are compared of."""
    return [pair for pair in pairs if _is_wanted(pair, case_set)]


def _is_wanted(pair: Pair, case_set: str) -> bool:
    found = _built(pair)
    return found is not None and (case_set != "isolation" or bool(_points(found[0], case_set)))


def _points(built: Built, case_set: str) -> tuple[str, ...]:
    if case_set != "isolation":
        return ()
    from .case_sets import isolation_names

    return isolation_names(built.row.family, built.record.problem)


class _Runner:
    """What both ways of running have in common."""

    def __init__(self, request: OutputsRequest):
        self._request = request

    def submit(self, pair: Pair) -> Future[PairOutputs]:
        found = _built(pair)
        assert found is not None
        left, right = found
        points = _points(left, self._request.case_set)
        if pair.level in _SAME_LEVELS and same_launch(left, right):
            return finished(PairOutputs(SAME_CODE, points=points))
        return self._run(left, right, points)

    def _run(self, left: Built, right: Built, points: tuple[str, ...]) -> Future[PairOutputs]:
        raise NotImplementedError


class _Emulated(_Runner):
    """In worker processes, results kept by the hash of all that decides them."""

    def __init__(self, request: OutputsRequest):
        super().__init__(request)
        if faults := missing_packages("emulated", {"numpy": "numpy", "tinygrad": "tinygrad"}, "emulate"):
            raise NotAvailable(faults)
        self._store = Store(request.cache, _KIND)
        self._workers = Workers(request.jobs)

    def __enter__(self) -> _Emulated:
        self._workers.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._workers.__exit__(*given)

    def _run(self, left: Built, right: Built, points: tuple[str, ...]) -> Future[PairOutputs]:
        if left.target.backend != "hip" or left.target.arch not in RDNA4:
            given = f"{left.target.arch} has no emulator: compare on such a GPU, with --device"
            return finished(PairOutputs(NOT_RUN, points=points, detail=given))
        requests = emulation_request(left), emulation_request(right)
        key = _key(requests, self._request.case_set)
        if known := self._store.get(key):
            return finished(_decoded(known, points))
        task = [*requests, self._request.case_set]
        work = self._workers.submit(_compare_in_worker, task, _TIME_LIMIT)
        result: Future[PairOutputs] = Future()
        work.add_done_callback(lambda done: self._finish(key, done, result, points))
        return result

    def _finish(self, key: str, work: Future[Any], result: Future[PairOutputs], points: tuple[str, ...]) -> None:
        try:
            made = result_of(work, _TIME_LIMIT)
            self._store.put(key, made)
            result.set_result(_decoded(made, points))
        except WorkerDied as death:
            result.set_result(PairOutputs(NOT_RUN, points=points, detail=f"the emulator process {death}"))
        except BaseException as error:
            result.set_exception(error)


class _OnDevice(_Runner):
    """One pair after the other; a side's bundle is opened when its target is first met."""

    def __init__(self, left: Side, right: Side, request: OutputsRequest):
        super().__init__(request)
        self._sides = left, right
        self._opened: dict[str, Any] = {}

    def __enter__(self) -> _OnDevice:
        return self

    def __exit__(self, *_: object) -> None:
        for runs in self._opened.values():
            if not isinstance(runs, str):
                runs.__exit__()

    def _run(self, left: Built, right: Built, points: tuple[str, ...]) -> Future[PairOutputs]:
        runs = self._runs(left.row.target)
        if isinstance(runs, str):
            return finished(PairOutputs(NOT_RUN, points=points, detail=runs))
        return finished(_decoded(runs.compare(left, right, self._request.case_set), points))

    def _runs(self, target: str) -> Any:
        """The target's bundles on the device, or why they are not there."""
        if target not in self._opened:
            from .device_outputs import DeviceRuns

            try:
                files = [file_with(side, target) for side in self._sides]
                self._opened[target] = DeviceRuns(*files, self._request.device or "")
            except NotAvailable as error:
                self._opened[target] = str(error).splitlines()[0]
        return self._opened[target]


def file_with(side: Side, target: str) -> Path:
    """The side's bundle that holds a target. Raises NotAvailable where none does."""
    for path in side.files:
        with Bundle.open(path) as bundle:
            if any(record.name == target for record in bundle.manifest.targets):
                return path
    raise NotAvailable(Fault(f"{side.name}: {target}", "in no bundle", "", "a lock holds no code to run"))


def _compare_in_worker(left: dict[str, Any], right: dict[str, Any], case_set: str) -> dict[str, Any]:
    """In the worker: only there the emulator is imported."""
    try:
        from .emulated_outputs import compare_in_worker
    except ImportError as error:
        raise cannot_import("emulated", error) from None
    return compare_in_worker(left, right, case_set)


def _decoded(made: Mapping[str, Any], points: tuple[str, ...]) -> PairOutputs:
    from .output_bits import FirstDifference

    if made["fault"]:
        return PairOutputs(DIFFERENT if made["one_sided"] else NOT_RUN, made["cases"], points, detail=made["fault"])
    if made["difference"] is None:
        return PairOutputs(EQUAL, made["cases"], points)
    return PairOutputs(DIFFERENT, made["cases"], points, FirstDifference.from_dict(made["difference"]))


def _key(requests: tuple[dict[str, Any], ...], case_set: str) -> str:
    sides = [
        {**request, "code": hashlib.sha256(request["code"]).hexdigest(), "tolerance": None} for request in requests
    ]
    return sha256_hex(canonical_json({"sides": sides, "cases": case_set, "judged_by": _judged_by()}))


@functools.cache
def _judged_by() -> dict[str, str]:
    """As verdicts of the emulator, and the modules of this folder that compare."""
    digest = hashlib.sha256()
    for name in ("emulated_outputs", "output_bits", "case_sets"):
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return {**judged_by(), "comparing": digest.hexdigest()}
