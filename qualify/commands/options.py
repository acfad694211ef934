"""Exit statuses and options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from assay import kernel_specs
from assay.bundle import FaultsError
from assay.bundle.faults import did_you_mean
from assay.codegen.builder import DEFAULT_TIME_LIMIT, default_jobs
from assay.qualify import terminal
from assay.qualify.reports.formats import DEFAULT, FORMATS

FAILED, BAD_INPUT, BAD_ENVIRONMENT, NO_EVIDENCE = 1, 2, 3, 4


def print_faults(error: FaultsError) -> None:
    """Every fault on a line of its own, on standard error."""
    out = terminal.console(error=True)
    for fault in error.faults:
        out.print(str(fault), style="red", markup=False, soft_wrap=True)


# Seconds, a day: more is a slip, and what the system's own timers cannot count ends the worker pool.
LONGEST_TIME_LIMIT = 86_400


class Finite(click.FloatRange):
    """A number in a range; neither NaN, which is in every range for click, nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number in the range {self._describe_range()}", param, ctx)
        return float(number)


class Only(click.ParamType):
    """`family=decode_attention,block_m=4,block_m=8`: a name given twice means either value."""

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


class Reports(click.ParamType):
    """`json,junit,sarif`: names of report formats, each written once."""

    name = "NAME[,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(item.strip() for item in value.split(",")))
        for item in names:
            if item not in FORMATS:
                hint = did_you_mean(item, FORMATS)
                message = f"{item!r} is not a report; allowed: {', '.join(FORMATS)}"
                self.fail(f"{message}; {hint}" if hint else message, param, ctx)
        return names


def single(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """For an option whose second value would silently replace the first."""
    if len(values) != 1:
        raise click.BadParameter(f"given {len(values)} times; allowed: once", ctx, param)
    return values[0]


def all_of(
    ctx: click.Context,  # noqa: ARG001 - as click calls it
    param: click.Parameter,  # noqa: ARG001
    parts: tuple[dict[str, tuple[str, ...]], ...],
) -> dict[str, tuple[str, ...]]:
    """What several `--only` choose together: as if they were one, with commas between."""
    chosen: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for name, values in part.items():
            chosen[name] = (*chosen.get(name, ()), *values)
    return chosen


def _each_once(
    ctx: click.Context,  # noqa: ARG001 - as click calls it
    param: click.Parameter,  # noqa: ARG001
    given: tuple[tuple[str, ...], ...],
) -> tuple[str, ...]:
    """The reports that several `--report` name."""
    return tuple(dict.fromkeys(name for names in given for name in names))


specs_option = click.option(
    "--specs",
    type=click.Path(path_type=Path),
    default=Path(kernel_specs.DIRECTORY),
    show_default="assay's own",
    help="Directory of targets/, profiles/, families/ and templates/.",
)
profile_option = click.option("--profile", default="core", show_default=True, help="How much is built.")
report_option = click.option(
    "--report",
    "reports",
    type=Reports(),
    multiple=True,
    callback=_each_once,
    default=[",".join(DEFAULT)],
    show_default=",".join(DEFAULT),
    help=f"Reports to write, of {', '.join(FORMATS)}; also when the run fails.",
)
only_option = click.option(
    "--only",
    type=Only(),
    multiple=True,
    callback=all_of,
    help="A part: family and axis values; several are taken together, values of one name as either.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on standard output.")
jobs_option = click.option("--jobs", type=click.IntRange(1, 512), default=default_jobs, show_default="processors")


def time_limit_option(of: str) -> Callable[[Any], Any]:
    """`--time-limit`: seconds that `of` may take."""
    return click.option(
        "--time-limit",
        type=Finite(min=1, max=LONGEST_TIME_LIMIT),
        default=DEFAULT_TIME_LIMIT,
        show_default=True,
        help=f"Seconds {of}.",
    )
