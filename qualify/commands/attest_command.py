"""`assay attest`: evidence files of devices into the bundle that they are of."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import click

from assay.bundle import Fault
from assay.qualify import terminal
from assay.qualify.device.errors import NotAvailable

from .options import FAILED, json_option


@click.command("attest")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="EVIDENCE...")
@json_option
def attest_command(bundle: Path, files: tuple[Path, ...], as_json: bool) -> int:
    """Merge what `assay qualify-device` wrote into the bundle's evidence; its identity stays what it is.

    What a companion ran becomes evidence of level retargeted, of the bundle that the companion is of. A file of another
    bundle or architecture, or one whose figures contradict each other, is refused, and the bundle is left as it was. A
    failure is recorded like a pass, and outweighs it.

    Exit: 0 merged, 1 merged and a variant has failed on a device, 2 refused.
    """
    if importlib.util.find_spec("numpy") is None:
        raise NotAvailable(Fault("attest", "numpy is not installed", "", "pip install '.[build,emulate]'"))
    from assay.qualify.attesting import attest, document

    attested = attest(bundle, files)
    if as_json:
        click.echo(json.dumps(document(attested), ensure_ascii=False))
        return FAILED if attested.failures else 0
    out = terminal.console()
    for item in attested.coverage:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in item.verdicts.items()) or "none"
        out.print(f"{item.level}: {counts}, {item.without} without", markup=False, soft_wrap=True)
    for id, said in attested.failures.items():
        out.print(f"FAIL {id}: {said}", style="red", markup=False, soft_wrap=True)
    levels = Counter(name.partition("-run/")[0] for name in attested.runs)
    runs = " and ".join(f"{count} {level} runs" for level, count in levels.items())
    said = f"{bundle}: {runs} attested, identity {attested.identity}"
    out.print(said, style="red" if attested.failures else "green", markup=False, soft_wrap=True)
    return FAILED if attested.failures else 0
