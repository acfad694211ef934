"""`assay show`: one variant in full."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from assay.codegen.builder import DEFAULT_TIME_LIMIT
from assay.codegen.specs import load_specs
from assay.codegen.toolchain import find_toolchain
from assay.qualify import showing, terminal
from assay.qualify.finding import find_variant

from .options import json_option, specs_option


@click.command("show")
@click.argument("id")
@click.option("--target", "targets", multiple=True, help="Target to look in; default: all of them.")
@click.option("--profile", help="Profile to look in; default: all of them, core first.")
@click.option(
    "--what",
    type=click.Choice(showing.WHAT),
    multiple=True,
    help="Section to print; may be given more than once.  [default: variant with its verdict, resources, source]",
)
@click.option("--line-info", is_flag=True, help="Show the ISA with the source line of each instruction.")
@specs_option
@json_option
def show_command(
    id: str,
    targets: tuple[str, ...],
    profile: str | None,
    what: tuple[str, ...],
    line_info: bool,
    specs: Path,
    as_json: bool,
) -> int:
    """One variant, by its id or the beginning of it: verdict, resources and source, and IR and ISA; compiled anew."""
    loaded = load_specs(specs)
    toolchain = find_toolchain()
    profiles = [profile] if profile else sorted(loaded.profiles, key=lambda name: (name != "core", name))
    found = find_variant(loaded, id, targets or tuple(loaded.targets), profiles)
    shown = showing.show_variant(found, loaded.waivers, time_limit=DEFAULT_TIME_LIMIT, line_info=line_info)
    if shown.same_code is False:
        said = "warning: the build with line tables has other machine code than the one that ships; lines are a guide"
        terminal.console(error=True).print(said, style="yellow", markup=False, soft_wrap=True)
    if as_json:
        click.echo(json.dumps(showing.document(shown, toolchain), ensure_ascii=False))
    else:
        showing.print_shown(shown, what, styled=sys.stdout.isatty())
    return 0
