"""`assay bundle`: several bundles as one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.qualify import bundling, terminal

from .options import json_option


@click.command("bundle")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="BUNDLE...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@json_option
def bundle_command(bundles: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Put several verified bundles, such as those of several targets, into one."""
    document = bundling.bundle_bundles(bundles, out)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return 0
    printed = terminal.console()
    for target in document["targets"]:
        said = f"{target['target']}: {target['rows']} rows, {target['object_bytes']:,} bytes of code objects"
        printed.print(said, markup=False, soft_wrap=True)
    said = f"{document['rows']} rows, {document['objects']} code objects, {document['bytes']:,} bytes"
    printed.print(f"wrote {out}: {said}, identity {document['identity']}", style="green", markup=False, soft_wrap=True)
    return 0
