"""`assay explain`: which row of a bundle answers a call, and why the others do not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from assay.bundle import Bundle, BundleError, Verdict, explain

from . import terminal

SCHEMA = "assay.explain/1"


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


def explain_request(bundle: Path, family: str, request: dict[str, Any], as_json: bool) -> int:
    """Print the verdicts; 0 when a row answers, 1 when none does or the bundle cannot be read."""
    out = terminal.console(error=as_json)
    wanted_target = request.pop("target", None)
    try:
        with Bundle.open(bundle) as opened:
            rows = [row for row in opened.rows(family) if wanted_target in (None, row.target)]
            verdicts = explain(rows, request)
    except BundleError as error:
        for fault in error.faults:
            terminal.console(error=True).print(str(fault), style="red", markup=False, soft_wrap=True)
        return 1
    chosen = next((verdict for verdict in verdicts if verdict.holds), None)
    if as_json:
        click.echo(json.dumps(_document(family, request, verdicts, chosen), ensure_ascii=False))
    else:
        _print(out, verdicts, chosen)
    return 0 if chosen else 1


def _document(
    family: str, request: dict[str, Any], verdicts: tuple[Verdict, ...], chosen: Verdict | None
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "family": family,
        "request": request,
        "chosen": chosen.row.id if chosen else None,
        "rows": [
            {
                "variant": verdict.row.id,
                "target": verdict.row.target,
                "preference": verdict.row.preference,
                "failed": [
                    {"field": item.field, "requested": item.requested, "required": item.required}
                    for item in verdict.failed
                ],
            }
            for verdict in verdicts
        ],
    }


def _print(out: Any, verdicts: tuple[Verdict, ...], chosen: Verdict | None) -> None:
    for verdict in verdicts:
        if verdict is chosen:
            launch = " ".join(f"{name}={value}" for name, value in verdict.row.launch.items())
            out.print(Text(f"chosen    {verdict.row.id} ({verdict.row.target}) {launch}", "bold green"))
        elif verdict.holds:
            out.print(Text(f"behind it {verdict.row.id} ({verdict.row.target}): would answer too, less specific"))
        else:
            failed = "; ".join(str(failure) for failure in verdict.failed)
            out.print(Text(f"no        {verdict.row.id} ({verdict.row.target}): {failed}", "dim"))
    if chosen is None:
        out.print(Text("no row answers this call", "bold red"))
