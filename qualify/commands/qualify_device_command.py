"""`assay qualify-device`: every variant of a bundle on the device that it is for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from assay.bundle import Fault
from assay.qualify.device.errors import NotAvailable

from .options import json_option, only_option


@click.command("qualify-device")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--device", default="cuda:0", show_default=True, help="cuda:N or hip:N.")
@only_option
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Default: BUNDLE's name with .device.json or .retargeted.json.",
)
@click.option("--retarget", is_flag=True, help="BUNDLE is a companion that assay retarget made.")
@json_option
def qualify_device_command(
    bundle: Path, device: str, only: dict[str, tuple[str, ...]], evidence: Path | None, retarget: bool, as_json: bool
) -> int:
    """Run every variant on a device, directly and replayed from a graph, and whole decode calls; write the evidence.

    With --retarget the evidence is of level retargeted, and of the bundle that the companion is of.

    Where assay is not installed: python -m assay.qualify.device BUNDLE.

    Exit: 0 all passed, 1 something failed, 2 bad input, 4 something was not run: no device, driver or torch.
    """
    if importlib.util.find_spec("numpy") is None:
        raise NotAvailable(Fault("qualify-device", "numpy is not installed", "", "install numpy and torch"))
    from assay.qualify.device.command import Options, qualify_device

    options = Options(bundle=bundle, device=device, only=only, evidence=evidence, as_json=as_json, retarget=retarget)
    return qualify_device(options)
