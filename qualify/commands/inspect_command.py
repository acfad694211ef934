"""`assay inspect`: resources of any code object or bundle."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.qualify import inspection, terminal

from .options import json_option


@click.command("inspect")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def inspect_command(file: Path, as_json: bool) -> int:
    """Resources of any HSACO, CUBIN or bundle, whoever made it."""
    inspected = inspection.inspect_file(file)
    if as_json:
        click.echo(json.dumps(inspected.document, ensure_ascii=False))
    else:
        inspection.print_inspected(terminal.console(), inspected)
    return 0
