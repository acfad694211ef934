"""`assay schema`: the JSON Schema of a kind of spec file."""

from __future__ import annotations

import click

from assay.codegen.spec_schema import KINDS, schema_text


@click.command("schema")
@click.argument("kind", type=click.Choice(tuple(KINDS)))
def schema_command(kind: str) -> int:
    """Print the JSON Schema of a kind of spec file, for an editor."""
    click.echo(schema_text(kind), nl=False)
    return 0
