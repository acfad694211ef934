"""`assay wheel`: a bundle as something that pip installs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.qualify import terminal, wheel_building

from .options import json_option


@click.command("wheel")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="BUNDLE...")
@click.option("--out", default=Path("dist"), show_default=True, type=click.Path(path_type=Path), help="Folder to fill.")
@click.option("--name", help="Name of the one wheel's distribution; default: assay-kernels-TARGET.")
@click.option("--version", help="Version of each wheel; default: assay's and, locally, the bundle's identity.")
@json_option
def wheel_command(bundles: tuple[Path, ...], out: Path, name: str | None, version: str | None, as_json: bool) -> int:
    """Make an installable wheel of each verified bundle; assay.runtime.load finds it by its target's name."""
    document = wheel_building.build_wheels(bundles, out, name=name, version=version)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return 0
    printed = terminal.console()
    for wheel in document["wheels"]:
        loads = " or ".join(f'load("{loaded}")' for loaded in wheel["loads_as"])
        said = f"{wheel['rows']} rows, {wheel['bytes']:,} bytes, sha256 {wheel['sha256']}; {loads}"
        printed.print(f"wrote {wheel['wheel']}: {said}", style="green", markup=False, soft_wrap=True)
    return 0
