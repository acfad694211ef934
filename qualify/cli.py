"""The command line: options in, exit statuses and printed text out.  Each command's work is in a module of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from assay import kernel_specs
from assay.bundle import Bundle, BundleError, FaultsError, verify_bundle
from assay.codegen.builder import DEFAULT_TIME_LIMIT, default_jobs
from assay.codegen.cache import CacheError, default_cache_directory
from assay.codegen.specs import load_specs
from assay.codegen.toolchain import ToolchainError

from . import explaining, inspection, planning, terminal
from .lock import LockError
from .run import RunOptions, RunResult, qualify
from .verification import object_faults

FAILED, BAD_INPUT, BAD_ENVIRONMENT, NO_EVIDENCE = 1, 2, 3, 4
EVIDENCE_LEVELS = ("static", "interpreted", "emulated", "retargeted", "device")


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        status = assay.main(arguments, prog_name="assay", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.Abort:
        return 130
    except (ToolchainError, CacheError) as error:
        return _say(error, BAD_ENVIRONMENT)
    except LockError as error:
        return _say(error, FAILED)
    except BundleError as error:
        return _say(error, BAD_ENVIRONMENT)
    except FaultsError as error:
        return _say(error, BAD_INPUT)


def _say(error: FaultsError, status: int) -> int:
    out = terminal.console(error=True)
    for fault in error.faults:
        out.print(str(fault), style="red", markup=False, soft_wrap=True)
    return status


class _Only(click.ParamType):
    """`family=decode_attention,gqa=4,gqa=8`: a name given twice means either value."""

    name = "NAME=VALUE[,…]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, tuple[str, ...]]:
        if isinstance(value, dict):
            return value
        chosen: dict[str, tuple[str, ...]] = {}
        for item in value.split(","):
            name, equals, wanted = item.strip().partition("=")
            if not (name and equals and wanted):
                self.fail(f"{item!r} is not NAME=VALUE", param, ctx)
            chosen[name] = (*chosen.get(name, ()), wanted)
        return chosen


_specs_option = click.option(
    "--specs",
    type=click.Path(path_type=Path),
    default=Path(kernel_specs.DIRECTORY),
    show_default="assay's own",
    help="Directory of targets/, profiles/, families/ and templates/.",
)
_profile_option = click.option("--profile", default="core", show_default=True, help="How much is built.")
_only_option = click.option("--only", type=_Only(), default=dict, help="A part: family and axis values.")
_json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on standard output.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="assay")
def assay() -> None:
    """Build GPU kernels ahead of time and prove each binary before it ships."""


@assay.command("qualify")
@click.option("--target", required=True, help="Target to build for, such as gfx1201.")
@_profile_option
@click.option("--jobs", type=click.IntRange(1, 512), default=default_jobs, show_default="processors")
@click.option("--evidence", type=click.Choice(EVIDENCE_LEVELS), help="Evidence to ask for; default: the target's.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("artifacts"), show_default=True)
@click.option(
    "--lock", type=click.Path(path_type=Path), help="Lock to compare with; default: OUT/TARGET/qualified.PROFILE.lock."
)
@click.option("--update-lock", is_flag=True, help="Accept every difference to the lock.")
@click.option("--check", is_flag=True, help="Judge only; write no bundle, lock or report.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=1),
    default=DEFAULT_TIME_LIMIT,
    show_default=True,
    help="Seconds a kernel.",
)
@_specs_option
@_only_option
@_json_option
def qualify_command(
    target: str,
    profile: str,
    jobs: int,
    evidence: str | None,
    out: Path,
    lock: Path | None,
    update_lock: bool,
    check: bool,
    time_limit: float,
    specs: Path,
    only: dict[str, tuple[str, ...]],
    as_json: bool,
) -> int:
    """Compile every problem's candidates, judge their binaries, write the bundle of those that qualify."""
    loaded = load_specs(specs)
    default_evidence = loaded.target(target).evidence  # an unknown target is bad input, whatever evidence is asked for
    level = evidence or default_evidence
    if level != "static":
        message = (
            f"evidence {level!r} cannot be produced here: this build of assay reads binaries (static) and runs none"
        )
        terminal.console(error=True).print(message, style="red")
        return NO_EVIDENCE
    if check and update_lock:
        raise click.UsageError("--check writes nothing and --update-lock writes the lock: give one of them")
    options = RunOptions(
        target=target,
        profile=profile,
        out=out,
        lock=lock,
        cache=default_cache_directory(),
        jobs=jobs,
        time_limit=time_limit,
        only=only,
        update_lock=update_lock,
        check=check,
    )
    with terminal.Progress(f"{target} {profile}") as progress:
        result = qualify(loaded, options, progress.start)
    if as_json:
        click.echo(json.dumps(result.document, ensure_ascii=False))
    _print_run(terminal.console(error=as_json), loaded.target(target), options, result)
    return result.status


def _print_run(out: Any, target: Any, options: RunOptions, run: RunResult) -> None:
    terminal.print_results(out, target, run.results)
    terminal.print_changes(out, run.changes)
    for warning in run.warnings:
        out.print(f"warning: {warning}", style="yellow", markup=False)
    for message in run.messages:
        out.print(message, style="bold red" if run.status else "", markup=False)
    for path in run.written:
        out.print(f"wrote {path}", markup=False)
    qualified = sum(result.qualified for result in run.results)
    said = f"{qualified} of {len(run.results)} problems have a qualified variant (evidence: static)"
    identity = f"; bundle {run.identity[:16]}" if run.identity else ""
    style = "bold green" if run.status == 0 else "bold red"
    out.print(f"{options.target} {options.profile}: {run.verdict}: {said}{identity}", style=style)


@assay.command("plan")
@click.option("--target", "targets", multiple=True, help="Target to plan for; default: all of them.")
@_profile_option
@_specs_option
@_only_option
@_json_option
def plan_command(
    targets: tuple[str, ...], profile: str, specs: Path, only: dict[str, tuple[str, ...]], as_json: bool
) -> int:
    """Show what would be built and what the constraints exclude; nothing is compiled."""
    loaded = load_specs(specs)
    plan = planning.make_plan(loaded, targets or tuple(loaded.targets), profile, only)
    if as_json:
        click.echo(json.dumps(plan, ensure_ascii=False))
    else:
        planning.print_plan(terminal.console(), plan)
    return 0


@assay.command("inspect")
@click.argument("file", type=click.Path(path_type=Path))
@_json_option
def inspect_command(file: Path, as_json: bool) -> int:
    """Resources of any HSACO, CUBIN or bundle, whoever made it."""
    document = inspection.inspect_file(file)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        inspection.print_document(terminal.console(), document)
    return 0


@assay.command("verify")
@click.argument("bundle", type=click.Path(path_type=Path))
@_json_option
def verify_command(bundle: Path, as_json: bool) -> int:
    """Check every hash, the schema, every reference and every code object of a bundle."""
    faults = verify_bundle(bundle, object_faults)
    if as_json:
        document = {"schema": "assay.verify/1", "bundle": str(bundle), "verdict": "failed" if faults else "verified"}
        click.echo(json.dumps({**document, "faults": [str(fault) for fault in faults]}, ensure_ascii=False))
    out = terminal.console(error=as_json or bool(faults))
    for fault in faults:
        out.print(str(fault), style="red", markup=False, soft_wrap=True)
    if faults:
        return FAILED
    with Bundle.open(bundle) as opened:
        rows = sum(len(opened.rows(family)) for family in opened.families())
        said = (
            f"{bundle}: verified; {rows} rows, {len(opened.object_hashes())} code objects, identity {opened.identity}"
        )
    out.print(said, style="green", markup=False, soft_wrap=True)
    return 0


@assay.command("explain")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("family")
@click.argument("request", nargs=-1, metavar="[KEY=VALUE]...")
@_json_option
def explain_command(bundle: Path, family: str, request: tuple[str, ...], as_json: bool) -> int:
    """Which row answers a call, and why not the others."""
    return explaining.explain_request(bundle, family, explaining.parse_request(request), as_json)
