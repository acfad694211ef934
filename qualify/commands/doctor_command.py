"""`assay doctor`: environment, tools, devices."""

from __future__ import annotations

import click

from assay.qualify import doctoring

from .options import json_option


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """What this machine has for building and running; always ends with 0."""
    return doctoring.run(as_json)
