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
@click.option("--all", "show_all", is_flag=True, help="Every row that does not answer, not only the nearest 8.")
@json_option
def explain_command(bundle: Path, family: str, request: tuple[str, ...], show_all: bool, as_json: bool) -> int:
    """Which row answers a call, and why not the others.

    The chosen row comes first, then those that would answer too and why they come after it, then the nearest of those
    that do not. KEY=VALUE is a fact of the call, such as head_dim=128 or window=false; fields that no row asks for, and
    fields left out that rows need, are told on standard error.

    In a bundle of several targets one row is chosen per target, and rows of different targets are never compared;
    target=NAME looks at one target alone. In the JSON, chosen_by_target has them all, and chosen is null unless the
    rows are of one target.

    Exit: 0 a row answers (for any target), 1 none does or the bundle cannot be read, 2 bad usage.
    """
    return explaining.explain_request(bundle, family, explaining.parse_request(request), as_json, show_all)
