"""`assay qualify`: the main job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from assay.bundle import BundleError, Fault
from assay.codegen.cache import default_cache_directory
from assay.codegen.specs import load_specs
from assay.qualify import terminal
from assay.qualify.device.levels import DEVICE, EMULATED, INTERPRETED, LEVELS, RETARGETED, STATIC
from assay.qualify.executing import NOT_INTERPRETABLE, EvidenceError
from assay.qualify.run import RunOptions, RunResult, qualify
from assay.qualify.workaround_printing import print_workarounds

from .options import (
    jobs_option,
    json_option,
    only_option,
    profile_option,
    report_option,
    single,
    specs_option,
    time_limit_option,
)

PRODUCED_HERE = (STATIC, INTERPRETED, EMULATED)
_MADE_BY = {
    RETARGETED: (
        "assay retarget BUNDLE --for TARGET assembles a companion for the GPU at hand; there, "
        "assay qualify-device COMPANION --retarget runs it; assay attest BUNDLE EVIDENCE merges what it wrote"
    ),
    DEVICE: "assay qualify-device BUNDLE runs it where the GPU is; assay attest BUNDLE EVIDENCE merges what it wrote",
}


@click.command("qualify")
@click.option("--target", required=True, multiple=True, callback=single, help="Target to build for, such as gfx1201.")
@profile_option
@jobs_option
@click.option(
    "--evidence",
    type=click.Choice(LEVELS),
    multiple=True,
    help="Evidence to ask for, once a level; default: the target's.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("artifacts"), show_default=True)
@click.option(
    "--lock", type=click.Path(path_type=Path), help="Lock to compare with; default: OUT/TARGET/qualified.PROFILE.lock."
)
@click.option("--update-lock", is_flag=True, help="Accept every difference to the lock.")
@click.option("--check", is_flag=True, help="Judge only; write no bundle, lock or report.")
@time_limit_option("a kernel")
@click.option("--workarounds", is_flag=True, help="Compare each workaround of a family with its plain form.")
@report_option
@specs_option
@only_option
@json_option
def qualify_command(
    target: str,
    profile: str,
    jobs: int,
    evidence: tuple[str, ...],
    out: Path,
    lock: Path | None,
    update_lock: bool,
    check: bool,
    time_limit: float,
    workarounds: bool,
    reports: tuple[str, ...],
    specs: Path,
    only: dict[str, tuple[str, ...]],
    as_json: bool,
) -> int:
    """Compile every problem's candidates, judge their binaries, write the bundle of those that qualify."""
    loaded = load_specs(specs)
    default_evidence = loaded.target(target).evidence  # an unknown target is bad input, whatever evidence is asked for
    levels = evidence or (default_evidence,)
    if elsewhere := [level for level in levels if level not in PRODUCED_HERE]:
        made = ", ".join(PRODUCED_HERE)
        raise EvidenceError(
            [Fault(f"evidence {level!r}", "cannot be produced here", made, _MADE_BY[level]) for level in elsewhere]
        )
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
        reports=reports,
        evidence=tuple(level for level in PRODUCED_HERE if level in levels),
        workarounds=workarounds,
    )
    if faults := options.place_faults():
        raise BundleError(faults)
    with terminal.Progress(f"{target} {profile}") as progress:
        result = qualify(loaded, options, progress.start, progress.count)
    if as_json:
        click.echo(json.dumps(result.document, ensure_ascii=False))
    _print_run(terminal.console(error=as_json), loaded.target(target), options, result)
    return result.status


def _print_run(out: Any, target: Any, options: RunOptions, run: RunResult) -> None:
    terminal.print_results(out, target, run.results)
    terminal.print_near_limits(out, target, run.results)
    terminal.print_changes(out, run.changes)
    if run.watched is not None:
        print_workarounds(out, target, run.watched)
    for warning in run.warnings:
        out.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    for message in run.messages:
        out.print(message, style="bold red" if run.status else "", markup=False, soft_wrap=True)
    if run.lock_said:
        out.print(run.lock_said, markup=False, soft_wrap=True)
    for path in run.written:
        out.print(f"wrote {path}", markup=False, soft_wrap=True)
    if run.status:
        out.print(_no_bundle(options), markup=False, soft_wrap=True)
    out.print(
        _summary(options, run), style="bold green" if run.status == 0 else "bold red", markup=False, soft_wrap=True
    )


def _no_bundle(options: RunOptions) -> str:
    """What a failed run says of the bundle: one that lies in its place is not of this run."""
    older = f"; {options.bundle_path} is older than this run" if os.path.isfile(options.bundle_path) else ""
    return f"no bundle was written{older}"


def _summary(options: RunOptions, run: RunResult) -> str:
    """The last line: verdict, how much of what, on which evidence, by which waivers."""
    qualified = [result.chosen for result in run.results if result.chosen]
    part = " (a part: --only)" if options.only else ""
    evidence = " and ".join(options.evidence)
    said = f"{len(qualified)} of {len(run.results)} problems have a qualified variant, evidence {evidence}"
    if refused := sum(NOT_INTERPRETABLE in chosen.evidence.values() for chosen in qualified):
        said += f", {refused} of them not interpretable"
    waivers = sorted({item.waiver.name for chosen in qualified for item in chosen.waived})
    if waivers:
        by_waiver = sum(bool(chosen.waived) for chosen in qualified)
        said += f", {by_waiver} by waiver ({', '.join(waivers)})"
    if run.complaints:
        said += f", but {run.complaints[0]}"
    identity = f"; bundle {run.identity[:16]}" if run.identity else ""
    return f"{options.target} {options.profile}{part}: {run.verdict}: {said}{identity}"
