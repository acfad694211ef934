"""`assay plan`: what would be built."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.codegen.expand import Selection
from assay.codegen.specs import load_specs
from assay.qualify import planning

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
    selection = Selection(profile, only)
    chosen = tuple(dict.fromkeys(targets)) or tuple(loaded.targets)
    if as_json:
        sys.stdout.writelines(planning.plan_json(loaded, chosen, selection))
    else:
        sys.stdout.writelines(f"{line}\n" for line in planning.plan_lines(loaded, chosen, selection))
    return 0
