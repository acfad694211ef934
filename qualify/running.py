"""`assay run`: cases of one family, or one decode call of any size, through a bundle on a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Fault
from assay.bundle.faults import did_you_mean
from assay.reference import NoReference
from assay.reference.attention import CAP, CallShape
from assay.reference.judging import limits_of

from .device.calls import STAGE_1, Call, case_calls, decode_call
from .device.checking import Check, Checking
from .device.errors import BadRequest
from .device.opening import Opened, open_device, open_undamaged
from .device.qualifying import queries_of, worst
from .device.rows import Built, Wanted, built_rows, matching, spelled

SCHEMA = "assay.run/1"
# What makes a decode call of one size out of a request, and the values that stand in where others are given.
SIZES: Mapping[str, Any] = {
    "batch": 1, "keys": 512, "splits": None, "kv_heads": 1, "seed": 0, "window_length": None, "sinks": False,
    "gqa": None,
}  # fmt: skip
# A call's caches and its reference are held in memory: rows of a cache, of one KV head each, and of the queries.
_MOST_KEYS = 1 << 22
_MOST_HEADS = 1 << 14
_LIMITS = {
    "batch": (1, 4096), "gqa": (1, 512), "keys": (0, _MOST_KEYS), "splits": (1, 128), "kv_heads": (1, 256),
    "seed": (0, 2**63 - 1), "window_length": (1, 2**31 - 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What is asked for.  facts: axis values, and sizes of a decode call, by name.

    cases: names; none for all.  every_row: each row that matches is forced in turn.  force: the first one is forced;
    without either, the dispatch answers for the first one's cases.
    """

    bundle: Path
    family: str
    facts: Mapping[str, Any]
    device: str = "emulator"
    cases: tuple[str, ...] = ()
    every_row: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """One check, and the row whose problem it was made for.  limits: (absolute, relative) of each output."""

    meant: Built
    limits: Mapping[str, tuple[float, float]]
    check: Check


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a request gave.  labels: of all rows that answered, by id."""

    request: RunRequest
    identity: str
    device: Mapping[str, Any]
    labels: Mapping[str, str]
    ran: tuple[Ran, ...]

    @property
    def verdict(self) -> str:
        """The worst of the checks."""
        return worst([item.check.verdict for item in self.ran])


def run(request: RunRequest) -> RunResult:
    """Raises BadRequest for what cannot be meant, with all that is wrong, and NotAvailable without the device."""
    with open_undamaged(request.bundle) as bundle:
        if request.family not in bundle.families():
            known = bundle.families()
            hint = did_you_mean(request.family, known)
            raise BadRequest(Fault(f"{request.bundle}: family", request.family, ", ".join(known), hint))
        every = [
            item
            for item in built_rows(bundle, (target.name for target in bundle.manifest.targets))
            if item.row.family == request.family
        ]
        _rows(every, request)
    with open_device(request.bundle, request.device) as opened:
        held = {target.name for target in opened.kernels.targets}
        here = [item for item in every if item.row.target in held]
        return _run(opened, request, _rows(here, request))


def _rows(every: Sequence[Built], request: RunRequest) -> list[Built]:
    """The rows that match, or the first of them."""
    sizes = set(SIZES) if request.family == STAGE_1 else set()
    wanted: Wanted = {name: (spelled(value),) for name, value in request.facts.items() if name not in sizes}
    if request.family == STAGE_1:
        wanted = {**_window(request), **wanted}
    found = matching(every, wanted, f"run {request.family}", also=sorted(sizes))
    if request.every_row:
        return found
    # Of rows that differ in it alone, plain attention is what a call of some size means.
    return [next((item for item in found if not item.problem.get("window")), found[0])] if found else []


def _window(request: RunRequest) -> Wanted:
    """A window's length asks for a row with one.  Raises BadRequest where a window is refused all the same."""
    length, window = request.facts.get("window_length"), request.facts.get("window")
    if length is not None and window is False:
        raise BadRequest(Fault("window_length", f"{length} with window=false", "a length, or no window"))
    return {} if length is None else {"window": ("true",)}


def _run(opened: Opened, request: RunRequest, rows: Sequence[Built]) -> RunResult:
    kernels = opened.kernels
    one_call = request.family == STAGE_1 and not SIZES.keys().isdisjoint(request.facts)
    ran = []
    for meant in rows:
        forced = meant.row.id if request.force or request.every_row else None
        calls = _decode_calls(opened, request, meant, forced) if one_call else _case_calls(opened, meant, forced)
        ran += [Ran(meant, _limits(call), Checking(opened, call).launch()) for call in _chosen(calls, request.cases)]
    answered = {id for item in ran for id in item.check.rows}
    return RunResult(
        request,
        kernels.identity,
        {"name": kernels.driver.name, "arch": kernels.driver.device[1], **kernels.driver.describe()},
        {id: _label(kernels.variant(id).problem) for id in sorted(answered)},
        tuple(ran),
    )


def _case_calls(opened: Opened, meant: Built, forced: str | None) -> list[Call]:
    try:
        return case_calls(opened.kernels, meant.row.family, meant.problem, forced)
    except NoReference as error:
        raise BadRequest(Fault("", str(error))) from error


def _decode_calls(opened: Opened, request: RunRequest, meant: Built, forced: str | None) -> list[Call]:
    given = {name: value for name, value in request.facts.items() if name in SIZES}
    if faults := list(_size_faults(given)):
        raise BadRequest(faults)
    sizes = {**SIZES, **given}
    window = sizes["window_length"]
    if window is None and meant.problem["window"]:
        window = max(1, sizes["keys"] // 2)
    rows, gqa = queries_of(meant.problem["rows"], meant.problem["block_m"])
    shape = CallShape(
        head_dim=meant.problem["head_dim"],
        gqa=sizes["gqa"] or gqa,
        kv_format=meant.problem["kv_format"],
        rows=rows,
        logit_cap=CAP if meant.problem["soft_cap"] else None,
        keys=(sizes["keys"],) * sizes["batch"],
        kv_heads=sizes["kv_heads"],
        window=window,
        sinks=sizes["sinks"],
        splits=sizes["splits"],
        seed=sizes["seed"],
    )
    return [decode_call(opened.kernels, shape, forced)]


def _size_faults(given: Mapping[str, Any]) -> Iterable[Fault]:
    for name, value in given.items():
        if name == "sinks":
            if type(value) is not bool:
                yield Fault(f"{name}={value}", "", "true or false")
        elif type(value) is not int or not _LIMITS[name][0] <= value <= _LIMITS[name][1]:
            low, high = _LIMITS[name]
            yield Fault(f"{name}={value}", "", f"{low:,} to {high:,}")
    batch, keys, kv_heads = (given.get(name, SIZES[name]) for name in ("batch", "keys", "kv_heads"))
    if not all(type(value) is int for value in (batch, keys, kv_heads)):
        return
    if batch * keys * kv_heads > _MOST_KEYS:
        yield Fault("batch x keys x kv_heads", f"{batch * keys * kv_heads:,}", f"at most {_MOST_KEYS:,}")
    if batch * kv_heads > _MOST_HEADS:
        yield Fault("batch x kv_heads", f"{batch * kv_heads:,}", f"at most {_MOST_HEADS:,}")


def _limits(call: Call) -> dict[str, tuple[float, float]]:
    return {name: limits_of(call.case, name, call.tolerance) for name in call.case.outputs}


def _chosen(calls: Sequence[Call], names: Sequence[str]) -> list[Call]:
    known = {call.case.name: call for call in calls}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadRequest([Fault("--case", repr(name), "; ".join(known), did_you_mean(name, known)) for name in unknown])
    return [known[name] for name in names] if names else list(calls)


def _label(problem: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={spelled(value)}" for name, value in problem.items())


def document(result: RunResult) -> dict[str, Any]:
    """What `assay run --json` prints."""
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "bundle": str(result.request.bundle),
        "identity": result.identity,
        "device": dict(result.device),
        "family": result.request.family,
        "request": dict(result.request.facts),
        "rows": dict(result.labels),
        "results": [
            {
                "meant": item.meant.row.id,
                "problem": dict(item.meant.problem),
                "limits": {name: list(limits) for name, limits in item.limits.items()},
                **asdict(item.check),
            }
            for item in result.ran
        ],
    }
