"""`assay verify`: is a bundle whole, and are its code objects what its rows say."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.bundle import Bundle
from assay.bundle.companions import described
from assay.qualify import terminal
from assay.qualify.evidence_summary import summarise_evidence
from assay.qualify.verification import bundle_faults, file_fault

from .options import FAILED, json_option


def _standing(bundle: Bundle) -> str:
    """What a whole bundle is good for."""
    if bundle.manifest.companion is not None:
        return f"{described(bundle.manifest)}, not to be shipped"
    return f"evidence {str(summarise_evidence(bundle)) or 'none'}"


@click.command("verify")
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def verify_command(bundle: Path, as_json: bool) -> int:
    """Check every hash, the schema, every reference, record and code object of a bundle, or of a companion."""
    unreadable = file_fault(bundle)
    faults = [unreadable] if unreadable else bundle_faults(bundle, companion=True)
    if as_json:
        document = {"schema": "assay.verify/1", "bundle": str(bundle), "verdict": "failed" if faults else "verified"}
        click.echo(json.dumps({**document, "faults": [str(fault) for fault in faults]}, ensure_ascii=False))
    out = terminal.console(error=as_json or bool(faults))
    for fault in faults:
        out.print(str(fault), style="red", markup=False, soft_wrap=True)
    if faults:
        return FAILED
    with Bundle.open(bundle, companion=True) as opened:
        rows = sum(len(opened.rows(family)) for family in opened.families())
        said = (
            f"{bundle}: verified; {rows} rows, {len(opened.object_hashes())} code objects, identity {opened.identity}"
        )
        said += f"; {_standing(opened)}"
    out.print(said, style="green", markup=False, soft_wrap=True)
    return 0
