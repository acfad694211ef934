"""`assay emulate`: one foreign gfx12 HSACO on the emulator."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from assay.qualify import terminal
from assay.qualify.emulate.request import CHECKS, NEEDED, EmulateRequest
from assay.qualify.executing import EvidenceError, missing_packages

from .options import FAILED, Finite, json_option


class Grid(click.ParamType):
    """`4,1,1`: workgroups by axis, one to three of them."""

    name = "X[,Y[,Z]]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10}){0,2}", value) or 0 in map(int, value.split(",")):
            self.fail(f"{value!r} is not X[,Y[,Z]], sizes of 1 and more", param, ctx)
        return tuple(map(int, value.split(",")))


class Expected(click.ParamType):
    """`out=expected.npy`: a buffer and the file that says what it must hold."""

    name = "NAME=FILE.npy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        if isinstance(value, tuple):
            return value
        name, equals, file = value.partition("=")
        if not (name and equals and file):
            self.fail(f"{value!r} is not NAME=FILE.npy", param, ctx)
        return name, Path(file)


@click.command("emulate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Which kernel, where the file has several.")
@click.option("--grid", type=Grid(), help="Workgroups by axis; required.")
@click.option("--warps", type=int, help="Waves of 32 lanes a workgroup; required.")
@click.option("--lds", "lds_bytes", type=int, default=0, show_default=True, help="Launch-time LDS, bytes a workgroup.")
@click.option("--arg", "arguments", multiple=True, metavar="SPEC", help="One explicit argument, in order; see above.")
@click.option("--read-only", multiple=True, metavar="NAME", help="A buffer that the kernel must not write.")
@click.option("--check-off", "checks_off", multiple=True, type=click.Choice(CHECKS), help="A check to leave out.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Steps after which a launch counts as endless.")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR", help="Write every buffer to DIR/NAME.npy.")
@click.option("--expect", multiple=True, type=Expected(), metavar="NAME=FILE", help="A buffer and a .npy it must hold.")
@click.option("--atol", type=Finite(min=0), default=0.0, show_default=True, help="Absolute tolerance.")
@click.option("--rtol", type=Finite(min=0), default=0.0, show_default=True, help="Relative tolerance.")
@json_option
def emulate_command(as_json: bool, **options: Any) -> int:
    """Run one kernel of a gfx12 HSACO, whoever compiled it, on the CPU, with every check on.

    --arg, once an argument in the kernel's order; quote it for the shell:

    \b
      'x=f32[1000]:normal'   buffer x; also zeros, ones, arange, nan, uniform, a
                             number or FILE.npy; normal:7 is normal of seed 7
      'x=f16:x.npy'          buffer x, of the file's shape
      i32:98432  f32:0.5     a number by value
      null                   a pointer to nothing
    dtypes: f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 fp8 (E4M3FN)

    Triton's two scratch pointers may be left out.

    Exit: 0 ran and holds what was expected, 1 a fault or a mismatch, 2 bad usage or no gfx12 HSACO, 4 the emulate extra
    is missing.
    """
    if missing := missing_packages("emulated", NEEDED, "emulate"):
        raise EvidenceError(missing)
    # These need numpy, which the build extra does not have.
    from assay.qualify.emulate.document import document
    from assay.qualify.emulate.printing import print_emulated, print_verdict
    from assay.qualify.emulate.running import emulate_file
    from assay.qualify.emulate.watching import Watch

    with Watch() as watch:
        done = emulate_file(EmulateRequest(**options), watch.progress)
    failed = done.verdict in ("fault", "mismatch")
    if as_json:
        click.echo(json.dumps(document(done), ensure_ascii=False, allow_nan=False))
        if failed:
            print_verdict(terminal.console(error=True), done)
    else:
        print_emulated(terminal.console(), done)
    return FAILED if failed else 0
