"""`assay upgrade`: what another compiler version would make of every kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from packaging.version import InvalidVersion, Version

from assay.bundle.atomic import replace_file
from assay.codegen.cache import default_cache_directory
from assay.codegen.expand import Selection, expand
from assay.codegen.specs import SpecSet, load_specs
from assay.qualify import terminal
from assay.qualify.device.errors import BadRequest
from assay.qualify.placing import folder_fault

from .options import (
    FAILED,
    jobs_option,
    json_option,
    only_option,
    profile_option,
    specs_option,
    time_limit_option,
)
from .qualify_command import PRODUCED_HERE


class CompilerVersion(click.ParamType):
    """A version as a package index spells it."""

    name = "VERSION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(Version(value))
        except InvalidVersion:
            self.fail(f"{value!r} is not a version; allowed: one such as 3.9.0", param, ctx)


@click.command("upgrade")
@click.option(
    "--triton",
    "versions",
    type=CompilerVersion(),
    multiple=True,
    required=True,
    help="A version of Triton, the one in use first; at least two. Each later one is compared with the first.",
)
@click.option("--target", "targets", multiple=True, help="A target to build for; may be repeated. Default: all.")
@profile_option
@jobs_option
@click.option(
    "--evidence",
    type=click.Choice(PRODUCED_HERE),
    multiple=True,
    help="Evidence to ask for, once a level; default: the target's.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Keep the artefacts of each version here.")
@time_limit_option("a kernel")
@click.option(
    "--report", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as Markdown, too."
)
@click.option("--note", "notes", multiple=True, help="A sentence for that report, such as on the machine.")
@specs_option
@only_option
@json_option
def upgrade_command(
    versions: tuple[str, ...],
    targets: tuple[str, ...],
    profile: str,
    jobs: int,
    evidence: tuple[str, ...],
    out: Path | None,
    time_limit: float,
    page: Path | None,
    notes: tuple[str, ...],
    specs: Path,
    only: dict[str, tuple[str, ...]],
    as_json: bool,
) -> int:
    """Build the same specs with several versions of Triton, each in an environment of its own, and compare.

    The environments are made on first use, with pip as the user has configured it, and kept in the cache folder. A
    version that cannot be imported, and kernels that no longer compile or qualify, are results.

    Exit: 0 nothing lost or worse, 1 otherwise, 2 usage, 3 an environment cannot be made or a build crashed, 4 evidence
    that cannot be produced here.
    """
    from assay.qualify.upgrading.building import BuildRequest
    from assay.qualify.upgrading.document import document
    from assay.qualify.upgrading.markdown import page as markdown
    from assay.qualify.upgrading.printing import print_upgrades
    from assay.qualify.upgrading.running import UpgradeRequest, run_upgrade

    _check_usage(versions, page)
    if out is not None and (fault := folder_fault("--out", out)):
        raise BadRequest(fault)
    loaded = load_specs(specs)
    chosen = tuple(dict.fromkeys(targets)) or tuple(loaded.targets)
    _check_selection(loaded, chosen, Selection(profile, only))
    build = BuildRequest(profile, specs, only, evidence, jobs, time_limit, default_cache_directory())
    request = UpgradeRequest(versions, chosen, build, out)
    told = terminal.console(error=True)
    with terminal.Progresses() as progresses:
        upgrades = run_upgrade(
            request,
            lambda line: told.print(line, markup=False, soft_wrap=True),
            lambda what: progresses.of(what).count,
        )
    if as_json:
        click.echo(json.dumps(document(upgrades, profile), ensure_ascii=False))
    print_upgrades(terminal.console(error=as_json), upgrades)
    if page is not None:
        replace_file(page, [markdown(upgrades, request, notes).encode()])
        terminal.console(error=True).print(f"wrote {page}", markup=False, soft_wrap=True)
    return 0 if all(upgrade.harmless for upgrade in upgrades) else FAILED


def _check_usage(versions: tuple[str, ...], page: Path | None) -> None:
    """Raises click.UsageError for what would show only after minutes of building."""
    if len({Version(version) for version in versions}) != len(versions):
        raise click.UsageError("--triton names a version twice; allowed: each once")
    if len(versions) < 2:
        raise click.UsageError(f"--triton {versions[0]} alone; allowed: at least two versions, the one in use first")
    if page is not None and not page.absolute().parent.is_dir():
        raise click.UsageError(f"--report {page}: no such folder as {page.parent}")


def _check_selection(specs: SpecSet, targets: tuple[str, ...], selection: Selection) -> None:
    """Everything that is wrong with target, profile and --only shows at the first step.  Raises SpecError."""
    for target in targets:
        next(expand(specs, target, selection), None)
