"""`assay run`: cases or one call through a bundle, on the emulator or a device."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.bundle import Fault
from assay.qualify import explaining, terminal
from assay.qualify.device.errors import NotAvailable

from .options import FAILED, json_option

if TYPE_CHECKING:
    from assay.qualify.running import RunResult


@click.command("run")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("family")
@click.argument("facts", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--device", default="emulator", show_default=True, help="emulator, emulator:ARCH, cuda:N or hip:N.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="One case alone, by its name; may be repeated.")
@click.option("--force", is_flag=True, help="Launch the first row that matches, whatever the dispatch would take.")
@click.option("--all-rows", "every_row", is_flag=True, help="Launch every row that matches, each forced in turn.")
@json_option
def run_command(
    bundle: Path,
    family: str,
    facts: tuple[str, ...],
    device: str,
    cases: tuple[str, ...],
    force: bool,
    every_row: bool,
    as_json: bool,
) -> int:
    """Launch a family's qualification cases through a bundle and print the errors against the float64 reference.

    KEY=VALUE is an axis of the problem, such as head_dim=128. Cases are those of the first row that matches, in the
    order of dispatch; the runtime picks the row that answers, and the table names it.

    For decode_attention, any of batch=, gqa=, keys= (of each request), kv_heads=, splits=, window_length=, sinks= and
    seed= makes it one call of that size: stage 1 and merge or, where nothing is split, one kernel of
    decode_attention_unsplit.

    Exit: 0 all within tolerance, 1 not all, 2 bad input or a damaged bundle, 4 the device is not there.
    """
    if importlib.util.find_spec("numpy") is None:
        raise NotAvailable(Fault("run", "numpy is not installed", "", "pip install '.[build,emulate]'"))
    # These need numpy, which the build extra does not have.
    from assay.qualify.running import RunRequest, document, run

    request = RunRequest(
        bundle=bundle,
        family=family,
        facts=explaining.parse_request(facts),
        device=device,
        cases=cases,
        every_row=every_row,
        force=force,
    )
    result = run(request)
    if as_json:
        click.echo(json.dumps(document(result), ensure_ascii=False, allow_nan=False))
    else:
        _print(result)
    return 0 if result.verdict == "pass" else FAILED


def _limit(limits: Mapping[str, tuple[float, float]]) -> str:
    """One limit where all outputs have the same, else each."""
    texts = {name: f"{absolute:g} + {relative:g} |x|" for name, (absolute, relative) in limits.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _print(result: RunResult) -> None:
    from assay.qualify.device.printing import error_text, table

    out = terminal.console()
    titles = ("case", "row", "largest error", "limit", "verdict", "seconds")
    rows = [
        (
            item.check.case,
            " ".join(id[:8] for id in item.check.rows) or "-",
            error_text(item.check.largest_error),
            _limit(item.limits),
            item.check.verdict,
            "-" if item.check.seconds is None else f"{item.check.seconds:.3f}",
        )
        for item in result.ran
    ]
    for line in table(titles, rows):
        out.print(line, markup=False, soft_wrap=True)
    for item in result.ran:
        if item.check.fault:
            said = f"{item.check.case} on {item.meant.row.id[:8]}: {item.check.fault}"
            out.print(said, style="red", markup=False, soft_wrap=True)
    for id, label in result.labels.items():
        out.print(f"row {id[:8]}: {label}", markup=False, soft_wrap=True)
    passed = sum(item.check.verdict == "pass" for item in result.ran)
    said = f"{result.request.family} on {result.device['name']}: {passed} of {len(result.ran)} within tolerance"
    style = "green" if result.verdict == "pass" else "red"
    out.print(said, style=style, markup=False, soft_wrap=True)
