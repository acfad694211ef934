"""`assay coverage`: which calls of known models bundles answer, and which rows no model needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from assay.qualify import explaining, terminal

from .options import FAILED, json_option

_LISTS = (".yaml", ".yml")


@click.command("coverage")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="[MODELS.yaml] BUNDLE...")
@click.option("--model", "only", multiple=True, metavar="NAME", help="One model alone; may be repeated.")
@click.option(
    "--format", "formats", multiple=True, help="KV format; may be repeated. Default: all that a row asks for."
)
@click.option("--family", "families", multiple=True, metavar="NAME", help="Must answer too; may be repeated.")
@click.option("--fact", "facts", multiple=True, metavar="KEY=VALUE", help="More about every call; each value is tried.")
@click.option("--allow-missing", "waived", multiple=True, metavar="NAME", help="A model that need not be answered.")
@click.option(
    "--all", "show_all", is_flag=True, help="Every row that no call reaches, not only the first 8 of a family."
)
@json_option
def coverage_command(
    files: tuple[Path, ...],
    only: tuple[str, ...],
    formats: tuple[str, ...],
    families: tuple[str, ...],
    facts: tuple[str, ...],
    waived: tuple[str, ...],
    show_all: bool,
    as_json: bool,
) -> int:
    """Which row answers each decode call of each model, and which rows no model needs.

    MODELS.yaml is a list of models; without one, assay's own. A call is judged by the runtime's own dispatch, stage 1
    and merge, for every KV format, on every device that a BUNDLE has code for; as an engine would make it: 16-byte
    aligned, caches within 2 GiB and larger ones, 1 to 128 splits. --fact rows=8 says more, or something else.

    Exit: 0 all calls are answered, 1 something is missing, 2 bad input.
    """
    from assay.qualify.coverage.document import document
    from assay.qualify.coverage.printing import print_coverage
    from assay.qualify.coverage.running import CoverageRequest, cover

    models = files[0] if files[0].suffix in _LISTS else None
    bundles = files if models is None else files[1:]
    if not bundles:
        raise click.UsageError("Missing argument 'BUNDLE...'.")
    coverage = cover(CoverageRequest(bundles, models, only, waived, formats, families, _parsed(facts)))
    for name in coverage.needless_waivers:
        terminal.console(error=True).print(f"--allow-missing {name}: nothing of it is missing", style="yellow")
    if as_json:
        click.echo(json.dumps(document(coverage), ensure_ascii=False))
    else:
        print_coverage(terminal.console(), coverage, show_all=show_all, whole=not only)
    return 0 if coverage.covered else FAILED


def _parsed(items: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """`("rows=1", "rows=8")` as {"rows": (1, 8)}.  Raises click.UsageError."""
    facts: dict[str, tuple[Any, ...]] = {}
    for item in items:
        for name, value in explaining.parse_request((item,)).items():
            facts[name] = (*facts.get(name, ()), value)
    return facts
