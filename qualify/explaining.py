"""`assay explain`: which row of a bundle answers a call, and why the others do not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from assay.bundle import Bundle, BundleError, Fault, Row, Verdict, explain
from assay.bundle.conditions import NOT_GIVEN
from assay.bundle.faults import did_you_mean
from assay.bundle.table import known_fields, with_products
from assay.bundle.verdicts import NEAREST, covered, nearest_first, unknown_fields
from assay.codegen.records import spell

from . import terminal
from .call_sizes import least_sizes
from .evidence_summary import verdicts_of
from .verification import file_fault

SCHEMA = "assay.explain/1"


@dataclass(frozen=True)
class _Answer:
    """What became of every row, and for each target the row that answers. Targets are not compared: a device has one.

    problems: the axes of each row's variant, by row id.  evidence: of the chosen rows, level -> verdict, by row id.
    """

    verdicts: tuple[Verdict, ...]
    chosen: dict[str, Verdict | None]
    problems: dict[str, dict[str, Any]]
    evidence: dict[str, dict[str, str]]

    def reason(self, verdict: Verdict) -> str:
        """Why the row is chosen or is not."""
        if verdict.failed:
            return f"fails {len(verdict.failed)} of {len(verdict.row.conditions)} conditions"
        first = self.chosen[verdict.row.target]
        return "chosen" if first is None or first is verdict else _comes_after(verdict.row, first.row)


def parse_request(items: tuple[str, ...]) -> dict[str, Any]:
    """`head_dim=128 window=false kv_format=bf16` with each value as the type it spells.  Raises click.UsageError."""
    request: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise click.UsageError(f"{item!r} is not KEY=VALUE")
        if name in request:
            raise click.UsageError(f"{name} is given twice")
        request[name] = _typed(value)
    return request


def _typed(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


def explain_request(bundle: Path, family: str, request: dict[str, Any], as_json: bool, show_all: bool = False) -> int:
    """Print the verdicts; 0 when a row answers, 1 when none does or the bundle cannot be read.

    Raises click.UsageError for a value that its field cannot have.
    """
    request = dict(request)
    target = request.pop("target", None)
    try:
        if unreadable := file_fault(bundle):
            raise BundleError(unreadable)
        with Bundle.open(bundle) as opened:
            rows = _rows_of(opened, family, target)
            contract = opened.manifest.families[family]
            _check_values(rows, contract, request)
            request = with_products(request, contract.get("products", {}), known_fields(opened.rows(family)))
            answer = _answer(opened, rows, request, every_problem=as_json)
    except BundleError as error:
        _warn(map(str, error.faults), "red")
        return 1
    _warn(_doubts(family, rows, request), "yellow")
    if as_json:
        click.echo(json.dumps(_document(family, request, answer), ensure_ascii=False))
    else:
        _print(answer, show_all)
    return 0 if any(answer.chosen.values()) else 1


def _rows_of(bundle: Bundle, family: str, target: Any) -> list[Row]:
    rows = list(bundle.rows(family))
    targets = sorted({row.target for row in rows})
    if target is not None and target not in targets:
        raise BundleError(
            Fault(f"target={target}", f"no row of {family}", ", ".join(targets), did_you_mean(target, targets))
        )
    return [row for row in rows if target in (None, row.target)]


def _check_values(rows: list[Row], contract: dict[str, Any], request: dict[str, Any]) -> None:
    """Values that no call can have, which would otherwise pass for a call that something or nothing answers."""
    sizes = least_sizes(contract, rows)
    said = [
        f"{name}={value}: must be at least {sizes[name]}"
        for name, value in request.items()
        if name in sizes and type(value) is int and value < sizes[name]
    ]
    kinds: dict[str, set[type]] = {}
    for condition in (condition for row in rows for condition in row.conditions):
        values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
        kinds.setdefault(condition.field, set()).update(map(type, values))
    said += [
        f"{name}={value}: true or false"
        for name, value in request.items()
        if kinds.get(name) == {bool} and type(value) is not bool
    ]
    if said:
        raise click.UsageError("; ".join(said))


def _doubts(family: str, rows: list[Row], request: dict[str, Any]) -> list[str]:
    """What may be a slip in the request: fields that nothing asks for, and fields left out that rows need."""
    said = []
    for name, hint in unknown_fields(rows, request).items():
        said.append(f"{name!r} is a condition of no row of {family}" + (f"; {hint}" if hint else ""))
    needed: dict[str, int] = {}
    for row in rows:
        for name in dict.fromkeys(condition.field for condition in row.conditions):
            needed[name] = needed.get(name, 0) + 1
    for name, count in needed.items():
        if name not in request:
            those = "1 row that needs it was" if count == 1 else f"{count} rows that need it were"
            said.append(f"{name} was not given: {those} passed over")
    return said


def _answer(bundle: Bundle, rows: list[Row], request: dict[str, Any], every_problem: bool) -> _Answer:
    verdicts = explain(rows, request)
    chosen: dict[str, Verdict | None] = dict.fromkeys(sorted({row.target for row in rows}))
    for verdict in verdicts:
        if verdict.holds and chosen[verdict.row.target] is None:
            chosen[verdict.row.target] = verdict
    shown = [v for v in verdicts if every_problem or v is chosen[v.row.target]]
    problems = {v.row.id: bundle.variant(v.row.id).problem for v in shown}
    evidence = _evidence(bundle, [v.row.id for v in chosen.values() if v is not None])
    return _Answer(verdicts, chosen, problems, evidence)


def _evidence(bundle: Bundle, ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """Level -> verdict, by row id.  Damaged evidence keeps no row from answering; it is told on standard error."""
    try:
        return {id: verdicts_of(bundle, id) for id in ids}
    except BundleError as error:
        _warn(map(str, error.faults), "yellow")
        return {id: {} for id in ids}


def _comes_after(row: Row, first: Row) -> str:
    """Why `row`, which would answer too, is tried after `first`."""
    if row.preference != first.preference:
        return f"lower preference {row.preference} < {first.preference}"
    if len(row.conditions) != len(first.conditions):
        return f"fewer conditions {len(row.conditions)} < {len(first.conditions)}"
    return f"later id {row.id} > {first.id}"


def _document(family: str, request: dict[str, Any], answer: _Answer) -> dict[str, Any]:
    chosen = {target: verdict.row.id if verdict else None for target, verdict in answer.chosen.items()}
    return {
        "schema": SCHEMA,
        "family": family,
        "request": request,
        # Of several targets none is the one: see chosen_by_target.
        "chosen": next(iter(chosen.values())) if len(chosen) == 1 else None,
        "chosen_by_target": chosen,
        "evidence": answer.evidence,
        "rows": [
            {
                "variant": verdict.row.id,
                "target": verdict.row.target,
                "preference": verdict.row.preference,
                "problem": answer.problems[verdict.row.id],
                "reason": answer.reason(verdict),
                "failed": [
                    {"field": item.field, "requested": _spelled(item.requested), "required": _spelled(item.required)}
                    for item in verdict.failed
                ],
            }
            for verdict in answer.verdicts
        ],
    }


def _print(answer: _Answer, show_all: bool) -> None:
    for target, verdict in answer.chosen.items():
        if verdict is None:
            which = f" on {target}" if len(answer.chosen) > 1 else ""
            _say(f"no row answers this call{which}", "bold red")
            for said in covered(v for v in answer.verdicts if v.row.target == target):
                _say(f"          {said}")
        else:
            row = verdict.row
            built = f"{_pairs(answer.problems[row.id])} | {_pairs(row.launch)}"
            told = ", ".join(f"{level} {found}" for level, found in answer.evidence[row.id].items())
            evidence = f"; evidence {told}" if told else ""
            _say(f"chosen    {row.id} ({target}) {built}{evidence}", "bold green")
    for verdict in answer.verdicts:
        if verdict.holds and verdict is not answer.chosen[verdict.row.target]:
            _say(f"behind it {verdict.row.id} ({verdict.row.target}): {answer.reason(verdict)}")
    failing = [verdict for verdict in nearest_first(answer.verdicts) if not verdict.holds]
    shown = len(failing) if show_all else NEAREST
    for verdict in failing[:shown]:
        reasons = "; ".join(_failure(item.field, item.requested, item.required) for item in verdict.failed)
        _say(f"no        {verdict.row.id} ({verdict.row.target}): {reasons}", "dim")
    if further := failing[shown:]:
        least = len(further[0].failed)
        others = "1 other fails" if len(further) == 1 else f"{len(further)} others fail"
        conditions = "1 condition" if least == 1 else f"{least} conditions"
        more = f"{least} or more conditions" if len(further[-1].failed) > least else conditions
        _say(f"… {others} {more} (--all shows them)", "dim")


def _failure(field: str, requested: str, required: str) -> str:
    given = NOT_GIVEN if requested == NOT_GIVEN else f"requested {_spelled(requested)}"
    return f"{field}: {given}, required {_spelled(required)}"


def _spelled(text: str) -> str:
    """A condition's or request's value in words, booleans as the command takes them."""
    return {"True": "true", "False": "false"}.get(text, text)


def _pairs(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={spell(value)}" for name, value in values.items())


def _say(line: str, style: str = "") -> None:
    # A line a row, however narrow: what is piped into grep or a file must not be cut in two.
    terminal.console().print(Text(line, style), soft_wrap=True)


def _warn(lines: Iterable[str], style: str) -> None:
    out = terminal.console(error=True)
    for line in lines:
        out.print(Text(line, style), soft_wrap=True)
