"""`assay compare`: what differs between two builds, and whether that is only what may."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.codegen.builder import default_jobs
from assay.codegen.cache import default_cache_directory
from assay.qualify import terminal

from .options import FAILED, NO_EVIDENCE, Only, all_of, json_option, profile_option

if TYPE_CHECKING:
    from assay.qualify.comparing.outputs import OutputsRequest, PairOutputs
    from assay.qualify.comparing.records import Pair
    from assay.qualify.comparing.running import Comparison

# As case_sets.CASE_SETS, whose module needs numpy; only a run of outputs does.
CASES = ("chosen", "every", "isolation")


@click.command("compare")
@click.argument("left", metavar="A")
@click.argument("right", required=False, metavar="[B]")
@click.option("--target", "targets", multiple=True, help="Target to compare; may be repeated. Default: see above.")
@profile_option
@click.option(
    "--part", type=Only(), multiple=True, callback=all_of,
    help="Compare and build a part: family and axis values, as --only of assay qualify.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="NAME=VALUE[,…]",
    help="The only variants that may differ, by target, family and axes; may be repeated.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, metavar="RULE",
    help="What may differ, and where: code,resources,family=merge_splits; may be repeated.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 512), default=default_jobs, show_default="processors")
@click.option("--specs", type=click.Path(path_type=Path), help="Spec folder inside revisions; default: kernel_specs.")
@click.option(
    "--outputs", type=click.Choice(["emulated"]), help="Run both sides of what differs on the same cases as well."
)
@click.option("--device", metavar="DEVICE", help="The same on a GPU, as assay run takes it: cuda:0, hip:0.")
@click.option("--cases", type=click.Choice(CASES), default=CASES[0], show_default=True, help="Which cases.")
@click.option("--show", metavar="VARIANT", help="Both disassemblies of one variant: its id, or NAME=VALUE[,…].")
@click.option("--all", "show_all", is_flag=True, help="Every line that differs, or with --show every instruction.")
@json_option
def compare_command(
    left: str,
    right: str | None,
    targets: tuple[str, ...],
    profile: str,
    part: dict[str, tuple[str, ...]],
    only: tuple[str, ...],
    allow: tuple[str, ...],
    jobs: int,
    specs: Path | None,
    outputs: str | None,
    device: str | None,
    cases: str,
    show: str | None,
    show_all: bool,
    as_json: bool,
) -> int:
    """What differs between two builds: of each kernel the code, its launch, dispatch and resources.

    A and B are bundles, locks or git revisions, or . for the working tree; REV..REV is both, and REV...REV begins where
    they parted. Revisions are built from worktrees of their own, by their own code, through the shared cache: for
    --target, else for the other side's targets, else for those with a committed lock.

    Exit: 0 nothing differs, or only what --only and --allow name; 1 something else differs; 2 bad input, or a revision
    that does not build; 3 the environment; 4 outputs that cannot be produced here.
    """
    from assay.qualify.comparing.document import document
    from assay.qualify.comparing.outputs import OutputsRequest, nothing_ran
    from assay.qualify.comparing.printing import print_comparison
    from assay.qualify.comparing.rules import parse_rules
    from assay.qualify.comparing.running import compare
    from assay.qualify.comparing.showing import print_pair
    from assay.qualify.comparing.sides import SideRequest
    from assay.qualify.comparing.trees import Recipe

    if outputs is not None and device is not None:
        raise click.UsageError("--outputs runs on the emulator and --device on a GPU: give one of them")
    if show is not None and as_json:
        raise click.UsageError("--show prints a listing for people: leave --json out")
    if cases != CASES[0] and outputs is None and device is None:
        raise click.UsageError(f"--cases {cases} without --outputs or --device: nothing would be run")
    rules = parse_rules(allow, only)
    recipe = Recipe(profile, part, jobs, specs)
    with contextlib.ExitStack() as stack:
        comparison = compare(SideRequest(left, right, targets, recipe), rules, _progress, stack)
        if outputs is not None or device is not None:
            request = OutputsRequest(device, cases, default_cache_directory(), jobs)
            comparison = _run_outputs(comparison, request)
        if as_json:
            click.echo(json.dumps(document(comparison), ensure_ascii=False))
        elif show is not None:
            print_pair(terminal.console(), comparison, show, all_lines=show_all)
        else:
            print_comparison(terminal.console(), comparison, show_all=show_all)
    if comparison.verdict == "different":
        return FAILED
    return NO_EVIDENCE if comparison.outputs is not None and nothing_ran(comparison.outputs.results) else 0


def _run_outputs(comparison: Comparison, request: OutputsRequest) -> Comparison:
    from assay.qualify.comparing.outputs import with_code
    from assay.qualify.comparing.running import with_outputs

    both = len(with_code([item.pair for item in comparison.judged], request.case_set))
    with terminal.Progress("outputs") as progress:
        finished = progress.count(both)

        def report(pair: Pair, outputs: PairOutputs) -> None:
            entry = pair.entry
            finished(" ".join([outputs.verdict, entry.family, "on", entry.target, *map("=".join, entry.problem)]))

        return with_outputs(comparison, request, report)


@contextlib.contextmanager
def _progress(side: str, target: str) -> Iterator[Callable[[int, str], None]]:
    """A bar for one build, or a line a problem in a log; it begins when the number of problems is known."""
    started: list[Callable[[str], None]] = []
    with terminal.Progress(f"{side} {target}") as progress:

        def finished(total: int, line: str) -> None:
            if not started:
                started.append(progress.count(total))
            started[0](f"{side} {target}: {line}")

        yield finished
