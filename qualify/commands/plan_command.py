"""`assay plan`: what would be built."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.codegen.specs import load_specs
from assay.qualify import planning, terminal

from .options import json_option, only_option, profile_option, specs_option


@click.command("plan")
@click.option("--target", "targets", multiple=True, help="Target to plan for; default: all of them.")
@profile_option
@specs_option
@only_option
@json_option
def plan_command(
    targets: tuple[str, ...], profile: str, specs: Path, only: dict[str, tuple[str, ...]], as_json: bool
) -> int:
    """Show what would be built and what the constraints exclude; nothing is compiled."""
    loaded = load_specs(specs)
    plan = planning.make_plan(loaded, targets or tuple(loaded.targets), profile, only)
    if as_json:
        click.echo(json.dumps(plan, ensure_ascii=False))
    else:
        planning.print_plan(terminal.console(), plan)
    return 0
