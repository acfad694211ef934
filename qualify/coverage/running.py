"""Judges lists of models against bundles: reads both, and collects what became of every call and every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bundle import Bundle, Fault, FaultsError, Row
from assay.bundle.faults import did_you_mean
from assay.bundle.table import known_fields
from assay.codegen.models import SHIPPED, load_models, pick_models
from assay.codegen.records import spell
from assay.runtime import KV_FORMATS, AssayRuntimeError, Kernels, load
from assay.runtime.calls.decode_call import MERGE, STAGE_1

from ..call_sizes import least_sizes
from ..verification import file_fault
from .calls import ENGINE_FACTS, KV_FORMAT, MODEL_FACTS, Call, calls_of
from .judging import Answer, Judge, JudgedCall
from .shadowing import shadowed

# A decode call is stage 1 and the merge.
DECODE = (STAGE_1, MERGE)


@dataclass(frozen=True, slots=True)
class CoverageRequest:
    """models: assay's own list where it is None; only and waived: names of its models.  formats: all that a bundle
    knows where there are none.  families: more than the two of decode attention.  facts: more than engines say anyway.
    """

    bundles: tuple[Path, ...]
    models: Path | None = None
    only: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    facts: Mapping[str, tuple[Any, ...]] | None = None


@dataclass(frozen=True, slots=True)
class CoveredRow:
    """reach: `answers` a call, only stands `behind` a row that does, or is of use to `none`.

    problem: the axes of its variant.  shadowed_by: the row that always outranks it.  code_bytes: None where unknown.
    """

    row: Row
    problem: Mapping[str, Any]
    reach: str
    shadowed_by: str | None
    code_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeviceCoverage:
    """Of one bundle on one device: every call, every different answer, every row of the families judged."""

    bundle: Path
    target: str
    identity: str
    calls: tuple[JudgedCall, ...]
    answers: tuple[Answer, ...]
    rows: tuple[CoveredRow, ...]
    not_judged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """models: of the list, those judged.  waived: names of models whose missing calls are no failure."""

    models: tuple[str, ...]
    formats: tuple[str, ...]
    families: tuple[str, ...]
    devices: tuple[DeviceCoverage, ...]
    waived: frozenset[str]

    @property
    def covered(self) -> bool:
        """Whether every call of every model that is not waived is answered on every device."""
        missing = (judged.call.model for device in self.devices for judged in device.calls if judged.missing)
        return all(model in self.waived for model in missing)

    @property
    def needless_waivers(self) -> list[str]:
        """Waived models of which nothing is missing."""
        missing = {judged.call.model for device in self.devices for judged in device.calls if judged.missing}
        return [name for name in self.models if name in self.waived - missing]


def cover(request: CoverageRequest) -> Coverage:
    """Judge every call on every device that a bundle has code for.  Raises FaultsError with everything wrong."""
    faults: list[Fault] = []
    models, waived = _models(request, faults)
    opened: list[tuple[Path, Kernels]] = []
    try:
        for path in request.bundles:
            opened += _opened(path, faults)
        families = tuple(dict.fromkeys((*DECODE, *request.families)))
        formats = request.formats or _formats(opened, families)
        faults += _option_faults(request, opened) if opened else []
        if opened and not formats:
            faults.append(Fault("--format", "not given, and no row asks for kv_format", ", ".join(KV_FORMATS)))
        if faults:
            raise FaultsError(faults)
        calls = calls_of(models, tuple(dict.fromkeys(formats)))
        devices = [_judged(path, kernels, families, request.facts or {}, calls) for path, kernels in opened]
    finally:
        for _, kernels in opened:
            kernels.close()
    names = tuple(model.name for model in models)
    return Coverage(names, tuple(dict.fromkeys(formats)), families, tuple(devices), waived)


def _models(request: CoverageRequest, faults: list[Fault]) -> tuple[tuple[Any, ...], frozenset[str]]:
    try:
        if request.models is not None and (unreadable := file_fault(request.models)):
            raise FaultsError(unreadable)
        models = load_models(SHIPPED if request.models is None else request.models)
    except FaultsError as error:
        faults += error.faults
        return (), frozenset()
    picked: dict[str, tuple[Any, ...]] = {"--model": models, "--allow-missing": ()}
    for option, names in (("--model", request.only), ("--allow-missing", request.waived)):
        try:
            picked[option] = pick_models(models, names, option) if names else picked[option]
        except FaultsError as error:
            faults += error.faults
    return picked["--model"], frozenset(model.name for model in picked["--allow-missing"])


def _opened(path: Path, faults: list[Fault]) -> Iterator[tuple[Path, Kernels]]:
    """The bundle once for each device that it has code for."""
    try:
        if unreadable := file_fault(path):
            raise FaultsError(unreadable)
        with Bundle.open(path) as bundle:
            devices = dict.fromkeys((target.backend, target.arch) for target in bundle.manifest.targets)
        for device in devices:
            yield path, load(path, device=device)
    except (FaultsError, AssayRuntimeError) as error:
        faults += getattr(error, "faults", None) or [Fault(str(path), str(error))]


def _formats(opened: Iterable[tuple[Path, Kernels]], families: Iterable[str]) -> tuple[str, ...]:
    """Every KV format that a row of these asks for."""
    found: set[str] = set()
    for _, kernels in opened:
        conditions = [c for f in families for row in kernels.rows_if_any(f) for c in row.conditions]
        for condition in conditions:
            if condition.field == KV_FORMAT:
                found.update(condition.value if isinstance(condition.value, tuple) else (condition.value,))
    return tuple(sorted(found))


def _option_faults(request: CoverageRequest, opened: Sequence[tuple[Path, Kernels]]) -> list[Fault]:
    """Families, formats and facts that nothing knows, and facts that no call can have."""
    families = sorted({name for _, kernels in opened for name in kernels.families()})
    formats = sorted({*KV_FORMATS, *_formats(opened, families)})
    fields = {field for _, kernels in opened for name in families for field in known_fields(kernels.rows_if_any(name))}
    facts = sorted({*ENGINE_FACTS, *fields} - {*MODEL_FACTS, KV_FORMAT})
    asked = (
        ("--family", request.families, families),
        ("--format", request.formats, formats),
        ("--fact", request.facts or {}, facts),
    )
    unknown = [
        Fault(option, name, ", ".join(known), did_you_mean(name, known))
        for option, names, known in asked
        for name in names
        if name not in known
    ]
    stated = {name: values for name, values in (request.facts or {}).items() if name in facts}
    return unknown + _size_faults(stated, _sizes(opened))


def _sizes(opened: Iterable[tuple[Path, Kernels]]) -> dict[str, int]:
    """The facts that are sizes, each with the least that every family can be asked for."""
    sizes = {name: 1 for name, values in ENGINE_FACTS.items() if type(values[0]) is int}
    held = [(kernels, family) for _, kernels in opened for family in kernels.families()]
    for kernels, family in held:
        if rows := kernels.rows_if_any(family):
            for name, least in least_sizes(kernels.contract(family), rows).items():
                sizes[name] = max(least, sizes.get(name, 0))
    return sizes


def _size_faults(facts: Mapping[str, tuple[Any, ...]], sizes: Mapping[str, int]) -> list[Fault]:
    """Values of sizes that are none: where a row only bounds them from above, they would pass for answered calls."""
    return [
        Fault("--fact", f"{name}={spell(value)}", f"an integer of at least {sizes[name]}")
        for name, values in facts.items()
        for value in values
        if name in sizes and (type(value) is not int or value < sizes[name])
    ]


def _judged(
    path: Path, kernels: Kernels, families: tuple[str, ...], engine: Mapping[str, tuple[Any, ...]], calls: list[Call]
) -> DeviceCoverage:
    try:
        judge = Judge(kernels, families, engine)
        judged = tuple(map(judge.judge, calls))
        rows = tuple(row for family in families for row in _rows(kernels, family, judge.answers()))
    except AssayRuntimeError as error:
        raise FaultsError(Fault(str(path), str(error))) from error
    return DeviceCoverage(
        bundle=path,
        target=" ".join(target.name for target in kernels.targets),
        identity=kernels.identity,
        calls=judged,
        answers=judge.answers(),
        rows=rows,
        not_judged=tuple(name for name in kernels.families() if name not in families),
    )


def _rows(kernels: Kernels, family: str, answers: Sequence[Answer]) -> Iterator[CoveredRow]:
    chosen = {answer.row.id for answer in answers if answer.row is not None}
    behind = {id for answer in answers for id in answer.behind}
    rows = kernels.rows_if_any(family)
    outranked = shadowed(rows)
    for row in rows:
        variant = kernels.variant(row.id)
        reach = "answers" if row.id in chosen else "behind" if row.id in behind else "none"
        size = variant.resources.get("code_bytes")
        yield CoveredRow(row, variant.problem, reach, outranked.get(row.id), size)
