"""`assay explain`: which row answers a call, and why not the others."""

from __future__ import annotations

from pathlib import Path

import click

from assay.qualify import explaining

from .options import json_option


@click.command("explain")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("family")
@click.argument("request", nargs=-1, metavar="[KEY=VALUE]...")
@json_option
def explain_command(bundle: Path, family: str, request: tuple[str, ...], as_json: bool) -> int:
    """Which row answers a call, and why not the others."""
    return explaining.explain_request(bundle, family, explaining.parse_request(request), as_json)
