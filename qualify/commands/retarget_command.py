"""`assay retarget`: a bundle's kernels re-assembled for the GPU at hand."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.codegen.cache import default_cache_directory
from assay.codegen.specs import load_specs
from assay.qualify import terminal

from .options import jobs_option, json_option, only_option, specs_option, time_limit_option


@click.command("retarget")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--for", "target", required=True, help="Target of the GPU at hand, by its file in the specs.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: BUNDLE's name with .TARGET.companion.")
@jobs_option
@time_limit_option("a step of a kernel")
@only_option
@specs_option
@json_option
def retarget_command(
    bundle: Path,
    target: str,
    out: Path | None,
    jobs: int,
    time_limit: float,
    only: dict[str, tuple[str, ...]],
    specs: Path,
    as_json: bool,
) -> int:
    """Make a companion of a bundle: its CUDA kernels for a GPU that is here, where theirs is not.

    Each kernel is compiled again, which must give the bundle's very code object; its PTX is rewritten where the other
    GPU lacks an instruction, into others that do exactly the same, and assembled for that GPU. A companion is no
    bundle: only assay qualify-device --retarget runs it, for evidence of level retargeted.

    Exit: 0 written, 1 a kernel cannot be rewritten or assembled or does not fit, 2 bad input, 3 another compiler.
    """
    # It loads numpy, which most commands do without.
    from assay.qualify import retargeting

    options = retargeting.RetargetOptions(
        bundle=bundle,
        target=target,
        out=out,
        only=only,
        cache=default_cache_directory(),
        jobs=jobs,
        time_limit=time_limit,
    )
    with terminal.Progress(f"{bundle.name} for {target}") as progress:
        result = retargeting.retarget(load_specs(specs), options, progress.count)
    if as_json:
        click.echo(json.dumps(retargeting.document(result), ensure_ascii=False))
    out_ = terminal.console(error=as_json)
    for name, count in result.rewritten().items():
        touched = sum(name in item.rewritten for item in result.variants)
        out_.print(f"rewritten {name}: {count:,} in {touched} variants", markup=False)
    for name in result.damaged:
        out_.print(f"warning: damaged cache entry {name} was made anew", style="yellow", markup=False)
    if result.left_out:
        out_.print(f"left out: {', '.join(result.left_out)}", markup=False)
    said = f"{len(result.variants)} variants of {bundle} assembled for {result.arch}"
    out_.print(f"wrote {options.companion}: {said}", style="green", markup=False, soft_wrap=True)
    return 0
