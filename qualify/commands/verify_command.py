"""`assay verify`: is a bundle whole, and are its code objects what its rows say."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.bundle import Bundle
from assay.qualify import terminal
from assay.qualify.verification import bundle_faults, file_fault

from .options import FAILED, json_option


@click.command("verify")
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def verify_command(bundle: Path, as_json: bool) -> int:
    """Check every hash, the schema, every reference, record and code object of a bundle."""
    unreadable = file_fault(bundle)
    faults = [unreadable] if unreadable else bundle_faults(bundle)
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
